"""Error rates in which reveals weigh differently: the newer the more, or each by its own weight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from service.learning import saved
from service.learning.saved import Part, Rounds, Share, Weight
from service.learning.statistics.statistic import Asked, RevealedBlock, ratio

ALPHA = 0.01
ROUNDED = 1e-9
"""What the sums of many small numbers may be off by."""


@dataclass(slots=True, eq=False)
class Ewma(Part):
    """The mean of the mistakes, each reveal weighing 1% less than the one after it.

    Divided by the sum of the weights so far, it is a true weighted mean from the first reveal on.

    >>> ewma = Ewma()
    >>> ewma.observe(True)
    >>> ewma.observe(False)
    >>> round(ewma.error_rate, 4)
    0.4975
    """

    DEFINITIONS: ClassVar[Mapping[str, str]] = {
        "ewma_error_rate": "The mean of all mistakes (1) and right answers (0), each weighing 1% less than the one "
        "after it (α = 0.01, divided by the sum of the weights, so that it is a mean from the first reveal on)."
    }

    _sum: Weight = 0.0
    _weight: Share = 0.0

    def __post_init__(self) -> None:
        self.at_most("_sum", self._weight + ROUNDED)

    def observe(self, mistake: bool) -> None:
        self._sum += ALPHA * (mistake - self._sum)
        self._weight += ALPHA * (1.0 - self._weight)

    def observe_rows(self, block: RevealedBlock) -> None:
        total, weight = self._sum, self._weight
        for mistake in block.mistaken.astype(np.float64).tolist():
            total += ALPHA * (mistake - total)
        for _ in range(len(block.mistaken)):
            before, weight = weight, weight + ALPHA * (1.0 - weight)
            if weight == before:  # it no longer changes after some thousands of reveals
                break
        self._sum, self._weight = total, weight

    @property
    def error_rate(self) -> float | None:
        return ratio(self._sum, self._weight)

    def report(self, asked: Asked) -> dict[str, Any]:
        return {"ewma_error_rate": self.error_rate}

    def check(self, counted: Asked) -> None:
        weight = 1.0 - (1.0 - ALPHA) ** counted.revealed
        saved.check(abs(self._weight - weight) <= ROUNDED, "[1]", "is not the weight of so many rounds")


@dataclass(slots=True, eq=False)
class WeightedError(Part):
    """The reveals that do not weigh 1: how many, how many of them were mistakes, and what both weigh.

    Those that weigh 1 are all the others, so they are not counted again.

    >>> weighted = WeightedError()
    >>> weighted.observe(True, 3.0)
    >>> weighted.report(Asked(now_us=0, classes=2, revealed=2, mistakes=1))
    {'weighted_error_rate': 0.75}
    """

    DEFINITIONS: ClassVar[Mapping[str, str]] = {
        "weighted_error_rate": "The weights of the mistakes divided by the weights of all reveals, where a reveal "
        "weighs its `weight` times that of its class in `class_weights`; `error_rate` if all weigh 1."
    }

    _rounds: Rounds = 0
    _mistakes: Rounds = 0
    _weight: Weight = 0.0
    _mistaken: Weight = 0.0

    def __post_init__(self) -> None:
        self.at_most("_mistakes", self._rounds)
        self.at_most("_mistaken", self._weight)

    def observe(self, mistake: bool, weight: float) -> None:
        """Take in a reveal that does not weigh 1."""
        self._rounds += 1
        self._weight += weight
        if mistake:
            self._mistakes += 1
            self._mistaken += weight

    def observe_rows(self, block: RevealedBlock) -> None:
        """All rounds of a block weigh 1."""

    def report(self, asked: Asked) -> dict[str, Any]:
        weight = asked.revealed - self._rounds + self._weight
        return {"weighted_error_rate": ratio(asked.mistakes - self._mistakes + self._mistaken, weight)}

    def check(self, counted: Asked) -> None:
        self.at_most("_rounds", counted.revealed)
        self.at_most("_mistakes", counted.mistakes)
