"""Products of pairs of features beside the features themselves: a curved boundary whose weights can be read.

Every pair counts once, a feature with itself too, whose product is its square. Pairs past a cap share slots by their
hash, as in Shi et al.: Hash kernels for structured data, JMLR 10, 2009. A pair of features that have names, `a×b`, gets
a weight of its own when both are revealed together.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from service.learning import saved
from service.learning.features.transform import Stateless
from service.learning.vectors import LARGEST, Array, Indices, Vector

PAIRS_MAX = 16_384
"""How many pairs of a model have a weight of their own. Those of at most 180 numbers do."""

CROSSED_MAX = 723
"""The most features of one example: more would make over 2^18 pairs."""

NAMES_SHOWN = 8
"""Of the pairs that share a slot."""

_SHARED_MAX = 128

NameOf = Callable[[int], int | str]


def pair_count(features: int) -> int:
    """
    >>> [pair_count(n) for n in (1, 2, 64, 180, 723)]
    [1, 3, 2080, 16290, 261726]
    """
    return features * (features + 1) // 2


def crossed_size(features: int, pairs_max: int = PAIRS_MAX) -> int:
    """How many weights so many dense features make with their pairs.

    >>> crossed_size(2), crossed_size(180), crossed_size(181)
    (5, 16470, 16565)
    """
    return features + min(pair_count(features), pairs_max)


def pairs_of(features: int) -> tuple[Indices, Indices]:
    """The left and the right of every pair: (0, 0), (0, 1) … (1, 1) …"""
    return _shared_pairs(features) if features <= _SHARED_MAX else _pairs(features)


def _pairs(features: int) -> tuple[Indices, Indices]:
    left, right = np.triu_indices(features)
    return left.astype(np.intp, copy=False), right.astype(np.intp, copy=False)


_shared_pairs = lru_cache(maxsize=_SHARED_MAX)(_pairs)  # by all models: 9 MB at most


def hashed_pairs(left: Indices, right: Indices, slots: int) -> tuple[Indices, Array]:
    """The slot of each pair, among a power of two of them, and its sign: pairs that meet cancel out on average.

    By the finalizer of SplitMix64 (Steele, Lea, Flood, 2014): whole numbers only, the same everywhere.

    >>> hashed_pairs(np.array([0, 1]), np.array([1, 1]), 1024)
    (array([485, 193]), array([-1.,  1.]))
    """
    mixed = left.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + right.astype(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    signs = np.where(mixed >> np.uint64(63), 1.0, -1.0)
    return (mixed & np.uint64(slots - 1)).astype(np.intp), signs


def added_up(places: Indices, values: Array) -> Vector:
    """A sparse vector: values that fall on the same place are added up, none beyond the largest feature.

    >>> together = added_up(np.array([7, 3, 7]), np.array([1.0, 2.0, 3.0]))
    >>> together.indices.tolist(), together.values.tolist()
    ([3, 7], [2.0, 4.0])
    """
    unique, of = np.unique(places, return_inverse=True)
    sums = np.bincount(of, values, minlength=len(unique))
    return Vector(np.clip(sums, -LARGEST, LARGEST), unique)


def joined_names(places: Iterable[int], names: Iterable[str]) -> dict[int, str]:
    """What stands at each place; a few names where several do.

    >>> joined_names([1, 2, 1], ["a×b", "b×b", "c×c"])
    {1: 'a×b | c×c', 2: 'b×b'}
    """
    found: dict[int, list[str]] = {}
    for place, name in zip(places, names, strict=True):
        found.setdefault(place, []).append(name)
    return {
        place: " | ".join(some[:NAMES_SHOWN]) + (" | …" if len(some) > NAMES_SHOWN else "")
        for place, some in found.items()
    }


class DenseCrosses(Stateless):
    """x, then x_i x_j for all i ≤ j; more than `pairs_max` of them are added up in that many slots."""

    __slots__ = ("_dimension", "_left", "_pairs_max", "_right", "_signs", "_slots")

    def __init__(self, pairs_max: int = PAIRS_MAX) -> None:
        self._pairs_max = pairs_max
        self._dimension = 0
        self._left: Indices = np.zeros(0, dtype=np.intp)
        self._right: Indices = self._left
        self._slots: Indices = self._left
        self._signs: Array = np.zeros(0)

    def _pair(self, dimension: int) -> None:
        """They follow from the dimension, so no state keeps them."""
        self._dimension = dimension
        self._left, self._right = pairs_of(dimension)
        if len(self._left) > self._pairs_max:
            self._slots, self._signs = hashed_pairs(self._left, self._right, self._pairs_max)

    def apply(self, x: Vector) -> Vector:
        if self._dimension != len(x.values):
            self._pair(len(x.values))
        products = x.values[self._left] * x.values[self._right]
        if len(self._slots):
            sums = np.bincount(self._slots, self._signs * products, minlength=self._pairs_max)
            products = sums.astype(np.float64, copy=False)
        return Vector(np.concatenate((x.values, np.clip(products, -LARGEST, LARGEST))))

    def size(self, size: int) -> int:
        return crossed_size(size, self._pairs_max)

    def name(self, index: int, size: int, name_of: NameOf) -> int | str:
        """What to call an entry, out of `size` features."""
        if index < size:
            return name_of(index)
        if pair_count(size) > self._pairs_max:
            return f"crosses {index - size}"
        left, right = pairs_of(size)
        return f"{name_of(int(left[index - size]))}×{name_of(int(right[index - size]))}"

    def names_in(self, x: Vector, names: dict[int, str]) -> dict[int, str]:
        return names


class HashedCrosses(Stateless):
    """Pairs fall into the same slots as the features: they take no more weights, and nothing is learned about them."""

    __slots__ = ("_first", "_slots")

    def __init__(self, *, bits: int, first: int) -> None:
        self._slots = 1 << bits
        self._first = first

    def apply(self, x: Vector) -> Vector:
        left, right, products = crossed(x)
        slots, signs = hashed_pairs(left, right, self._slots)
        assert x.indices is not None
        return added_up(
            np.concatenate((x.indices, slots + self._first)), np.concatenate((x.values, signs * products))
        )

    def name(self, index: int, size: int, name_of: NameOf) -> int | str:
        return name_of(index)

    def names_in(self, x: Vector, names: dict[int, str]) -> dict[int, str]:
        left, right, _ = crossed(x)
        slots = (hashed_pairs(left, right, self._slots)[0] + self._first).tolist()
        pairs = [f"{names[i]}×{names[j]}" for i, j in zip(left.tolist(), right.tolist(), strict=True)]
        return joined_names([*names, *slots], [*names.values(), *pairs])


def crossed(x: Vector) -> tuple[Indices, Indices, Array]:
    """Of a sparse vector the indices of all pairs whose product is not 0, the lower one first, and the products."""
    assert x.indices is not None
    present: npt.NDArray[np.intp] = np.flatnonzero(x.values)
    present = present[np.argsort(x.indices[present])]
    left, right = pairs_of(len(present))
    indices, values = x.indices[present], x.values[present]
    return indices[left], indices[right], values[left] * values[right]


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
