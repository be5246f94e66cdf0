"""What may be looked at after every round: intervals for a mean, and evidence that one learner is better.

Nothing is assumed of the stream: neither that it stays the same nor that its rounds are independent. docs/theory.md has
the theorems. The interval for shares of mistakes is a mixture of martingales, that for other terms the stitched
boundary of Howard, Ramdas, McAuliffe, Sekhon: Time-uniform, nonparametric, nonasymptotic confidence sequences, Annals
of Statistics 49, 2021, theorem 4 with their equation 10 for η = 2, s = 1.4 and m = 10.

The evidence: of the rounds in which just one of two learners was right, `won` are the challenger's and `lost` the
champion's. For any λ in (0, 1) the product (1 + λ)^won (1 - λ)^lost is a bet on the challenger: if it wins each of
these rounds with probability at most one half, given what came before, the bet does not grow on average. E is the mean
of 64 such bets. By Ville's inequality it ever comes to 1/α with probability at most α, however often one looks.
"""

from decimal import MAX_EMAX, Decimal, localcontext
from math import exp, log, sqrt
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


BETS = 64
_LAMBDAS = (np.arange(BETS) + 0.5) / BETS
_GAINS, _LOSSES = np.log1p(_LAMBDAS), np.log1p(-_LAMBDAS)

EVIDENCE_MAX = 1e300
"""More evidence than this is reported as this much: JSON knows no larger numbers."""

EXACT_DIGITS = 60
"""Of decimal fractions, which all machines compute alike, where floating point leaves in doubt who is right."""


def log_evidence(won: int, lost: int) -> float:
    """The logarithm of E.

    >>> log_evidence(0, 0), round(log_evidence(20, 5), 6)
    (0.0, 3.881989)
    """
    bets = won * _GAINS + lost * _LOSSES
    most = float(bets.max())
    return most + log(float(np.exp(bets - most).sum()) / BETS)


def evidence(won: int, lost: int) -> float:
    """E, the factor by which 64 bets of one on the challenger have grown.

    >>> evidence(0, 0), evidence(10, 0), evidence(0, 3)
    (1.0, 186.038934106, 0.249969482422)
    """
    logarithm = log_evidence(won, lost)
    if logarithm > log(EVIDENCE_MAX):
        return EVIDENCE_MAX
    return float(f"{exp(logarithm):.{DIGITS}g}")


def confidence_of(found: float, factor: int) -> float:
    """With what confidence a challenger is better that has this evidence: 1 - α for E = `factor`/α.

    >>> confidence_of(40.0, 2), confidence_of(1.0, 2)
    (0.95, 0.0)
    """
    return round(max(0.0, 1.0 - factor / found), DIGITS) if found else 0.0


def is_enough(won: int, lost: int, factor: int, confidence: float) -> bool:
    """Whether the evidence has come to `factor`/α, α = 1 - confidence.

    A factor of 1 is for the only comparison there will ever be; of many, the K-th has K(K + 1), since the sum of
    1/(K(K + 1)) over all K is 1. The answer is the same on all machines, since replicas act on it.

    >>> is_enough(6, 0, factor=1, confidence=0.95), is_enough(8, 0, factor=1, confidence=0.95)
    (False, True)
    """
    rounds = won + lost
    if won <= lost:
        return False
    threshold = log(factor / (1.0 - confidence))
    doubt = 1e-9 + 1e-14 * rounds
    # No bet grows more than the one with the best λ, and computing that takes a tenth of the time.
    best = won * log(2 * won / rounds) + (lost * log(2 * lost / rounds) if lost else 0.0)
    if best < threshold - doubt:
        return False
    distance = log_evidence(won, lost) - threshold
    return distance > 0 if abs(distance) > doubt else _is_enough_exactly(won, lost, factor, confidence)


def _is_enough_exactly(won: int, lost: int, factor: int, confidence: float) -> bool:
    """The same in decimal fractions.

    >>> _is_enough_exactly(6, 0, 1, 0.95), _is_enough_exactly(8, 0, 1, 0.95)
    (False, True)
    """
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = EXACT_DIGITS, MAX_EMAX, -MAX_EMAX
        bets = Decimal(0)
        for twice in range(1, 2 * BETS, 2):
            share = Decimal(twice) / (2 * BETS)
            bets += (1 + share) ** won * (1 - share) ** lost
        return bets * (1 - Decimal(confidence)) >= factor * BETS
