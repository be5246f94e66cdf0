"""What AROW and SCW share: a covariance, whole or its diagonal, by which uncertain weights are moved more.

The covariance Σ of a row of weights is the identity at first. A learner needs three things of it: Σz, v = zᵀΣz, and Σ
-= β (Σz)(Σz)ᵀ; one that forgets also Σ += ε (I - Σ). In exact arithmetic Σ stays positive, every entry of it within
[-1, 1]; both are kept where rounding would lose them.
"""

from collections.abc import Iterable
from math import sqrt
from typing import Any

import numpy as np

from service.learning import saved
from service.learning.learners.linear import MOVE_MAX, Linear, Plane
from service.learning.vectors import NEGLIGIBLE, Array, Indices, Numbers, RowIndex, Vector, column, room_for

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

    def unsettle(self, places: Indices) -> None:
        """Let these weights vary as at the start, and with no other."""
        self._matrix[places] = self._matrix[:, places] = 0.0
        self._matrix[places, places] = 1.0

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


KEPT_MIN = float(np.finfo(np.float64).eps)
"""A variance keeps at least this share of itself at an update: the rounding error of 1 - a for a near 1."""

VARIANCES = Plane("covariance", fill=1.0, least=0.0, most=1.0)


class Confident(Linear):
    """Rows with a covariance each; AROW and SCW differ in when they move and how far.

    A covariance is a diagonal, of which a sparse z touches only its own entries, or a whole matrix.
    """

    __slots__ = ("_matrices", "learns_in_blocks")

    def __init__(self, shape: str) -> None:
        self.learns_in_blocks = shape != "full"  # then the second plane is the diagonal of each
        self._matrices: list[Full] = []
        super().__init__(*(VARIANCES,) if self.learns_in_blocks else ())

    def step(self, margin: float, variance: float, weight: float) -> tuple[float, float] | None:
        """α and β for an example with the margin y w·z and the variance zᵀΣz, which is not 0; None for no step."""
        raise NotImplementedError

    def candidates(self, margins: Array, variances: Array) -> Iterable[int]:
        """Of several rows those for which `step` may not be None."""
        return range(len(margins))

    @property
    def forgotten(self) -> float:
        """The share of Σ that goes back to the identity at each step."""
        return 0.0

    def change(
        self, planes: Array, z: Vector, rows: RowIndex, scores: Numbers, labels: Numbers, weight: float = 1.0
    ) -> bool:
        """w += α y Σz and Σ -= β (Σz)(Σz)ᵀ."""
        if not self.learns_in_blocks:
            return self._change_matrices(z, rows, labels * scores, labels, weight)
        variances = planes[1][z.places(rows)]
        directions = np.multiply(variances, z.values, order="C")
        terms = directions * z.values
        spreads = np.add.reduce(terms, axis=-1)
        if isinstance(rows, int):
            step = self._step(labels * scores, float(spreads), weight)
            if step is None:
                return False
            alphas, betas = step
        else:
            margins = labels * scores
            each = margins.tolist(), spreads.tolist()
            steps = {
                at: step
                for at in self.candidates(margins, spreads)
                if (step := self._step(each[0][at], each[1][at], weight)) is not None
            }
            if not steps:
                return False
            if len(steps) < len(margins):
                moves = np.array(list(steps))
                variances, directions, terms = variances[moves], directions[moves], terms[moves]
                labels, rows = labels[moves], moves if isinstance(rows, slice) else rows[moves]
            alphas, betas = np.array(list(steps.values())).T
        self.updates[rows] += 1
        places = z.places(rows)
        planes[0][places] += column(alphas * labels) * directions
        variances = variances * np.maximum(1.0 - column(betas) * terms, KEPT_MIN)
        if self.forgotten:
            # No more than 1 is left even by rounding, as the share is at most ½.
            variances += (self.forgotten * (z.values != 0)) * (1.0 - variances)
        planes[1][places] = variances
        return True

    def _step(self, margin: float, variance: float, weight: float) -> tuple[float, float] | None:
        if variance < NEGLIGIBLE:
            return None
        step = self.step(margin, variance, weight)
        # No entry of Σz is larger than √v, since none of Σ is larger than 1.
        return step if step is not None and abs(step[0]) * sqrt(variance) <= MOVE_MAX else None

    def _change_matrices(
        self, z: Vector, rows: RowIndex, margins: Numbers, labels: Numbers, weight: float
    ) -> bool:
        """The same, row by row, where each has a whole matrix."""
        numbers = np.arange(len(self.updates))[rows]
        each = zip(
            np.ravel(numbers).tolist(), np.ravel(margins).tolist(), np.ravel(labels).tolist(), strict=True
        )
        return sum([self._change_matrix(z, row, margin, y, weight) for row, margin, y in each]) > 0

    def _change_matrix(self, z: Vector, row: int, margin: float, y: float, weight: float) -> bool:
        direction = self._matrices[row].direction(z)
        variance = z.dot(direction)
        step = self.step(margin, variance, weight) if variance >= NEGLIGIBLE else None
        if step is None or abs(step[0]) * float(np.abs(direction).max()) > MOVE_MAX:
            return False
        alpha, beta = step
        self.updates[row] += 1
        self.planes[0, row] += alpha * y * direction
        self._matrices[row].shrink(direction, beta)
        if self.forgotten:
            self._matrices[row].forget(self.forgotten)
        return True

    def _resize(self, rows: int, size: int) -> None:
        super()._resize(rows, size)
        if not self.learns_in_blocks:
            for matrix in self._matrices:
                matrix.grow(size)
            self._matrices += [Full(size) for _ in range(len(self._matrices), rows)]

    def unsettle(self, places: Indices) -> None:
        if self.learns_in_blocks:
            self.planes[1][:, places] = VARIANCES.fill
        for matrix in self._matrices:
            matrix.unsettle(places)

    def clear(self, count: int, size: int) -> None:
        self._matrices = []
        super().clear(count, size)

    def state(self, row: int) -> dict[str, Any]:
        state = super().state(row)
        return state if self.learns_in_blocks else {**state, "covariance": self._matrices[row].state()}

    def restore(self, row: int, state: Any) -> None:
        weights, updates, covariance = saved.fields(state, "weights", "updates", "covariance")
        if self.learns_in_blocks:
            self._restore(row, weights, updates, covariance)
        else:
            self._restore(row, weights, updates)
            self._matrices[row].restore(covariance)
