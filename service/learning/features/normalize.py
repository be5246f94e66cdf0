"""Vectors of length 1: what counts is the direction."""

from math import sqrt
from typing import Any

import numpy as np

from service.learning import saved
from service.learning.vectors import Vector, dot


class Normalize:
    """x / ‖x‖; the zero vector stays. The bias constant comes later and is not part of the length."""

    __slots__ = ()

    def apply(self, x: Vector) -> Vector:
        """
        >>> Normalize().apply(Vector(np.array([3e-200, 4e-200]))).values.tolist()
        [0.6, 0.8]
        """
        largest = float(np.maximum.reduce(np.abs(x.values), initial=0.0))
        if largest == 0:
            return x
        values = x.values / largest  # so that squares neither overflow nor vanish
        return Vector(values / sqrt(dot(values, values)), x.indices)

    def absorb(self, x: Vector) -> None:
        pass

    def size(self, size: int) -> int:
        return size

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Any, size: int) -> None:
        saved.fields(state)
