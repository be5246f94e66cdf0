"""The logistic function out of sums, products and quotients only, so that every machine gets the same bits.

The exponential functions of the math library and of numpy differ in the last bit between versions and processors, and
from each other. A replay must not.
"""

from typing import Any

from service.learning.vectors import Array

STEEPEST = 16.0
"""Beyond ±this the function is taken for that of this: probabilities are between 1.1e-7 and one minus that."""

INVERSE_FACTORIALS = (1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6)


def logistic(x: float) -> float:
    """1/(1 + e^-x), within 1e-8.

    >>> logistic(0.0), round(logistic(2.0), 6), round(logistic(-1e9), 9)
    (0.5, 0.880797, 1.13e-07)
    """
    if x > STEEPEST:  # by comparisons: `min` and `max` take as long as all the rest
        x = STEEPEST
    elif x < -STEEPEST:
        x = -STEEPEST
    return _logistic(x)  # type: ignore[no-any-return]


def logistic_of_all(x: Array) -> Array:
    """The same of each number of an array, to the same bit."""
    return _logistic(x.clip(-STEEPEST, STEEPEST))  # type: ignore[no-any-return]


def _logistic(x: Any) -> Any:
    """e^(-x) as the 64th power of e^(-x/64), which is the sum of the first terms of its series.

    Written out: with loops over terms and squarings it takes twice as long, and every prediction and reveal needs it.
    """
    r = x * -0.015625
    a, b, c, d, e = INVERSE_FACTORIALS
    power = ((((((a * r + b) * r + c) * r + d) * r + e) * r + 0.5) * r + 1.0) * r + 1.0
    power = power * power
    power = power * power
    power = power * power
    power = power * power
    power = power * power
    power = power * power
    return 1.0 / (1.0 + power)
