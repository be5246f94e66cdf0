"""Adaptive regularization of weights: a new example counts the less, the surer its weights are.

Crammer, Kulesza, Dredze: Adaptive regularization of weight vectors, NIPS 2009.
"""

from service.learning.learners.confident import Confident
from service.learning.vectors import NEGLIGIBLE, Vector


class Arow(Confident):
    """With v = zᵀΣz and β = 1/(v + r): w += β (1 - y w·z) y Σz and Σ -= β (Σz)(Σz)ᵀ, while y w·z < 1.

    The larger r is, the less one example moves. With v = 0 Σz is 0 too, and nothing would move.
    """

    __slots__ = ("_r",)

    idle_margin = 1.0

    def __init__(self, *, r: float, covariance: str, tie: int = 1) -> None:
        super().__init__(covariance)
        self._r = r

    def step(self, margin: float, variance: float, weight: float) -> tuple[float, float]:
        if not weight:  # the product of a weight and a class weight that were stored and are too small
            return 0.0, 0.0
        beta = 1.0 / (variance + self._r / weight)
        return beta * (1.0 - margin), beta

    def learn(self, z: Vector, y: int, served: int | None, weight: float = 1.0) -> bool:
        margin = y * self.score(z)
        if margin >= self.idle_margin:
            return False
        spread = self._covariance.spread(z)
        if spread.variance < NEGLIGIBLE:
            return False
        alpha, beta = self.step(margin, spread.variance, weight)
        return self._move(z, spread, alpha * y, beta)
