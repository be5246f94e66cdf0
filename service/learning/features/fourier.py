"""Random Fourier features: a curved boundary from linear learners.

Rahimi, Recht: Random features for large-scale kernel machines, NIPS 2007. The inner product of two such vectors comes
near exp(-γ ‖x - x'‖²), the nearer the more features there are.

`Fourier` is the transform of a model's settings. `FourierGrid` makes the forms of a panel, with numbers rounded to a
grid so coarse that every product and every sum of products is a whole number below 2^53. Such sums are exact in
whatever order a processor's BLAS adds, so that BLAS can be used: it takes a tenth of the time. The cosine is looked up
in a table.
"""

from functools import lru_cache

import numpy as np

from service.learning.features.transform import Stateless
from service.learning.functions import quantile
from service.learning.vectors import Array, Vector

_TURN = 2.0 * 3.141592653589793


def _sine_series(terms: int) -> list[float]:
    """The coefficients of sin(2π q) at q, q³, q⁵ …; by products, since powers are the math library's."""
    series = [_TURN]
    for k in range(1, terms):
        series.append(-series[-1] * _TURN * _TURN / (2 * k * (2 * k + 1)))
    return series


_SINE = _sine_series(8)


def cosine_of_turns(turns: Array) -> Array:
    """cos(2π t) to 1e-11, from sums and products only.

    numpy's own cosine takes its last bits from the processor's; this one is the same everywhere.

    >>> np.round(cosine_of_turns(np.array([0.0, 0.125, 0.25, 0.5, 1.0])), 9).tolist()
    [1.0, 0.707106781, 0.0, -1.0, 1.0]
    """
    quarter = 0.25 - np.abs(turns - np.rint(turns))  # cos(2π t) = sin(2π (1/4 - t))
    square = quarter * quarter
    total = np.full(len(turns), _SINE[-1])
    for coefficient in reversed(_SINE[:-1]):
        total *= square
        total += coefficient
    total *= quarter
    return total


class Fourier(Stateless):
    """√(2/D) cos(Wx + b): W normal with the variance 2γ, b uniform over a turn, both from the seed.

    γ None is 1/dimension. Of standardized features the squared distance of two examples is about twice the dimension,
    so that it takes near ones together and tells far ones apart.

    The draws come from the raw output of PCG64, which numpy promises never to change; its own normal
    distribution it may change.
    """

    __slots__ = ("_features", "_gamma", "_phases", "_projection", "_seed")

    def __init__(self, *, features: int, gamma: float | None, seed: int) -> None:
        self._features = features
        self._gamma = gamma
        self._seed = seed
        self._projection: Array | None = None
        self._phases: Array = np.zeros(0)

    def apply(self, x: Vector) -> Vector:
        if self._projection is None:
            self._draw(len(x.values))
        assert self._projection is not None
        turns = np.add.reduce(self._projection * x.values, axis=1) + self._phases
        return Vector(np.sqrt(2.0 / self._features) * cosine_of_turns(turns))

    def _draw(self, dimension: int) -> None:
        """W and b in turns. They follow from the settings and the dimension, so no state keeps them."""
        raw = np.random.PCG64(self._seed).random_raw(self._features * (dimension + 1))
        uniform = ((raw >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
        self._phases = uniform[: self._features]
        normal = np.array([quantile(p) for p in uniform[self._features :].tolist()])
        gamma = 1.0 / dimension if self._gamma is None else self._gamma
        scale = np.sqrt(2.0 * gamma) / _TURN
        self._projection = scale * normal.reshape(self._features, dimension)

    def size(self, size: int) -> int:
        return self._features


REACH = 64.0
"""Entries of an example beyond this many standard deviations count as this many."""
X_GRID = 2.0**16
W_GRID = 2.0**20
TURN_BITS = 36
"""A product of the two grids, in turns."""
TABLE_BITS = 12
PROJECTION_MAX = 1 << 20
"""Numbers in a projection with one γ. Where examples have too many entries for that, there are fewer features."""
SUMMED = 12
"""A normal number is the sum of so many uniform ones less half of that: only whole numbers are added."""

SHARED_MAX = 64
"""Examples of up to so many entries have their projections kept for good, 1 MB each at most: many models share them."""


def _drawn(features: int, dimension: int, gamma: float, seed: int) -> tuple[Array, Array]:
    """W, a column for each feature, and b, both on the grid; they follow from the numbers given.

    W is normal with the variance 2γ, where `gamma` is γ times the dimension; b is uniform over a turn.
    """
    count = features * dimension
    # The raw output of PCG64 is what numpy promises never to change.
    raw = np.random.PCG64(seed).random_raw(features + count * SUMMED // 4)
    phases = (raw[:features] >> np.uint64(64 - TURN_BITS)).astype(np.float64)
    uniform = raw[features:].astype("<u8").view("<u2").reshape(SUMMED, count).astype(np.int64)
    normal = ((uniform.sum(axis=0) - SUMMED * 32_768) / 65_536.0).reshape(dimension, features)
    projection = np.rint(np.sqrt(2.0 * gamma / dimension) / _TURN * W_GRID * normal)
    projection.flags.writeable = phases.flags.writeable = False
    return projection, phases


_kept_for_good = lru_cache(maxsize=None)(_drawn)
_kept_for_a_while = lru_cache(maxsize=4)(_drawn)


@lru_cache(maxsize=32)
def _table(features: int) -> Array:
    turns = np.arange(1 << TABLE_BITS) / float(1 << TABLE_BITS)
    table: Array = np.sqrt(2.0 / features) * cosine_of_turns(turns)
    return table


def features_for(features: int, dimension: int) -> int:
    """How many of the features there is room for.

    >>> features_for(512, 64), features_for(512, 4096)
    (512, 256)
    """
    return max(1, min(features, PROJECTION_MAX // max(1, dimension)))


class FourierGrid:
    """√(2/D) cos(Wx + b) of standardized examples x: D features, or as many as there is room for."""

    __slots__ = ("_phases", "_projection", "_table")

    def __init__(self, features: int, dimension: int, *, gamma: float, seed: int) -> None:
        """`gamma` is γ times the dimension, and at most 4."""
        features = features_for(features, dimension)
        drawn = _kept_for_good if dimension <= SHARED_MAX else _kept_for_a_while
        self._projection, self._phases = drawn(features, dimension, gamma, seed)
        self._table = _table(features)

    def apply(self, x: Array) -> Array:
        """The features of x, or of each of its rows: rows as one by one, to the bit."""
        grid = np.rint(np.minimum(np.maximum(x, -REACH), REACH) * X_GRID)
        sums = np.dot(grid, self._projection)
        sums += self._phases
        turns = sums.astype(np.int64)
        turns >>= TURN_BITS - TABLE_BITS
        turns &= (1 << TABLE_BITS) - 1
        features: Array = self._table.take(turns)
        return features
