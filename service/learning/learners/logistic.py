"""Logistic regression by AdaGrad: every weight has a learning rate of its own, which falls as it is moved.

Duchi, Hazan, Singer: Adaptive subgradient methods for online learning and stochastic optimization, JMLR 12, 2011.
Without regularization the FTRL-proximal of McMahan et al. (KDD 2013) takes nearly the same steps.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from service.learning import saved
from service.learning.certainty.logistic import STEEPEST, logistic
from service.learning.learners.linear import Linear
from service.learning.packing import packed
from service.learning.vectors import Array, Vector, Vectors, room_for

FIRST_SQUARE = 1.0
"""What the squares of a weight's gradients begin with, so that no step is longer than η."""

SQUARES_MAX = 1e270
"""What they can add up to: a gradient is at most a feature times a weight of a reveal."""


class Logistic(Linear):
    """With the gradient g = -y σ(-y w·z) z of the loss ln(1 + e^(-y w·z)): G += g² and w -= η g/√G, entry by entry.

    It learns from every example, the less the surer it was of the right label; above a margin of 16, where what is left
    of the gradient is a ten-millionth of z, not at all. A sparse example touches only what is present.
    """

    __slots__ = ("_eta0", "_room_of_squares", "_squares")

    idle_margin = STEEPEST

    def __init__(self, *, eta0: float, tie: int = 1) -> None:
        super().__init__()
        self._eta0 = eta0
        self._room_of_squares: Array = np.zeros(0)
        self._squares: Array = self._room_of_squares

    def learn(self, z: Vector, y: int, served: int | None, weight: float = 1.0) -> bool:
        margin = y * self.score(z)
        if margin > self.idle_margin or z.is_zero:
            return False
        self.updates += 1
        if z.indices is None:
            self._descend(self._weights, self._squares, z.values, weight * y * logistic(-margin))
        else:
            weights, squares = self._weights[z.indices], self._squares[z.indices]
            self._descend(weights, squares, z.values, weight * y * logistic(-margin))
            self._weights[z.indices], self._squares[z.indices] = weights, squares
        return True

    def _descend(self, weights: Array, squares: Array, values: Array, steepness: float) -> None:
        """One step, in place; the gradient is -`steepness` z."""
        squares += steepness * steepness * (values * values)
        weights += self._eta0 * steepness * values / np.sqrt(squares)

    def learn_rows(
        self, vectors: Vectors, signs: npt.NDArray[np.int64]
    ) -> tuple[Array, npt.NDArray[np.bool_]]:
        """The score that each row was served by, before it was learned, and whether it changed the weights.

        It learns from nearly every row, so scoring rows ahead would be in vain: each is scored once, which serves
        and teaches it. Every step is one call that writes into an array that is there already, and takes its number
        from an array, too, since making one of a Python number takes as long as a short row.
        """
        present = slice(None) if vectors.indices is None else vectors.indices
        weights, squares = self._weights[present], self._squares[present]
        scores = np.empty(len(signs))
        terms, roots = np.empty(len(weights)), np.empty(len(weights))
        factor = np.empty(())
        multiply, add, divide, sqrt, total = np.multiply, np.add, np.divide, np.sqrt, np.add.reduce
        squared = vectors.values * vectors.values
        is_zero: npt.NDArray[np.bool_] = ~np.logical_or.reduce(vectors.values, axis=1)
        rows = zip(vectors.values, squared, signs.tolist(), is_zero.tolist(), strict=True)
        for at, (row, squared_row, y, none) in enumerate(rows):
            multiply(weights, row, terms)
            scores[at] = score = float(total(terms))
            if y * score > self.idle_margin or none:
                continue
            steepness = y * logistic(-y * score)
            factor.fill(steepness * steepness)  # from here on what `_descend` does
            multiply(squared_row, factor, terms)
            add(squares, terms, squares)
            sqrt(squares, roots)
            factor.fill(self._eta0 * steepness)
            multiply(row, factor, terms)
            divide(terms, roots, terms)
            add(weights, terms, weights)
        if vectors.indices is not None:
            self._weights[present], self._squares[present] = weights, squares
        updated = (signs * scores <= self.idle_margin) & ~is_zero
        self.updates += int(np.count_nonzero(updated))
        return scores, updated

    def grow(self, size: int, row: Array | None = None) -> None:
        super().grow(size, row)
        self._room_of_squares = room_for(self._room_of_squares, size, fill=FIRST_SQUARE)
        self._squares = self._room_of_squares[:size]

    def start_from(self, weights: Array) -> None:
        super().start_from(weights)
        self._room_of_squares = self._squares = np.full(len(weights), FIRST_SQUARE)

    def state(self) -> dict[str, Any]:
        return {**super().state(), "squares": packed(self._squares, fill=FIRST_SQUARE)}

    def restore(self, state: Any, size: int) -> None:
        weights, updates, squares = saved.fields(state, "weights", "updates", "squares")
        self._restore(weights, updates, size)
        self._room_of_squares = self._squares = saved.array(
            squares, "squares", (size,), fill=FIRST_SQUARE, least=FIRST_SQUARE, most=SQUARES_MAX
        )
