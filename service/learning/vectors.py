"""Vectors as the learners see them, and arithmetic that gives the same bits on every machine."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

RowIndex = Indices | slice | int
"""Some rows of a matrix by their numbers, a slice of them, or one row, of which all that is computed is a number."""

Numbers = Any
"""An array with a number for each of some rows, or the number for one row."""

ALL = slice(None)

LARGEST = 1e100
"""No feature is larger than this. Its square, times any count of rounds, is still a number."""

NEGLIGIBLE = 1e-200
"""A squared length below this counts as zero: its reciprocal would soon leave the range of numbers."""

PRODUCTS_AT_ONCE = 131_072
"""So many fit into a processor's cache. To get memory for a hundred megabytes of them takes longer than they do."""


_sum = np.add.reduce


def dot(a: Array, b: Array) -> float:
    """The inner product, to the same bit on every processor.

    BLAS picks its kernel, and with it the order of the additions, by processor; numpy's own pairwise sum
    has one order. A replay on another machine must not differ in the last bit.

    >>> dot(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    11.0
    """
    return float(_sum(a * b))


def all_within(values: Array, most: float) -> bool:
    """Whether all are numbers of at most this magnitude, itself at most `LARGEST`.

    So they are if their squares add up to no more than its square, which is found faster and without a warning: vdot
    gives none, unlike dot, when they add up to infinity.

    >>> [all_within(np.array(values), 2.0) for values in ([1.0, -1.0], [2.0, -2.0], [2.5], [np.nan])]
    [True, True, False, False]
    """
    return bool(np.vdot(values, values) <= min(LARGEST, most * most)) or bool(
        np.maximum.reduce(np.abs(values), axis=None) <= most
    )


def room_for(room: Array, *shape: int, fill: float = 0.0) -> Array:
    """`room` if it has that shape or more, else a larger copy; what is new holds `fill`.

    An axis that is too short at least doubles, so that growing one by one costs no more than twice the end.

    >>> [len(room_for(np.zeros(4), size)) for size in (3, 5, 50)]
    [4, 8, 50]
    """
    if all(have >= need for have, need in zip(room.shape, shape, strict=True)):
        return room
    longer = [
        have if have >= need else max(need, 2 * have) for have, need in zip(room.shape, shape, strict=True)
    ]
    larger = np.full(longer, fill) if fill else np.zeros(longer)
    larger[tuple(slice(have) for have in room.shape)] = room
    return larger


def column(numbers: Numbers) -> Numbers:
    """An array of a number for each row, so that rows can be multiplied by them; one number as it is."""
    return numbers[:, np.newaxis] if isinstance(numbers, np.ndarray) else numbers


class Vector:
    """An example z, the bias constant included: all entries, or only those at `indices`.

    Indices are unique, so adding to the weights at them adds once.
    """

    __slots__ = ("indices", "values")

    def __init__(self, values: Array, indices: Indices | None = None) -> None:
        self.values = values
        self.indices = indices

    def dot(self, weights: Array) -> float:
        return dot(weights if self.indices is None else weights[self.indices], self.values)

    def dots(self, matrix: Array, rows: RowIndex = ALL) -> Numbers:
        """The inner product with rows of the matrix, each to the same bit as `dot`."""
        if isinstance(rows, int):
            return self.dot(matrix[rows])
        if isinstance(rows, slice):
            matrix, rows = matrix[rows], ALL
        count = len(matrix) if isinstance(rows, slice) else len(rows)
        at_once = max(1, PRODUCTS_AT_ONCE // max(1, len(self.values)))
        if count <= at_once:
            return self._dots(matrix, rows)
        if isinstance(rows, slice):
            parts = [self._dots(matrix[at : at + at_once], ALL) for at in range(0, count, at_once)]
        else:
            parts = [self._dots(matrix, rows[at : at + at_once]) for at in range(0, count, at_once)]
        return np.concatenate(parts)

    def _dots(self, matrix: Array, rows: RowIndex) -> Array:
        # The order of additions is that of memory, and what indices have picked may lie in memory column by column.
        products = np.multiply(matrix[self.places(rows)], self.values, order="C")
        return np.add.reduce(products, axis=1)  # type: ignore[no-any-return]

    def places(self, rows: RowIndex) -> Any:
        """What picks the entries of these rows of a matrix that are multiplied by values of this vector."""
        if self.indices is None:
            return rows
        return (rows[:, np.newaxis] if isinstance(rows, np.ndarray) else rows), self.indices

    def norm_sq(self) -> float:
        return dot(self.values, self.values)

    @property
    def is_zero(self) -> bool:
        """Whether adding it to weights would move none."""
        values = self.values
        return not len(values) or (
            not values[-1] and not values.any()
        )  # the last one is mostly the bias constant

    def add_to(self, weights: Array, step: float) -> None:
        """weights += step · z, in place."""
        if self.indices is None:
            weights += step * self.values
        else:
            weights[self.indices] += step * self.values

    def add_to_rows(self, matrix: Array, rows: RowIndex, steps: Numbers) -> None:
        """The same for rows of a matrix, each with a step of its own."""
        if isinstance(rows, int):
            self.add_to(matrix[rows], steps)
        else:
            matrix[self.places(rows)] += column(steps) * self.values


@dataclass(frozen=True, slots=True)
class Rows:
    """Examples in their canonical form, a row of values each; if they have names, all have the same."""

    values: Array
    names: list[str] | None = None

    def after(self, count: int) -> "Rows":
        """All but the first `count`."""
        return Rows(self.values[count:], self.names)


@dataclass(frozen=True, slots=True)
class Vectors:
    """Examples z as rows, the bias constant included; all have the same indices, if they have any."""

    values: Array
    indices: Indices | None = None

    def row(self, at: int) -> Vector:
        return Vector(self.values[at], self.indices)

    def dots(self, weights: Array, start: int, end: int) -> Array:
        """The inner products of these rows with the weights, each to the same bit as `Vector.dot`."""
        present = weights if self.indices is None else weights[self.indices]
        products: Array = np.add.reduce(self.values[start:end] * present, axis=1)
        return products
