"""Intervals for a mean that hold at all times at once, so that they may be looked at after every round.

Nothing is assumed of the stream: neither that it stays the same nor that its rounds are independent. docs/theory.md has
the theorems. For shares of mistakes it is a mixture of martingales, for other terms the stitched boundary of Howard,
Ramdas, McAuliffe, Sekhon: Time-uniform, nonparametric, nonasymptotic confidence sequences, Annals of Statistics 49,
2021, theorem 4 with their equation 10 for η = 2, s = 1.4 and m = 10.
"""

from math import log, sqrt
from typing import NamedTuple

import numpy as np

RATES = np.concatenate([np.geomspace(0.004, 6.0, 64), np.geomspace(1e-7, 0.004, 33)[:-1]])
"""λ of each martingale in the mixture: large ones suit few rounds, small ones many."""

LOG_WEIGHTS = np.log(np.repeat([0.9 / 64, 0.1 / 32], [64, 32]))
GROWTH = np.expm1(RATES)
STEPS_MAX = 100
"""Of Newton's method, which takes about 15."""

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


def interval_of_share(hits: int, rounds: int, confidence: float) -> Interval:
    """Where the mean chance of a hit is over the rounds so far, of which so many were hits.

    >>> interval_of_share(30, 1000, 0.95)
    Interval(low=0.014808836602, high=0.052342493935)
    """
    level = log(2 / (1 - confidence))
    low = _least(hits, rounds, level)
    high = 1 - _least(rounds - hits, rounds, level)  # what is no hit has the chances 1 - p
    return Interval(round(low, DIGITS), round(high, DIGITS))


def _least(hits: int, rounds: int, level: float) -> float:
    """The smallest mean m at which the logarithm of the mixture is at most `level`.

    It falls with m and is convex, so Newton's method climbs to the root from the left and never passes it.
    """
    m = 0.0
    gains = LOG_WEIGHTS + RATES * hits
    for _ in range(STEPS_MAX):
        terms = gains - rounds * np.log1p(m * GROWTH)
        largest = terms.max()
        shares = np.exp(terms - largest)
        total = shares.sum()
        above = float(largest + np.log(total)) - level
        if above <= 0:
            break
        slope = rounds * float((shares * GROWTH / (1 + m * GROWTH)).sum() / total)
        step = above / slope
        m += step
        if step < m * 1e-12:
            break
    return min(m, hits / rounds)


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
