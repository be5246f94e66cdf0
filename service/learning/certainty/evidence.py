"""Evidence that one learner is better than another, which may be looked at after every round.

Of the rounds in which just one of two learners was right, `won` are the challenger's and `lost` the champion's. For any
λ in (0, 1) the product (1 + λ)^won (1 - λ)^lost is a bet on the challenger: if it wins each of these rounds with
probability at most one half, given what came before, the bet does not grow on average. E is the mean of 64 such bets.
By Ville's inequality it ever comes to 1/α with probability at most α, however often one looks.
"""

from decimal import MAX_EMAX, Decimal, localcontext
from math import exp, log

import numpy as np

BETS = 64
_LAMBDAS = (np.arange(BETS) + 0.5) / BETS
_GAINS, _LOSSES = np.log1p(_LAMBDAS), np.log1p(-_LAMBDAS)

EVIDENCE_MAX = 1e300
"""More evidence than this is told as this much: JSON knows no larger numbers."""

DIGITS = 12
"""Logarithms differ between machines in the last bit. Rounded to so many digits, what is told does not."""

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
