"""Soft confidence-weighted learning: each example shall be right with a probability of at least η.

Wang, Zhao, Hoi: Exact soft confidence-weighted learning, ICML 2012; SCW-I, proposition 1.
"""

from collections.abc import Iterable
from math import inf, sqrt
from typing import Any

import numpy as np

from service.learning.functions import quantile
from service.learning.learners.covariance import Confident
from service.learning.vectors import Array, Numbers

FEW = 8
"""So few rows are looked at faster one by one."""


def hypotenuse(a: float, b: float) -> float:
    """√(a² + b²), neither squared as it is.

    Not the math library's, whose last bit depends on its version.

    >>> hypotenuse(-3.0, 4.0), round(hypotenuse(3e200, 4e200) / 1e200, 9)
    (5.0, 5.0)
    """
    small, large = abs(a), abs(b)
    if small > large:
        small, large = large, small
    if large == 0:
        return 0.0
    ratio = small / large
    return large * sqrt(1.0 + ratio * ratio)


def scw1_step(m: float, v: float, *, phi: float, C: float) -> tuple[float, float]:
    """α and β for the margin m = y w·z and the variance v = zᵀΣz.

    The roots are written so that no large m or v is ever squared, and √u as
    2v / (αvφ + √(α²v²φ² + 4v)), which is the paper's without its subtraction of near equals.

    >>> alpha, beta = scw1_step(0.0, 1.0, phi=1.0, C=1.0)
    >>> round(alpha, 6), round(beta, 6)
    (0.707107, 0.5)
    """
    phi_sq = phi * phi
    zeta = 1.0 + phi_sq
    root = hypotenuse(0.5 * m * phi_sq, phi * sqrt(v * zeta))
    alpha = min(C, max(0.0, (root - m * (1.0 + 0.5 * phi_sq)) / (v * zeta)))
    pull = alpha * v * phi
    sqrt_u = 2.0 * v / (pull + hypotenuse(pull, 2.0 * sqrt(v)))
    return alpha, alpha * phi / (sqrt_u + pull)


class Scw(Confident):
    """w += α y Σz and Σ -= β (Σz)(Σz)ᵀ, while the loss φ√v - y w·z is above 0; φ is the η-quantile."""

    __slots__ = ("_C", "_phi")

    def __init__(self, *, C: float, eta: float, covariance: str, tie: int = 1) -> None:
        super().__init__(covariance)
        self._C = C
        self._phi = quantile(eta)

    def may_change(self, scores: Numbers, labels: Numbers) -> Any:
        return labels * scores < inf

    def candidates(self, margins: Array, variances: Array) -> Iterable[int]:
        if len(margins) < FEW:
            return range(len(margins))
        return np.flatnonzero(self._phi * np.sqrt(variances) - margins > 0).tolist()

    def step(self, margin: float, variance: float, weight: float) -> tuple[float, float] | None:
        if self._phi * sqrt(variance) - margin <= 0:
            return None
        alpha, beta = scw1_step(margin, variance, phi=self._phi, C=weight * self._C)
        return (alpha, beta) if alpha > 0 else None
