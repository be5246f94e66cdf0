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
    places = np.flatnonzero(flat.view(np.int64) != np.float64(fill).view(np.int64))
    if 2 * len(places) >= len(flat):
        return array.copy()
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
