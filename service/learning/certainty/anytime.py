"""An interval for a mean that holds at all times at once, so that it may be looked at after every round.

Howard, Ramdas, McAuliffe, Sekhon: Time-uniform, nonparametric, nonasymptotic confidence sequences, Annals of
Statistics 49, 2021: theorem 4 with the stitched boundary (their equation 10) for η = 2, s = 1.4 and m = 10. Nothing is
assumed of the stream: neither that it stays the same nor that its rounds are independent.
"""

from math import log, sqrt
from typing import NamedTuple

GROUND = 10.0
"""m: the boundary is tightest around this much variance, and flat below it."""

POWER = 1.4
"""s: how fast the chance of an error is spent over the times when the variance doubles."""

ZETA = 3.1055473
"""ζ(1.4), rounded up."""

K1 = (2**0.25 + 2**-0.25) / sqrt(2)
K2 = (sqrt(2) + 1) / 2
DIGITS = 12
"""Logarithms differ between machines in the last bit. Rounded to so many digits, intervals do not."""


class Interval(NamedTuple):
    """Between which two values the mean is."""

    low: float
    high: float


def boundary(variance: float, alpha: float, *, scale: float) -> float:
    """What a sum exceeds, at any time, with probability at most `alpha`, once its variance has come to `variance`.

    `scale` is how far one term can be from what was expected of it.

    >>> round(boundary(100.0, 0.05, scale=3.0), 5)
    64.48755
    """
    v = max(variance, GROUND)
    level = POWER * log(log(2 * v / GROUND)) + log(ZETA / log(2) ** POWER / alpha)
    tail = K2 * scale * level
    return sqrt(K1 * K1 * v * level + tail * tail) + tail


def interval(
    total: float, rounds: int, variance: float, confidence: float, *, scale: float = 1.0,
    low: float = 0.0, high: float = 1.0,
) -> Interval:  # fmt: skip
    """Where the mean of what was to be expected of each round is, whatever the stream.

    `total` is the sum of the terms, `variance` that of their squared distances from what was expected of each, by
    anything known before it. `low` and `high` are what is possible.

    >>> interval(30, 1000, 29.5, 0.95)
    Interval(low=0.001900614699, high=0.058099385301)
    """
    radius = boundary(variance, (1 - confidence) / 2, scale=scale)
    return Interval(
        max(low, round((total - radius) / rounds, DIGITS)),
        min(high, round((total + radius) / rounds, DIGITS)),
    )
