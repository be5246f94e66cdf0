"""How sure a learner is of its weights: Σ, the identity at first, as its diagonal or whole.

The learners need three things of it: Σz, v = zᵀΣz, and Σ -= β (Σz)(Σz)ᵀ; one that forgets also Σ += ε (I - Σ).
In exact arithmetic Σ stays positive, every entry of it within [-1, 1]; both are kept where rounding would lose them.
"""

from math import sqrt
from typing import Any, NamedTuple, Protocol

import numpy as np

from service.learning import saved
from service.learning.packing import packed
from service.learning.vectors import Array, Indices, Vector, dot, room_for

KEPT_MIN = float(np.finfo(np.float64).eps)
"""A variance keeps at least this share of itself at an update: the rounding error of 1 - a for a near 1."""


ROUNDED = 1e-6
"""What many updates may have rounded in a full matrix."""


class Spread(NamedTuple):
    """Σz at `indices` (all if None), v = zᵀΣz, and what no entry of Σz exceeds in magnitude."""

    direction: Array
    indices: Indices | None
    variance: float
    reach: float


class Covariance(Protocol):
    """Σ of a learner with as many weights as `grow` was last told; new ones have the variance 1."""

    def spread(self, z: Vector) -> Spread:
        """Σz and what follows from it; changes nothing."""
        ...

    def shrink(self, z: Vector, spread: Spread, beta: float) -> None:
        """Σ -= β (Σz)(Σz)ᵀ, where `spread` is what `spread(z)` has just given."""
        ...

    def forget(self, z: Vector, share: float) -> None:
        """Σ += share (I - Σ), the share at most ½; of a diagonal only where z is not 0."""
        ...

    def grow(self, size: int) -> None: ...

    def state(self) -> Any: ...

    def restore(self, state: Any, size: int) -> None: ...


class Diagonal:
    """Only the variances; a sparse z touches only its own."""

    __slots__ = ("_room", "_size")

    def __init__(self) -> None:
        self._room: Array = np.ones(0)
        self._size = 0

    @property
    def variances(self) -> Array:
        return self._room[: self._size]

    def spread(self, z: Vector) -> Spread:
        variances = self._room[: self._size] if z.indices is None else self._room[z.indices]
        direction = variances * z.values
        v = dot(direction, z.values)
        return Spread(direction, z.indices, v, sqrt(v))  # Σ_i |z_i| is at most √v, since Σ_i is at most 1

    def shrink(self, z: Vector, spread: Spread, beta: float) -> None:
        kept = np.maximum(1.0 - beta * (spread.direction * z.values), KEPT_MIN)
        if z.indices is None:
            self._room[: self._size] *= kept
        else:
            self._room[z.indices] *= kept

    def forget(self, z: Vector, share: float) -> None:
        present = slice(self._size) if z.indices is None else z.indices
        variances = self._room[present]
        # No more than 1 is left even by rounding, as the share is at most ½.
        self._room[present] = variances + (share * (z.values != 0)) * (1.0 - variances)

    def grow(self, size: int) -> None:
        self._room = room_for(self._room, size, fill=1.0)
        self._size = size

    def state(self) -> Any:
        return packed(self._room[: self._size], fill=1.0)

    def restore(self, state: Any, size: int) -> None:
        self._room = saved.array(state, "covariance", (size,), fill=1.0, least=0.0, most=1.0)
        self._size = size


class Full:
    """The whole matrix; every z touches all of it."""

    __slots__ = ("_matrix", "_room")

    def __init__(self) -> None:
        self._room: Array = np.zeros((0, 0))
        self._matrix: Array = self._room

    def spread(self, z: Vector) -> Spread:
        direction = z.dots(self._matrix)
        v = z.dot(direction)
        return Spread(direction, None, v, float(np.maximum.reduce(np.abs(direction), initial=0.0)))

    def shrink(self, z: Vector, spread: Spread, beta: float) -> None:
        self._matrix -= np.multiply.outer(beta * spread.direction, spread.direction)
        np.clip(self._matrix, -1.0, 1.0, out=self._matrix)

    def forget(self, z: Vector, share: float) -> None:
        self._matrix *= 1.0 - share
        diagonal = np.arange(len(self._matrix))
        self._matrix[diagonal, diagonal] = np.minimum(self._matrix[diagonal, diagonal] + share, 1.0)

    def grow(self, size: int) -> None:
        known = len(self._matrix)
        self._room = room_for(self._room, size, size)
        self._matrix = self._room[:size, :size]
        new = np.arange(known, size)
        self._matrix[new, new] = 1.0

    def state(self) -> Any:
        return self._matrix.copy()

    def restore(self, state: Any, size: int) -> None:
        self._room = self._matrix = saved.array(state, "covariance", (size, size), least=-1.0, most=1.0)


def check_positive(matrix: Array) -> None:
    """`saved.BadState` unless a full covariance is symmetric and positive, as far as two weights at a time tell.

    Not asked of a snapshot: examples that are nearly as large as may be leave nothing of it but rounding errors.
    """
    variances = np.diagonal(matrix)
    # Of a positive matrix no entry is larger than both variances allow; rounding may leave a little of it.
    saved.check(
        bool(
            (variances >= -ROUNDED).all()
            and (np.abs(matrix - matrix.T) <= ROUNDED).all()
            and (matrix * matrix <= np.multiply.outer(variances, variances) + ROUNDED).all()
        ),
        "",
        "must be a symmetric and positive matrix",
    )
