"""Mistakes over rounds as a curve of at most 512 points, however long the stream.

The curve starts at (0, 0), has a point every `stride` rounds, and ends at the present: see `steps.py`. Each point has
the time of its reveal, the first one that of the first reveal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from service.learning import saved
from service.learning.statistics.point_times import PointTimes
from service.learning.statistics.statistic import Asked, RevealedBlock
from service.learning.statistics.steps import Steps


class Curve(Steps):
    """The curve of the mistakes made so far. `due` is the number of the reveal that gets the next point.

    >>> curve = Curve()
    >>> curve.observe(mistakes=1, at_us=5_000)
    >>> curve.observe(mistakes=1, at_us=9_000)
    >>> curve.report(Asked(now_us=0, classes=2, revealed=3, mistakes=2))
    {'curve': {'rounds': [0, 1, 2, 3], 'mistakes': [0, 1, 1, 2], 'times': [5, 5, 9, None]}}
    """

    __slots__ = ("times",)

    DEFINITIONS: ClassVar[Mapping[str, str]] = {
        "curve.rounds, curve.mistakes": "The mistakes made until each of those reveals, at most 512 points.",
        "curve.times": "When each of those reveals came, in milliseconds since 1970 (UTC).",
    }

    def __init__(self) -> None:
        super().__init__()
        self.times: PointTimes | None = None  # made when first needed: most models of a large fleet are young

    def observe(self, mistakes: int, at_us: int) -> None:
        """Take in reveal number `due`, with the mistakes made until then; no other reveal sets a point."""
        times = self.times
        if times is None:
            self.times = times = PointTimes()
            times.append(at_us)
        times.append(at_us)
        if self.add(mistakes):
            times.halve()

    def observe_rows(self, block: RevealedBlock) -> None:
        while (at := self.due - block.revealed_before - 1) < len(block.mistakes):
            self.observe(int(block.mistakes[at]), block.at_us)

    def report(self, asked: Asked) -> dict[str, Any]:
        rounds, totals = self.points(asked.revealed, asked.mistakes)
        times = [None] if self.times is None else self.times.report()
        if asked.revealed > self.last:
            times.append(None)
        return {"curve": {"rounds": rounds, "mistakes": totals, "times": times}}

    def state(self) -> list[Any]:
        return [*super().state(), None if self.times is None else self.times.state()]

    @classmethod
    def restore(cls, state: list[Any]) -> Curve:
        curve = cls()
        *points, times = saved.items(with_unknown_times(state), 5)
        curve.take(points)
        with saved.Within("[4]"):
            steps = curve.steps
            saved.check((times is None) == (not steps), "", "must be there if there are points")
            curve.times = PointTimes.restore(times, len(steps) + 1) if steps else None
        return curve

    def check(self, counted: Asked) -> None:
        self.check_counts(counted.revealed, counted.mistakes)


def with_unknown_times(state: Any) -> Any:
    """A state in which points have no times, as older programs have written it, with times that are not known."""
    if type(state) is not list or len(state) != 4:
        return state
    steps = state[3]
    return [*state, PointTimes.unknown(len(steps) + 1).state() if type(steps) is list and steps else None]
