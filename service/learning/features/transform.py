"""What every transform of vectors promises, and the shortest of them: `normalize`."""

from math import sqrt
from typing import Any, Protocol

import numpy as np

from service.learning import saved
from service.learning.vectors import Indices, Vector, dot


class Transform(Protocol):
    """Makes one vector of another, before the bias constant is added. Only `absorb` changes anything."""

    def apply(self, x: Vector) -> Vector:
        """The transformed vector, by what was absorbed so far; called for every prediction and every reveal."""
        ...

    def absorb(self, x: Vector) -> Indices | None:
        """Take in what a revealed example teaches, before it is applied to it; which entries began a new scale."""
        ...

    def size(self, size: int) -> int:
        """How many entries come out where `size` go in."""
        ...

    def state(self) -> dict[str, Any]:
        """All that `restore` needs, beyond the settings; empty if nothing is absorbed."""
        ...

    def restore(self, state: Any, size: int) -> None:
        """Become what `state` was taken from, to the bit; `saved.BadState` unless it is one for `size` entries."""
        ...


class Stateless:
    """What a transform has that absorbs nothing and makes no more entries."""

    __slots__ = ()

    def absorb(self, x: Vector) -> None:
        pass

    def size(self, size: int) -> int:
        return size

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Any, size: int) -> None:
        saved.fields(state)


class Normalize(Stateless):
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
