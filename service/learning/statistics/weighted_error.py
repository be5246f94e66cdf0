"""The error rate with each reveal counted by its weight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from service.learning import saved
from service.learning.statistics.rates import ratio
from service.learning.statistics.statistic import Asked, RevealedBlock


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
