"""Where the mean chance of a mistake is, over all predictions, when only some labels are asked for and these come late,
in any order or never.

Three kinds of bets, made in the order of the predictions, that no stream lets anybody win: see docs/theory.md.
"""

from collections.abc import Callable, Sequence
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.learning.certainty.anytime import Interval
from service.learning.vectors import Array

LEVELS = 256
"""A label is asked for with a probability of k/256, so that what came of asked labels is kept as a count for each k."""

LEAST_LEVEL = 4
"""One label in 64 is asked for whatever the gap: what was asked for with a smaller chance would weigh too much."""

LEAST = LEAST_LEVEL / LEVELS
BETS = 64
PLACES, SEARCHES, DIGITS = 16, 6, 7
"""An end is looked for among so many places at a time, each time between two of those before, to within 16^-6."""

WEIGHTS = LEVELS / np.arange(1, LEVELS + 1)
"""1/p of each level."""


def level_of(probability: float) -> int:
    """The k of a probability that is k/256."""
    return round(probability * LEVELS)


def _bets(most: float) -> Array:
    return np.geomspace(0.004 * LEAST, most, BETS)


_GAINS, _LOSSES = _bets(400.0), _bets(0.999 * LEAST)
_IF_GAINED = np.log1p(np.outer(_GAINS, WEIGHTS))
_IF_LOST = np.log1p(-np.outer(_LOSSES, np.minimum(WEIGHTS, 1.0 / LEAST)))


Counts = Sequence[int] | NDArray[np.int64]
"""A number for each level."""


def interval(wrong: Counts, right: Counts, awaited: Counts, predictions: int, confidence: float) -> Interval:
    """Where the mean chance of a mistake is over so many predictions, by labels that were asked for.

    Each of the three has a count for each level: of the labels that have come and of predictions that were wrong or
    right, and of those that have not come. These count as right for the lower end and as wrong for the upper one.

    >>> none, wrong, right = [0] * LEVELS, [0] * LEVELS, [0] * LEVELS
    >>> wrong[127], right[127] = 200, 800
    >>> interval(wrong, right, none, 2000, 0.95)
    Interval(low=0.1546867, high=0.2830688)
    """
    if not predictions:
        return Interval(0.0, 1.0)
    gained, lost = _IF_GAINED @ wrong, _IF_LOST @ np.add(wrong, awaited)
    right_gained = _IF_GAINED @ right
    limit = log(2 / (1 - confidence))

    def may_be_so_low(m: Array) -> Any:
        bets = _bets_at(gained, _GAINS, m, predictions)
        return _log_mean_exp(bets) < limit

    def may_be_so_high(m: Array) -> Any:
        by_wrong = _bets_at(lost, -_LOSSES, m, predictions)
        by_right = _bets_at(right_gained, _GAINS, 1.0 - m, predictions)
        return _log_mean_exp(np.concatenate((by_wrong, by_right), axis=1)) < limit

    high = _end(1.0, 0.0, may_be_so_high)
    return Interval(min(_end(0.0, 1.0, may_be_so_low), high), high)


def _bets_at(won: Array, stakes: Array, means: Array, predictions: int) -> Array:
    """Logarithms of what the bets have come to if the mean is one of these: a row for each."""
    return won - predictions * np.log1p(np.outer(means, stakes))  # type: ignore[no-any-return]


def _log_mean_exp(logs: Array) -> Array:
    most = logs.max(axis=1)
    return most + np.log(np.exp(logs - most[:, None]).mean(axis=1))  # type: ignore[no-any-return]


def _end(outer: float, inner: float, may_be: Callable[[Array], Any]) -> float:
    """The mean nearest to `outer` that may be; all between it and `inner` may be, too."""
    for _ in range(SEARCHES):
        means = np.linspace(outer, inner, PLACES + 1)
        first = int(np.argmax([*may_be(means[:-1]), True]))
        if first == 0:
            break
        outer, inner = float(means[first - 1]), float(means[first])
    return round(outer, DIGITS)
