"""The statistics of one model: what its reveals were, in constant time each and bounded memory.

`Statistics` is part of the fold over the journal. It is made of the parts in this package, each of which is
a deterministic function of the reveals alone, taken in order, and of their own times. docs/statistics.md
defines every number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from service.learning.statistics.confusion import Confusion, ratio
from service.learning.statistics.curve import Curve
from service.learning.statistics.delay import Delay
from service.learning.statistics.drift import DELTA, Drift
from service.learning.statistics.windows import Flags, TimeWindows, mistakes_of_last, push, push_all

EWMA_ALPHA = 0.01
LAST_ROUNDS = {"last_100": 100, "last_1000": 1000, "last_10000": 10_000}


def window(rounds: int, mistakes: int) -> dict[str, Any]:
    """A window as reported.

    >>> window(100, 3)
    {'rounds': 100, 'mistakes': 3, 'error_rate': 0.03}
    """
    return {"rounds": rounds, "mistakes": mistakes, "error_rate": ratio(mistakes, rounds)}


class Statistics:
    """Everything about a model's reveals but the bound.

    >>> statistics = Statistics()
    >>> for number, (truth, served) in enumerate([(0, 1), (1, 1), (1, 1), (0, 0)]):
    ...     _ = statistics.observe(
    ...         truth, served, at_us=number, predicted_at_us=number, updated=truth != served, stale_updates=0
    ...     )
    >>> report = statistics.report(now_us=4, classes=2)
    >>> report["error_rate"], report["confusion"]["matrix"]
    (0.25, [[1, 1], [0, 2]])
    """

    __slots__ = (
        "_clock",
        "_confusion",
        "_curve",
        "_delay",
        "_drift",
        "_ewma",
        "_ewma_weight",
        "_recent",
        "mistakes",
        "revealed",
        "updates",
    )

    def __init__(self, *, delta: float = DELTA) -> None:
        self.revealed = 0
        self.mistakes = 0
        self.updates = 0
        self._ewma = 0.0
        self._ewma_weight = 0.0
        self._recent = bytearray()
        self._clock = TimeWindows()
        self._confusion = Confusion()
        self._delay = Delay()
        self._drift = Drift(delta)
        self._curve = Curve()

    def observe(
        self, truth: int, served: int, *, at_us: int, predicted_at_us: int, updated: bool, stale_updates: int
    ) -> bool:
        """Take in one reveal; whether the error is found, with it, to have risen (a drift).

        `truth` and `served` are indices of classes; `served` is -1 where no label could be served yet,
        which is a mistake that stands in no column of the confusion matrix. `stale_updates` counts the
        model's updates between the prediction and this reveal.
        """
        mistake = truth != served
        push(self._recent, self.revealed, mistake)
        self.revealed = revealed = self.revealed + 1
        if mistake:
            self.mistakes += 1
        if updated:
            self.updates += 1
        self._ewma += EWMA_ALPHA * (mistake - self._ewma)
        self._ewma_weight += EWMA_ALPHA * (1.0 - self._ewma_weight)
        self._clock.observe(at_us, mistake)
        self._confusion.observe(truth, served)
        self._delay.observe(at_us - predicted_at_us, stale_updates)
        curve = self._curve
        if revealed == curve.due:
            curve.mark(self.mistakes)
        return self._drift.observe(mistake, revealed)

    def observe_rows(
        self, truths: npt.NDArray[np.int64], served: npt.NDArray[np.int64], updated: Flags, *, at_us: int
    ) -> list[int]:
        """Take in whole rounds, one after the other at the same time: what `observe` would make of each.

        The numbers of the reveals at which the error was found to have risen.
        """
        mistaken = truths != served
        revealed, count = self.revealed, len(truths)
        mistakes = np.cumsum(mistaken) + self.mistakes
        self._curve.pass_by(revealed, mistakes)
        rises = self._drift.observe_all(mistaken, revealed)
        self._clock.observe(at_us, int(mistakes[-1]) - self.mistakes, count)
        self._delay.observe(0, 0, count)
        push_all(self._recent, revealed, mistaken)
        self.revealed += count
        self.mistakes = int(mistakes[-1])
        self.updates += int(np.count_nonzero(updated))
        ewma, weight = self._ewma, self._ewma_weight
        for mistake in mistaken.astype(np.float64).tolist():
            ewma += EWMA_ALPHA * (mistake - ewma)
        for _ in range(count):
            before, weight = weight, weight + EWMA_ALPHA * (1.0 - weight)
            if weight == before:  # as it is after some thousands
                break
        self._ewma, self._ewma_weight = ewma, weight
        if truths.max() <= 1 and served.min() >= 0 and served.max() <= 1 and self._confusion.knows_two:
            self._confusion.observe_two(truths.astype(np.bool_), mistaken)
        else:
            for truth, answer in zip(truths.tolist(), served.tolist(), strict=True):
                self._confusion.observe(truth, answer)
        return rises

    @property
    def ewma_error_rate(self) -> float | None:
        """The exponentially weighted error rate: a reveal counts 1% less than the one after it.

        Divided by the sum of the weights so far, it is a true weighted mean from the first reveal on.
        """
        return ratio(self._ewma, self._ewma_weight)

    @property
    def delay(self) -> dict[str, Any]:
        """How late labels come: quantiles of the seconds, and the most updates in between."""
        return self._delay.report()

    @property
    def drift_count(self) -> int:
        """How often the error rose."""
        return self._drift.count

    @property
    def drift_round(self) -> int | None:
        """The number of the reveal at which the last rise was found."""
        return self._drift.last_round

    @property
    def drift_state(self) -> str:
        """`stable`, `warning` or `drift`."""
        return self._drift.state_at(self.revealed)

    def report(self, now_us: int, classes: int) -> dict[str, Any]:
        """What `/stats` says, as of `now_us`, for a model that knows this many classes, by their indices.

        A ratio without a denominator is None. Beyond 50 classes the matrix is None, and `confusion` has
        `largest` instead: the 100 commonest confusions.
        """
        revealed, recent = self.revealed, self._recent
        windows = {
            name: window(min(last, revealed), mistakes_of_last(recent, revealed, last))
            for name, last in LAST_ROUNDS.items()
        }
        for name, (rounds, mistakes) in self._clock.windows(now_us).items():
            windows[name] = window(rounds, mistakes)
        return {
            "mistakes": self.mistakes,
            "updates": self.updates,
            "error_rate": ratio(self.mistakes, revealed),
            "ewma_error_rate": self.ewma_error_rate,
            "windows": windows,
            **self._confusion.report(classes),
            "delay": self._delay.report(),
            "drift": self._drift.report(revealed),
            "curve": self._curve.report(revealed, self.mistakes),
        }

    def state(self) -> dict[str, Any]:
        """Numbers, bytes, lists: what `restore` turns back into this. Equal statistics have equal states."""
        return {
            "revealed": self.revealed,
            "mistakes": self.mistakes,
            "updates": self.updates,
            "ewma": [self._ewma, self._ewma_weight],
            "recent": bytes(self._recent),
            "clock": self._clock.state(),
            "confusion": self._confusion.state(),
            "delay": self._delay.state(),
            "drift": self._drift.state(),
            "curve": self._curve.state(),
        }

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Statistics:
        """What `state` was taken from, to the bit."""
        statistics = cls()
        statistics.revealed = state["revealed"]
        statistics.mistakes = state["mistakes"]
        statistics.updates = state["updates"]
        statistics._ewma, statistics._ewma_weight = state["ewma"]
        statistics._recent = bytearray(state["recent"])
        statistics._clock = TimeWindows.restore(state["clock"])
        statistics._confusion = Confusion.restore(state["confusion"])
        statistics._delay = Delay.restore(state["delay"])
        statistics._drift = Drift.restore(state["drift"])
        statistics._curve = Curve.restore(state["curve"])
        return statistics
