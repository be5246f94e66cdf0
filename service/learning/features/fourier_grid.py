"""Random Fourier features on a grid: fast, and still the same bits on every machine.

What `fourier.py` does, with numbers rounded to a grid so coarse that every product and every sum of products is a whole
number below 2^53. Such sums are exact in whatever order a processor's BLAS adds, so that BLAS can be used: it takes a
tenth of the time. The cosine is looked up in a table.
"""

from functools import lru_cache

import numpy as np

from service.learning.features.fourier import cosine_of_turns
from service.learning.vectors import Array

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

_TURN = 2.0 * 3.141592653589793


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
