"""Which labels to ask for: those that the model is least sure of, most often, and all of them sometimes.

Cesa-Bianchi, Gentile, Zaniboni: Worst-case analysis of selective sampling for linear classification, JMLR 7, 2006. A
label is asked for with the probability p = b/(b + gap/η), and never less than `LEAST`. docs/theory.md proves the bound
on the expected mistakes for late labels, and what asked labels tell of the error over all predictions.

Where the mean chance of a mistake is, over all predictions, when only some labels are asked for and these come late,
in any order or never: three kinds of bets, made in the order of the predictions, that no stream lets anybody win.
docs/theory.md has them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, log
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from service.learning import saved
from service.learning.certainty import anytime
from service.learning.certainty.anytime import Interval
from service.learning.saved import Count, Part, Rounds, Score
from service.learning.statistics.statistic import ratio
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


def is_asked(prediction_id: str, key: str, probability: float) -> bool:
    """Whether a label is asked for: by chance, which is the same for a retry, a replay and every replica.

    >>> sum(is_asked(f"p{number}", "key", 0.25) for number in range(1000))
    270
    """
    digest = hashlib.blake2b(prediction_id.encode(), digest_size=8, key=key.encode()[:64]).digest()
    return int.from_bytes(digest, "big") < probability * 2**64


Levels = list[Rounds]
"""Of each probability k/256; empty by rules 1."""


@dataclass(slots=True, eq=False, init=False)
class Asking(Part):
    """What a model with `ask` has asked for, and what came of it.

    `b` is given or, if it is None, follows the stream: (1 + 2D) R_z²/2 for the largest ‖z‖ and the most stale updates
    so far where the theorem holds, which makes its bound the smallest; else the usual gap, so that one label in two is
    asked for of the examples that are like most.

    By rules 1, an estimate is made that counts predictions whose labels were not asked for at once, and the others when
    their labels have come: it is wrong while labels are late.
    """

    IS_LIST = False
    SETTINGS = ("b_given", "eta")

    asked: Count
    """Reveals whose label had been asked for."""
    b: Score
    b_given: float | None
    eta: float
    expired: Count
    """Predictions whose labels will not come."""
    key: str | None
    """That of the hash which decides; None of a model that was made before there were secret ones."""
    revealed: Count
    """Reveals of predictions that came with `ask`, true or false."""
    weighted_mistakes: Score
    """Σ e/p over those whose label had been asked for, by rules 1."""
    weighted_squares: Score
    """Σ e/p² over these, by rules 1."""
    wrong: Levels
    """Predictions that were wrong by a label that was asked for."""
    right: Levels
    lost: Levels
    """Predictions whose label was asked for, as far as is known, and will not come."""

    def __init__(self, b: float | None, eta: float, *, rules: int, key: str | None = None) -> None:
        self.b_given, self.eta, self.b, self.key = b, eta, b or 0.0, key
        self.begin(LEVELS if rules >= 2 else 0)

    def begin(self, levels: int) -> None:
        """Count from here on."""
        self.revealed = self.asked = self.expired = 0
        self.weighted_mistakes = self.weighted_squares = 0.0
        self.wrong, self.right, self.lost = [0] * levels, [0] * levels, [0] * levels

    def __post_init__(self) -> None:
        self.at_most("asked", self.revealed)
        if self.wrong:
            both = sum(self.wrong) + sum(self.right)
            saved.check(both == self.asked, "asked", "must be `wrong` and `right` together")
            saved.check(sum(self.lost) <= self.expired, "lost", "must be at most `expired` together")

    @property
    def rules(self) -> int:
        return 2 if self.wrong else 1

    def restored(self, state: Any) -> Self:
        part = Part.restored(self, state)
        saved.check(part.b_given in (None, part.b), "b", "is not that of the settings")
        for name in ("wrong", "right", "lost"):
            is_right = len(getattr(part, name)) == len(self.wrong)
            saved.check(is_right, name, "contradicts the model's rules")
        return part

    def probability(self, gap: float) -> float:
        """The chance with which a label is asked for; 1 while nothing is known that b could be made of."""
        if not self.b:
            return 1.0
        probability = max(LEAST, self.b / (self.b + gap / self.eta))
        return ceil(probability * LEVELS) / LEVELS if self.rules >= 2 else probability

    def follow(self, b: float) -> None:
        """Take a larger b, unless it was given; of a smaller one the bound would not speak."""
        if self.b_given is None and b > self.b:
            self.b = min(b, saved.SCORE_MAX)

    def observe(self, probability: float, was_asked: bool, mistake: bool) -> None:
        """Take in a reveal of a prediction that was served with this probability of being asked for."""
        self.revealed += 1
        if was_asked:
            self.asked += 1
            if self.rules >= 2:
                (self.wrong if mistake else self.right)[level_of(probability) - 1] += 1
            elif mistake:
                self.weighted_mistakes += 1.0 / probability
                self.weighted_squares += 1.0 / probability / probability

    def expire(self, count: int, asked: Iterable[tuple[int, int]] | None) -> None:
        """Take in that the labels of so many predictions will not come, so many of them `asked` for with each k/256.

        Any of them may have been asked for, with the least probability, if that is not known.
        """
        self.expired += count
        if self.rules >= 2:
            for level, lost in [(LEAST_LEVEL, count)] if asked is None else asked:
                self.lost[level - 1] += lost

    def count_anew(self) -> None:
        """Begin again, where some of the predictions so far are forgotten: the others would be a biased choice."""
        if self.rules >= 2:
            self.begin(LEVELS)

    def report(self, unasked: int, awaited: Sequence[float], confidence: float) -> dict[str, Any]:
        """`unasked`: predictions that wait and whose label was not asked for. `awaited`: for each that waits and whose
        label was asked for, with what probability."""
        if self.rules < 2:
            return self._report_by_rules_1(unasked, confidence)
        predictions = self.revealed + unasked + len(awaited) + self.expired
        asked = self.asked + len(awaited)
        within = None
        if predictions:
            levels = [level_of(probability) - 1 for probability in awaited]
            missing = np.add(self.lost, np.bincount(levels, minlength=LEVELS))
            within = interval(self.wrong, self.right, missing, predictions, confidence)
        weighted_mistakes, of_all = (
            float(WEIGHTS @ self.wrong),
            float(WEIGHTS @ np.add(self.wrong, self.right)),
        )
        return self._told(predictions, asked, ratio(weighted_mistakes, of_all), within, confidence)

    def _report_by_rules_1(self, unasked: int, confidence: float) -> dict[str, Any]:
        predictions = self.revealed + unasked + self.expired
        estimate, within = ratio(self.weighted_mistakes, predictions), None
        if predictions:
            total, squares = self.weighted_mistakes, self.weighted_squares
            within = anytime.interval(total, predictions, squares, confidence, scale=1 / LEAST)
        return self._told(predictions, self.asked, estimate, within, confidence)

    def _told(
        self,
        predictions: int,
        asked: int,
        estimate: float | None,
        within: anytime.Interval | None,
        confidence: float,
    ) -> dict[str, Any]:
        interval = within and {**within._asdict(), "confidence": confidence, "rounds": predictions}
        return {
            "b": self.b or None,
            "predictions": predictions,
            "asked": asked,
            "asked_rate": ratio(asked, predictions),
            "error_rate": None if estimate is None else min(1.0, estimate),
            "error_rate_interval": interval,
        }

    def expected_mistakes(self, growth: float, root_k: float, gamma: float) -> float:
        """At most so many mistakes are to be expected with this b on a stream that is separable with margin γ.

        `growth` is (1 + 2D) R_z². docs/theory.md has the proof.

        >>> Asking(0.5, eta=1.0, rules=2).expected_mistakes(growth=1.0, root_k=1.0, gamma=0.1)
        100.0
        """
        root = (2 * self.b + growth) * root_k / gamma
        return root * root / (8 * self.b)

    def check(self, revealed: int) -> None:
        """`saved.BadState` unless it can be of a model with so many reveals."""
        for name, most in (
            ("revealed", revealed),
            ("weighted_mistakes", self.asked / LEAST),
            ("weighted_squares", self.asked / LEAST / LEAST),
        ):
            saved.check(getattr(self, name) <= most, name, f"must be at most {most}")
