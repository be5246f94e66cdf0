"""Products of pairs of features that have names: `a×b`, with a weight of its own when both are revealed together."""

from typing import Any

import numpy as np
import numpy.typing as npt

from service.learning import saved
from service.learning.features.crosses import (
    PAIRS_MAX,
    NameOf,
    added_up,
    crossed,
    hashed_pairs,
    joined_names,
)
from service.learning.vectors import Array, Indices, Vector

SLOTS = 16_384
"""What pairs past the first `PAIRS_MAX` of a model share."""

Codes = npt.NDArray[np.int64]

_BASE = 1 << 25
"""More than there are names: a name's code is its place among names, that of a pair (left + 1) · `_BASE` + right."""


class NamedCrosses:
    """Names and pairs of names get a place each in the order in which they are first revealed.

    When `pairs_max` pairs have one, the next `slots` places are for all others, by their hash. Names go on behind them.
    A prediction looks pairs up and never adds one.
    """

    __slots__ = ("_codes", "_first", "_full_at", "_pairs", "_pairs_max", "_place_of", "_slots", "_sorted")

    def __init__(self, *, first: int, pairs_max: int = PAIRS_MAX, slots: int = SLOTS) -> None:
        self._first = first
        self._pairs_max = pairs_max
        self._slots = slots
        self._take(np.zeros(0, dtype=np.int64))

    def _take(self, codes: Codes) -> None:
        """What has a place, in the order of places."""
        is_pair = codes >= _BASE
        self._codes = codes
        self._pairs = int(np.count_nonzero(is_pair))
        self._full_at = len(codes)
        if self.is_full:
            self._full_at = int(np.flatnonzero(is_pair)[self._pairs_max - 1]) + 1
        order = np.argsort(codes)
        self._sorted = codes[order]
        self._place_of: Indices = self._first + order + np.where(order < self._full_at, 0, self._slots)

    @property
    def is_full(self) -> bool:
        return self._pairs == self._pairs_max

    def _find(self, codes: Codes) -> tuple[npt.NDArray[np.bool_], Indices]:
        """Which have a place, and the places of those."""
        if not len(self._sorted):
            return np.zeros(len(codes), dtype=np.bool_), np.zeros(0, dtype=np.intp)
        at = np.minimum(np.searchsorted(self._sorted, codes), len(self._sorted) - 1)
        found: npt.NDArray[np.bool_] = np.equal(self._sorted[at], codes)
        return found, self._place_of[at[found]]

    def apply(self, x: Vector) -> Vector:
        assert x.indices is not None
        left, right, products = crossed(x)
        pairs = _codes_of(left, right)
        known, places = self._find(np.concatenate((x.indices, pairs)))
        values = np.concatenate((x.values, products))[known]
        if self.is_full:
            others = ~known[len(x.indices) :]
            slots, signs = hashed_pairs(left[others], right[others], self._slots)
            places = np.concatenate((places, self._first + self._full_at + slots))
            values = np.concatenate((values, signs * products[others]))
        return added_up(places, values)

    def absorb(self, x: Vector) -> None:
        assert x.indices is not None
        left, right, _ = crossed(x)
        codes = np.concatenate((x.indices, _codes_of(left, right)))
        new = codes[~self._find(codes)[0]]
        is_pair = new >= _BASE
        names, pairs = new[~is_pair], new[is_pair][: self._pairs_max - self._pairs]
        if len(names) or len(pairs):
            self._take(np.concatenate((self._codes, names, pairs)))

    def size(self, size: int) -> int:
        return self._first + len(self._codes) + (self._slots if self.is_full else 0)

    def name(self, index: int, size: int, name_of: NameOf) -> int | str:
        at = index - self._first
        if self.is_full and at >= self._full_at:
            if at < self._full_at + self._slots:
                return f"crosses {at - self._full_at}"
            at -= self._slots
        code = int(self._codes[at])
        if code < _BASE:
            return name_of(code)
        return f"{name_of(code // _BASE - 1)}×{name_of(code % _BASE)}"

    def names_in(self, x: Vector, names: dict[int, str]) -> dict[int, str]:
        """Those of pairs that share slots; `name` knows the others."""
        if not self.is_full:
            return {}
        left, right, _ = crossed(x)
        others = ~self._find(_codes_of(left, right))[0]
        left, right = left[others], right[others]
        places = self._first + self._full_at + hashed_pairs(left, right, self._slots)[0]
        pairs = [f"{names[i]}×{names[j]}" for i, j in zip(left.tolist(), right.tolist(), strict=True)]
        return joined_names(places.tolist(), pairs)

    def state(self) -> dict[str, Any]:
        return {"codes": self._codes.astype(np.float64)}  # exact: they are below 2^50

    def restore(self, state: Any, size: int) -> None:
        (kept,) = saved.fields(state, "codes")
        most = size - self._first + self._pairs_max
        saved.check(
            isinstance(kept, np.ndarray) and kept.ndim == 1 and len(kept) <= most,
            "codes",
            f"must be an array of at most {most} numbers",
        )
        numbers = saved.array(kept, "codes", (len(kept),), least=0.0, most=float(_BASE * _BASE))
        codes = numbers.astype(np.int64)
        _check_codes(numbers, codes, self._first, size, self._pairs_max)
        self._take(codes)


def _codes_of(left: Indices, right: Indices) -> Codes:
    return (left.astype(np.int64) + 1) * _BASE + right


def _check_codes(numbers: Array, codes: Codes, first: int, size: int, pairs_max: int) -> None:
    """`saved.BadState` unless they are all names, and pairs of them, each once."""
    is_pair = codes >= _BASE
    names, pairs = np.sort(codes[~is_pair]), codes[is_pair]
    left, right = pairs // _BASE - 1, pairs % _BASE
    saved.check(
        bool((numbers == codes).all())
        and np.array_equal(names, np.arange(first, size))
        and len(pairs) <= pairs_max
        and len(np.unique(pairs)) == len(pairs)
        and bool((left >= first).all() and (left <= right).all() and (right < size).all()),
        "codes",
        "must be every name, and pairs of names, once each",
    )
