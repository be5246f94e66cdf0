"""AROW that keeps learning when the stream changes: at every update it forgets a share of what it is sure of.

AROW's variances only ever shrink, so that it moves less and less. Moroshko, Vaits, Crammer: Second-order
non-stationary online learning for regression, JMLR 16, 2015, keep such a Σ from vanishing by resets (ARCOR) or by
adding to it (LASER).
Here it goes back towards its start by a share ε, which is the exponential resetting of Salgado, Goodwin, Middleton:
Modified least squares algorithm incorporating exponential resetting and forgetting, Int. J. Control 47, 1988.
"""

from service.learning.learners.arow import Arow
from service.learning.learners.covariance import Spread
from service.learning.vectors import Vector


class ForgettingArow(Arow):
    """AROW's update, and after it Σ ← (1 - ε)Σ + εI: as a diagonal, where z is not 0.

    A weight that is present in every update never gets surer than a variance of about √(εr)/|z|, which stands for the
    last 1/√ε updates or so. A sparse example leaves the variances of absent features as they are, so a rare feature
    forgets as slowly as it comes.
    """

    __slots__ = ("forget",)

    def __init__(self, *, r: float, forget: float, covariance: str, tie: int = 1) -> None:
        super().__init__(r=r, covariance=covariance, tie=tie)
        self.forget = forget
        """ε"""

    def _move(self, z: Vector, spread: Spread, alpha: float, beta: float) -> bool:
        moved = super()._move(z, spread, alpha, beta)
        if moved:
            self._covariance.forget(z, self.forget)
        return moved
