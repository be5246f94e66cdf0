"""Error rates in which reveals weigh differently: the newer the more, or each by its own weight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from service.learning import saved
from service.learning.statistics.statistic import Asked, RevealedBlock, ratio

ALPHA = 0.01
ROUNDED = 1e-9
"""What the sums of many small numbers may be off by."""


class Ewma:
    """The mean of the mistakes, each reveal weighing 1% less than the one after it.

    Divided by the sum of the weights so far, it is a true weighted mean from the first reveal on.

    >>> ewma = Ewma()
    >>> ewma.observe(True)
    >>> ewma.observe(False)
    >>> round(ewma.error_rate, 4)
    0.4975
    """

    __slots__ = ("_sum", "_weight")

    DEFINITIONS: ClassVar[Mapping[str, str]] = {
        "ewma_error_rate": "The mean of all mistakes (1) and right answers (0), each weighing 1% less than the one "
        "after it (α = 0.01, divided by the sum of the weights, so that it is a mean from the first reveal on)."
    }

    def __init__(self) -> None:
        self._sum = 0.0
        self._weight = 0.0

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

    def state(self) -> list[float]:
        return [self._sum, self._weight]

    @classmethod
    def restore(cls, state: list[float]) -> Ewma:
        ewma = cls()
        total, weight = saved.items(state, 2)
        ewma._weight = saved.real(weight, "[1]", 0.0, 1.0)
        ewma._sum = saved.real(total, "[0]", 0.0, ewma._weight + ROUNDED)
        return ewma

    def check(self, counted: Asked) -> None:
        weight = 1.0 - (1.0 - ALPHA) ** counted.revealed
        saved.check(abs(self._weight - weight) <= ROUNDED, "[1]", "is not the weight of so many rounds")


class WeightedError:
    """The reveals that do not weigh 1: how many, how many of them were mistakes, and what both weigh.

    Those that weigh 1 are all the others, so they are not counted again.

    >>> weighted = WeightedError()
    >>> weighted.observe(True, 3.0)
    >>> weighted.report(Asked(now_us=0, classes=2, revealed=2, mistakes=1))
    {'weighted_error_rate': 0.75}
    """

    __slots__ = ("_mistaken", "_mistakes", "_rounds", "_weight")

    DEFINITIONS: ClassVar[Mapping[str, str]] = {
        "weighted_error_rate": "The weights of the mistakes divided by the weights of all reveals, where a reveal "
        "weighs its `weight` times that of its class in `class_weights`; `error_rate` if all weigh 1."
    }

    def __init__(self) -> None:
        self._rounds = self._mistakes = 0
        self._weight = self._mistaken = 0.0

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

    def state(self) -> list[Any]:
        return [self._rounds, self._mistakes, self._weight, self._mistaken]

    @classmethod
    def restore(cls, state: list[Any]) -> WeightedError:
        weighted = cls()
        rounds, mistakes, weight, mistaken = saved.items(state, 4)
        weighted._rounds = saved.whole(rounds, "[0]", saved.ROUNDS_MAX)
        weighted._mistakes = saved.whole(mistakes, "[1]", weighted._rounds)
        weighted._weight = saved.real(weight, "[2]", 0.0, saved.WEIGHT_MAX)
        weighted._mistaken = saved.real(mistaken, "[3]", 0.0, weighted._weight)
        return weighted

    def check(self, counted: Asked) -> None:
        saved.check(self._rounds <= counted.revealed, "[0]", f"must be at most {counted.revealed}")
        saved.check(self._mistakes <= counted.mistakes, "[1]", f"must be at most {counted.mistakes}")
