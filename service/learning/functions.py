"""The normal quantile and the logistic function, to the same bit on every machine.

The exponential functions of the math library and of numpy differ in the last bit between versions and processors, and
from each other. A replay must not.
"""

from statistics import NormalDist

import numpy as np

from service.learning.vectors import Array

_STANDARD = NormalDist()
_GRAIN = 2.0**-36


def quantile(probability: float) -> float:
    """The standard normal quantile, rounded to a multiple of 2^-36.

    In the tails it needs a logarithm, whose last bit depends on the machine's math library. Rounding takes
    that bit away.

    >>> quantile(0.5), round(quantile(0.975), 6)
    (0.0, 1.959964)
    """
    return round(_STANDARD.inv_cdf(probability) / _GRAIN) * _GRAIN


STEEPEST = 16.0
"""Beyond ±this the function is taken for that of this: probabilities are between 1.1e-7 and one minus that."""


def logistic(x: float) -> float:
    """1/(1 + e^-x), within 1e-8.

    e^-x is the 64th power of e^-r with r = x/64, and that is Padé's fraction of third degree, which is off by less than
    1e-9. Written out: with a loop over the squarings it takes much longer, and every prediction and reveal needs it.

    >>> logistic(0.0), round(logistic(2.0), 6), round(logistic(-1e9), 9)
    (0.5, 0.880797, 1.13e-07)
    """
    if x > STEEPEST:  # by comparisons: `min` and `max` take as long as all the rest
        x = STEEPEST
    elif x < -STEEPEST:
        x = -STEEPEST
    r = x * -0.015625
    square = r * r
    odd = (square + 60.0) * r
    even = square * 12.0 + 120.0
    power = (even + odd) / (even - odd)
    power *= power
    power *= power
    power *= power
    power *= power
    power *= power
    power *= power
    return 1.0 / (power + 1.0)


def logistic_of_all(x: Array) -> Array:
    """The same of each number of an array, to the same bit: the same steps, each in the place of the one before."""
    r = np.minimum(x, STEEPEST)
    np.maximum(r, -STEEPEST, out=r)
    r *= -0.015625
    square = r * r
    odd = square + 60.0
    odd *= r
    even = np.multiply(square, 12.0, out=square)
    even += 120.0
    power: Array = np.add(even, odd, out=r)
    even -= odd
    power /= even
    for _ in range(6):
        power *= power
    power += 1.0
    np.divide(1.0, power, out=power)
    return power
