"""Vectors as the learners see them, and arithmetic that gives the same bits on every machine."""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]


def dot(a: Array, b: Array) -> float:
    """The inner product, to the same bit on every processor.

    BLAS picks its kernel, and with it the order of the additions, by processor; numpy's own pairwise sum
    has one order. A replay on another machine must not differ in the last bit.

    >>> dot(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    11.0
    """
    return float(np.add.reduce(a * b))


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

    def norm_sq(self) -> float:
        return dot(self.values, self.values)

    def add_to(self, weights: Array, step: float) -> None:
        """weights += step · z, in place."""
        if self.indices is None:
            weights += step * self.values
        else:
            weights[self.indices] += step * self.values
