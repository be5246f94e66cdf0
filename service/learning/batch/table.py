"""Many vectors at once: what batch training scores and sums."""

from collections.abc import Sequence

import numpy as np

from service.learning.vectors import Array, Indices, Vector

_ROWS_AT_ONCE = 4096  # so that the products in between stay small


class VectorTable:
    """Examples as one array, or as one of their entries where they are sparse.

    >>> table = VectorTable([Vector(np.array([1.0, 2.0])), Vector(np.array([3.0]), np.array([1]))])
    >>> table.scores(np.array([1.0, 10.0])).tolist(), table.weighted_sum(np.array([1.0, -1.0]), 2).tolist()
    ([21.0, 30.0], [1.0, -1.0])
    """

    __slots__ = ("_count", "_places", "_values")

    def __init__(self, vectors: Sequence[Vector]) -> None:
        self._count = len(vectors)
        self._places: tuple[Indices, Indices] | None = None  # of each entry: its example, its index
        if all(z.indices is None for z in vectors):
            self._values: Array = np.stack([z.values for z in vectors])
            return
        self._values = np.concatenate([z.values for z in vectors])
        self._places = (
            np.repeat(np.arange(len(vectors)), [len(z.values) for z in vectors]),
            np.concatenate([np.arange(len(z.values)) if z.indices is None else z.indices for z in vectors]),
        )

    def scores(self, weights: Array) -> Array:
        """w·z of every example."""
        if self._places is not None:
            rows, columns = self._places
            return _sum_by(rows, self._values * weights[columns], self._count)
        return np.concatenate([
            np.add.reduce(self._values[at : at + _ROWS_AT_ONCE] * weights, axis=1)
            for at in range(0, self._count, _ROWS_AT_ONCE)
        ])  # fmt: skip

    def weighted_sum(self, factors: Array, size: int) -> Array:
        """Σ factor · z over all examples."""
        if self._places is not None:
            rows, columns = self._places
            return _sum_by(columns, self._values * factors[rows], size)
        total = np.zeros(size)
        asked = np.flatnonzero(factors)
        for at in range(0, len(asked), _ROWS_AT_ONCE):
            some = asked[at : at + _ROWS_AT_ONCE]
            total += np.add.reduce(self._values[some] * factors[some, np.newaxis], axis=0)
        return total


def _sum_by(places: Indices, values: Array, size: int) -> Array:
    """The sum of the values at each place, added in their order."""
    return np.asarray(np.bincount(places, values, minlength=size), dtype=np.float64)
