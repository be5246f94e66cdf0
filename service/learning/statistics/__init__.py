"""The statistics of one model: what its reveals were, in constant time each and bounded memory.

`Statistics` is part of the fold over the journal. `statistic.py` says what each of its parts promises and `STATISTICS`
lists them; docs/statistics.md defines every number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from service.learning import saved
from service.learning.certainty.anytime import interval_of_share
from service.learning.statistics.calibration import Calibration, Standing
from service.learning.statistics.confusion import Confusion
from service.learning.statistics.curve import Curve
from service.learning.statistics.delay import Delay
from service.learning.statistics.drift import Drift
from service.learning.statistics.error_rates import Ewma, WeightedError
from service.learning.statistics.statistic import Asked, Flags, Integers, RevealedBlock, Statistic, ratio
from service.learning.statistics.windows import LastRounds, TimeWindows
from service.learning.vectors import Array

STATISTICS: dict[str, type[Statistic]] = {
    "ewma": Ewma,
    "recent": LastRounds,
    "clock": TimeWindows,
    "confusion": Confusion,
    "delay": Delay,
    "drift": Drift,
    "curve": Curve,
    "calibration": Calibration,
    "weighted": WeightedError,
}
"""Every statistic by the name that it has as an attribute of `Statistics` and in a model's state."""


