"""Where the true error rate is: an interval that holds at all times at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from service.learning import saved
from service.learning.certainty.anytime import interval
from service.learning.statistics.calibration_rows import sum_after
from service.learning.statistics.statistic import Asked, RevealedBlock


class ErrorInterval:
    """What the interval needs: how far each mistake (1) or right answer (0) was from the mean of those before it.

    Before the first the mean is taken for one half. A model of an older version is observed from its next reveal on:
    the rounds and mistakes before that are left out.

    >>> observed = ErrorInterval()
    >>> for number in range(1000):
    ...     observed.observe(number, (number + 9) // 10, number % 10 == 0)
    >>> found = observed.report(Asked(now_us=0, classes=2, revealed=1000, mistakes=100))["error_rate_interval"]
    >>> {name: round(value, 3) for name, value in found.items()}
    {'low': 0.055, 'high': 0.145, 'confidence': 0.95, 'rounds': 1000}
    """

    __slots__ = ("_mistakes_before", "_rounds_before", "_variance")

    DEFINITIONS: ClassVar[Mapping[str, str]] = {
        "error_rate_interval.low, high": "The mean, over the rounds, of the chance that each had of being a mistake is "
        "between these two, at all times at once, with the probability `confidence` of the model's settings: however "
        "often one looks, and whatever the stream.",
        "error_rate_interval.rounds": "The reveals that the interval is about: all, unless an older version of the "
        "service began the model.",
    }

    def __init__(self) -> None:
        self._rounds_before = 0
        self._mistakes_before = 0
        self._variance = 0.0

    def observe(self, revealed: int, mistakes: int, mistake: bool) -> None:
        """Take in a reveal, after so many others with so many mistakes."""
        rounds = revealed - self._rounds_before
        distance = mistake - ((mistakes - self._mistakes_before) / rounds if rounds else 0.5)
        self._variance += distance * distance

    def observe_rows(self, block: RevealedBlock) -> None:
        mistaken, first = block.mistaken, block.revealed_before - self._rounds_before
        means = block.mistakes - mistaken - float(self._mistakes_before)
        rounds = np.arange(first, first + len(means), dtype=np.float64)
        if first:
            means /= rounds
        else:
            means[1:] /= rounds[1:]
            means[0] = 0.5
        distances = np.subtract(mistaken, means, out=means)
        distances *= distances
        self._variance = sum_after(self._variance, distances)

    def report(self, asked: Asked) -> dict[str, Any]:
        rounds, mistakes = asked.revealed - self._rounds_before, asked.mistakes - self._mistakes_before
        if not rounds:
            return {"error_rate_interval": None}
        found = interval(mistakes, rounds, self._variance, asked.confidence)
        return {"error_rate_interval": {**found._asdict(), "confidence": asked.confidence, "rounds": rounds}}

    def state(self) -> list[Any]:
        return [self._rounds_before, self._mistakes_before, self._variance]

    @classmethod
    def restore(cls, state: list[Any]) -> ErrorInterval:
        observed = cls()
        rounds_before, mistakes_before, variance = saved.items(state, 3)
        observed._rounds_before = saved.whole(rounds_before, "[0]", saved.ROUNDS_MAX)
        observed._mistakes_before = saved.whole(mistakes_before, "[1]", observed._rounds_before)
        observed._variance = saved.real(variance, "[2]", 0.0, float(saved.ROUNDS_MAX))
        return observed

    def check(self, counted: Asked) -> None:
        rounds = counted.revealed - self._rounds_before
        saved.check(rounds >= 0, "[0]", f"must be at most {counted.revealed}")
        saved.check(
            0 <= counted.mistakes - self._mistakes_before <= rounds, "[1]", "does not fit the mistakes in all"
        )
        saved.check(self._variance <= rounds, "[2]", f"must be at most {rounds}")
