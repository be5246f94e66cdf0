"""Adaptive regularization of weights: a new example counts the less, the surer its weights are.

Crammer, Kulesza, Dredze: Adaptive regularization of weight vectors, NIPS 2009.

AROW's variances only ever shrink, so that it moves less and less. Moroshko, Vaits, Crammer: Second-order
non-stationary online learning for regression, JMLR 16, 2015, keep such a Σ from vanishing by resets (ARCOR) or by
adding to it (LASER). `ForgettingArow` lets it go back towards its start by a share ε, which is the exponential
resetting of Salgado, Goodwin, Middleton: Modified least squares algorithm incorporating exponential resetting and
forgetting, Int. J. Control 47, 1988.
"""

from typing import Any

from service.learning.learners.covariance import Confident
from service.learning.vectors import Numbers


class Arow(Confident):
    """With v = zᵀΣz and β = 1/(v + r): w += β (1 - y w·z) y Σz and Σ -= β (Σz)(Σz)ᵀ, while y w·z < 1.

    The larger r is, the less one example moves. With v = 0 Σz is 0 too, and nothing would move.
    """

    __slots__ = ("_r",)

    def __init__(self, *, r: float, covariance: str, tie: int = 1) -> None:
        super().__init__(covariance)
        self._r = r

    def may_change(self, scores: Numbers, labels: Numbers) -> Any:
        return labels * scores < 1.0

    def step(self, margin: float, variance: float, weight: float) -> tuple[float, float] | None:
        if not weight:  # the product of a weight and a class weight that were stored and are too small
            return 0.0, 0.0
        beta = 1.0 / (variance + self._r / weight)
        return beta * (1.0 - margin), beta


class ForgettingArow(Arow):
    """AROW's update, and after it Σ ← (1 - ε)Σ + εI: as a diagonal, where z is not 0.

    A weight that is present in every update never gets surer than a variance of about √(εr)/|z|, which stands for the
    last 1/√ε updates or so. A sparse example leaves the variances of absent features as they are, so a rare feature
    forgets as slowly as it comes.
    """

    __slots__ = ("_forget",)

    def __init__(self, *, r: float, forget: float, covariance: str, tie: int = 1) -> None:
        super().__init__(r=r, covariance=covariance, tie=tie)
        self._forget = forget

    @property
    def forgotten(self) -> float:
        return self._forget
