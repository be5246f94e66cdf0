"""The whole covariance of one row of weights: Σ, the identity at first.

A confident learner needs three things of it: Σz, v = zᵀΣz, and Σ -= β (Σz)(Σz)ᵀ; one that forgets also Σ += ε (I - Σ).
In exact arithmetic Σ stays positive, every entry of it within [-1, 1]; both are kept where rounding would lose them.
"""

from typing import Any

import numpy as np

from service.learning import saved
from service.learning.vectors import Array, Vector, room_for

ROUNDED = 1e-6
"""What many updates may have rounded in a full matrix."""


class Full:
    """A matrix of size × size; every z touches all of it."""

    __slots__ = ("_matrix", "_room")

    def __init__(self, size: int) -> None:
        self._room: Array = np.zeros((0, 0))
        self._matrix: Array = self._room
        self.grow(size)

    def direction(self, z: Vector) -> Array:
        """Σz."""
        return z.dots(self._matrix)  # type: ignore[no-any-return]

    def shrink(self, direction: Array, beta: float) -> None:
        """Σ -= β (Σz)(Σz)ᵀ, where `direction` is Σz."""
        self._matrix -= np.multiply.outer(beta * direction, direction)
        np.clip(self._matrix, -1.0, 1.0, out=self._matrix)

    def forget(self, share: float) -> None:
        """Σ += share (I - Σ), the share at most ½."""
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

    def restore(self, state: Any) -> None:
        shape = self._matrix.shape
        self._room = self._matrix = saved.array(state, "covariance", shape, least=-1.0, most=1.0)


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
