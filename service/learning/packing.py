"""Arrays as states keep them: one that is mostly empty by its entries.

A hashed model has a quarter of a million weights by default, of which few may ever be used; its snapshots and
exports shall not be of that size.
"""

from typing import Any

import numpy as np

from service.learning.vectors import Array

_SMALL = 1024
"""An array below this many entries is kept as it is."""


def packed(array: Array, fill: float = 0.0) -> Any:
    """A copy of the array, or its shape with the entries that are not `fill`, to the bit.

    >>> packed(np.array([0.0, 1.0]))
    array([0., 1.])
    >>> packed(np.eye(40))["values"].sum()
    np.float64(40.0)
    """
    if array.size < _SMALL:
        return array.copy()
    flat = array.ravel()
    is_kept = flat.view(np.int64) != np.float64(fill).view(np.int64)
    if 2 * np.count_nonzero(is_kept) >= len(flat):
        return array.copy()
    places = np.flatnonzero(is_kept)
    kept: dict[str, Any] = {"shape": list(array.shape)}
    if len(places):
        kept |= {"places": places.astype(np.int64), "values": flat[places]}
    return kept


def unpacked(kept: Any, fill: float = 0.0) -> Array:
    """The array again, which shares no memory with what was kept.

    >>> bool((unpacked(packed(np.eye(40))) == np.eye(40)).all())
    True
    """
    if not isinstance(kept, dict):
        return np.array(kept, dtype=np.float64)
    array = np.full(kept["shape"], fill) if fill else np.zeros(kept["shape"])
    if "places" in kept:
        array.ravel()[kept["places"]] = kept["values"]
    return array


class Kept:
    """A copy of a row of numbers, small if most of them are 0, that is read part by part.

    >>> kept = Kept(np.eye(1, 5000, 7)[0])
    >>> kept.size, kept.part(6, 9).tolist()
    (5000, [0.0, 1.0, 0.0])
    """

    __slots__ = ("_kept", "size")

    def __init__(self, row: np.ndarray[Any, Any], *, as_is: bool = False) -> None:
        """`as_is`: the row itself, which nobody changes any more."""
        self.size = len(row)
        self._kept = row if as_is else packed(row)

    def part(self, start: int, stop: int) -> np.ndarray[Any, Any]:
        if not isinstance(self._kept, dict):
            part: np.ndarray[Any, Any] = self._kept[start:stop]
            return part
        part = np.zeros(stop - start)
        if "places" in self._kept:
            first, last = np.searchsorted(self._kept["places"], (start, stop))
            part[self._kept["places"][first:last] - start] = self._kept["values"][first:last]
        return part
