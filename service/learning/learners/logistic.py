"""Logistic regression by AdaGrad: every weight has a learning rate of its own, which falls as it is moved.

Duchi, Hazan, Singer: Adaptive subgradient methods for online learning and stochastic optimization, JMLR 12, 2011.
Without regularization the FTRL-proximal of McMahan et al. (KDD 2013) takes nearly the same steps.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from service.learning.functions import STEEPEST, logistic
from service.learning.learners.linear import Linear, Plane, each
from service.learning.vectors import Array, Numbers, RowIndex, Vector, Vectors, column

FIRST_SQUARE = 1.0
"""What the squares of a weight's gradients begin with, so that no step is longer than η."""

SQUARES_MAX = 1e270
"""What they can add up to: a gradient is at most a feature times a weight of a reveal."""

SQUARES = Plane("squares", fill=FIRST_SQUARE, least=FIRST_SQUARE, most=SQUARES_MAX)


class Logistic(Linear):
    """With the gradient g = -y σ(-y w·z) z of the loss ln(1 + e^(-y w·z)): G += g² and w -= η g/√G, entry by entry.

    It learns from every example, the less the surer it was of the right label; above a margin of 16, where what is left
    of the gradient is a ten-millionth of z, not at all. A sparse example touches only what is present.
    """

    __slots__ = ("_eta0",)

    def __init__(self, *, eta0: float, tie: int = 1) -> None:
        super().__init__(SQUARES)
        self._eta0 = eta0

    def may_change(self, scores: Numbers, labels: Numbers) -> Any:
        return labels * scores <= STEEPEST

    def change(
        self, planes: Array, z: Vector, rows: RowIndex, scores: Numbers, labels: Numbers, weight: float = 1.0
    ) -> bool:
        if z.is_zero:
            return False
        self.updates[rows] += 1
        steepness = column(weight * labels * each(logistic, -(labels * scores)))
        places = z.places(rows)
        squares = planes[1][places] + steepness * steepness * (z.values * z.values)
        planes[0][places] += self._eta0 * steepness * z.values / np.sqrt(squares)
        planes[1][places] = squares
        return True

    def learn_rows(
        self, vectors: Vectors, signs: npt.NDArray[np.int64]
    ) -> tuple[Array, npt.NDArray[np.bool_]]:
        """The score that each row was served by, before it was learned, and whether it changed the weights.

        It learns from nearly every row, so scoring rows ahead would be in vain: each is scored once, which serves
        and teaches it. Every step is one call that writes into an array that is there already, and takes its number
        from an array, too, since making one of a Python number takes as long as a short row.
        """
        present = slice(None) if vectors.indices is None else vectors.indices
        weights, squares = self.planes[0, 0, present], self.planes[1, 0, present]
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
            if y * score > STEEPEST or none:
                continue
            steepness = y * logistic(-y * score)
            factor.fill(steepness * steepness)  # from here on what `change` does
            multiply(squared_row, factor, terms)
            add(squares, terms, squares)
            sqrt(squares, roots)
            factor.fill(self._eta0 * steepness)
            multiply(row, factor, terms)
            divide(terms, roots, terms)
            add(weights, terms, weights)
        if vectors.indices is not None:
            self.planes[0, 0, present], self.planes[1, 0, present] = weights, squares
        updated = (signs * scores <= STEEPEST) & ~is_zero
        self.updates[0] += np.count_nonzero(updated)
        return scores, updated