class Statistics:
    """Everything about a model's reveals but the bound: three counters, and each of `STATISTICS`.

    >>> statistics = Statistics()
    >>> for number, (truth, served) in enumerate([(0, 1), (1, 1), (1, 1), (0, 0)]):
    ...     _ = statistics.observe(
    ...         truth, served, at_us=number, predicted_at_us=number, updated=truth != served, stale_updates=0
    ...     )
    >>> report = statistics.report(now_us=4, classes=2)
    >>> report["error_rate"], report["confusion"]["matrix"]
    (0.25, [[1, 1], [0, 2]])
    """

    __slots__ = ("mistakes", "revealed", "updates", *STATISTICS)

    DEFINITIONS: ClassVar[Mapping[str, str]] = {
        "mistakes": "Reveals whose served label was not the true one, the label as served and not as it would be "
        "served now.",
        "updates": "Reveals that changed the weights; an example of zeros, without a bias, changes none.",
        "error_rate": "`mistakes / revealed`.",
        "error_rate_interval.low, high": "The mean, over the rounds, of the chance that each had of being a mistake is "
        "between these two, at all times at once, with the probability `confidence` of the model's settings: however "
        "often one looks, and whatever the stream.",
        "error_rate_interval.rounds": "The reveals that the interval is about: all.",
    }

    ewma: Ewma
    recent: LastRounds
    clock: TimeWindows
    confusion: Confusion
    delay: Delay
    drift: Drift
    curve: Curve
    calibration: Calibration
    weighted: WeightedError

    def __init__(self, *, forgets: bool = True) -> None:
        self.revealed = 0
        self.mistakes = 0
        self.updates = 0
        for name, statistic in STATISTICS.items():
            setattr(self, name, statistic())
        self.calibration.forgets = forgets

    def observe(
        self,
        truth: int,
        served: int,
        *,
        at_us: int,
        predicted_at_us: int,
        updated: bool,
        stale_updates: int,
        standing: Standing | None = None,
        weight: float = 1.0,
        no_change: int | None = None,
    ) -> bool:
        """Take in one reveal; whether the error is found, with it, to have risen (a drift).

        `truth` and `served` are indices of classes; `served` is -1 where no label could be served yet,
        which is a mistake that stands in no column of the confusion matrix. `stale_updates` counts the
        model's updates between the prediction and this reveal. `standing` is that of the prediction as it was served,
        None if a version made it that did not know of it. `no_change` is the class that had been revealed last when it
        was served, None for the one that was revealed last by now.
        """
        mistake = truth != served
        self.recent.observe(self.revealed, mistake)
        self.revealed = revealed = self.revealed + 1
        if mistake:
            self.mistakes += 1
        if updated:
            self.updates += 1
        self.ewma.observe(mistake)
        self.clock.observe(at_us, mistake)
        self.confusion.observe(truth, served, no_change)
        self.delay.observe(at_us - predicted_at_us, stale_updates)
        if weight != 1.0:
            self.weighted.observe(mistake, weight)
        if standing is not None:
            self.calibration.observe(*standing, not mistake, is_late=predicted_at_us != at_us)
        curve = self.curve
        if revealed == curve.due:
            curve.observe(self.mistakes, at_us)
        return self.drift.observe(mistake, revealed)

    def observe_rows(
        self, truths: Integers, served: Integers, updated: Flags, gaps: Array, *, at_us: int
    ) -> RevealedBlock:
        """Take in whole rounds, one after the other at the same time: what `observe` would make of each.

        In the block that is returned, `rises` and `probabilities` are what the statistics have found.
        """
        mistaken = truths != served
        mistakes = np.cumsum(mistaken) + self.mistakes
        block = RevealedBlock(truths, served, mistaken, mistakes, self.revealed, at_us, gaps)
        for name in STATISTICS:
            getattr(self, name).observe_rows(block)
        self.revealed += len(truths)
        self.mistakes = int(mistakes[-1])
        self.updates += int(np.count_nonzero(updated))
        return block

    @property
    def ewma_error_rate(self) -> float | None:
        """The exponentially weighted error rate."""
        return self.ewma.error_rate

    @property
    def drift_count(self) -> int:
        """How often the error rose."""
        return self.drift.count

    @property
    def drift_state(self) -> str:
        """`stable`, `warning` or `drift`."""
        return self.drift.state_at(self.revealed)

    def report(self, now_us: int, classes: int, confidence: float = 0.95) -> dict[str, Any]:
        """What `/stats` says, as of `now_us`, for a model that knows this many classes, by their indices."""
        asked = Asked(now_us, classes, self.revealed, self.mistakes, confidence)
        report: dict[str, Any] = {
            "mistakes": self.mistakes,
            "updates": self.updates,
            "error_rate": ratio(self.mistakes, self.revealed),
            "error_rate_interval": None,
        }
        if self.revealed:
            found = interval_of_share(self.mistakes, self.revealed, confidence)._asdict()
            report["error_rate_interval"] = found | {"confidence": confidence, "rounds": self.revealed}
        for name in STATISTICS:
            for field, value in getattr(self, name).report(asked).items():
                report[field] = {**report[field], **value} if field in report else value
        return report

    def state(self) -> dict[str, Any]:
        """Numbers, bytes, lists: what `restore` turns back into this. Equal statistics have equal states."""
        counters = {"revealed": self.revealed, "mistakes": self.mistakes, "updates": self.updates}
        return counters | {name: getattr(self, name).state() for name in STATISTICS}

    @classmethod
    def restore(cls, state: Any, *, forgets: bool = True) -> Statistics:
        """What `state` was taken from, to the bit; `saved.BadState` if a part of it cannot be one's state."""
        statistics = cls()
        revealed, mistakes, updates, *parts = saved.fields(
            state, "revealed", "mistakes", "updates", *STATISTICS
        )
        statistics.revealed = saved.whole(revealed, "revealed", saved.ROUNDS_MAX)
        statistics.mistakes = saved.whole(mistakes, "mistakes", statistics.revealed)
        statistics.updates = saved.whole(updates, "updates", statistics.revealed)
        for (name, statistic), part in zip(STATISTICS.items(), parts, strict=True):
            setattr(statistics, name, saved.within(name, statistic.restore, part))
        statistics.calibration.forgets = forgets
        return statistics

    def check(self, classes: int) -> None:
        """`saved.BadState` unless all parts agree with the three counters and a model of so many classes.

        For states that others may have written: a snapshot, which has a digest of its own, is believed so far.
        """
        counted = Asked(0, classes, self.revealed, self.mistakes)
        for name in STATISTICS:
            saved.within(name, getattr(self, name).check, counted)
