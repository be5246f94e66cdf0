"""Mistakes over rounds as a curve of at most 512 points, however long the stream.

The curve starts at (0, 0), has a point every `stride` rounds, and ends at the present. When it is full,
every second point goes and the stride doubles. Between points only the mistakes made there are kept: a byte
each while they fit. Each point has the time of its reveal, the first one that of the first reveal.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, ClassVar

from service.learning import saved
from service.learning.statistics.point_times import PointTimes
from service.learning.statistics.statistic import Asked, RevealedBlock

STEPS_MAX = 510  # and the first point and the present make 512; even, so that steps fold in pairs
STEP_MAX = (1 << 32) - 1


class Curve:
    """The curve of the mistakes made so far. `due` is the number of the reveal that gets the next point.

    >>> curve = Curve()
    >>> curve.observe(mistakes=1, at_us=5_000)
    >>> curve.observe(mistakes=1, at_us=9_000)
    >>> curve.report(Asked(now_us=0, classes=2, revealed=3, mistakes=2))
    {'curve': {'rounds': [0, 1, 2, 3], 'mistakes': [0, 1, 1, 2], 'times': [5, 5, 9, None]}}
    """

    __slots__ = ("due", "marked", "steps", "stride", "times")

    DEFINITIONS: ClassVar[Mapping[str, str]] = {
        "curve.rounds, curve.mistakes": "The mistakes made until each of those reveals, at most 512 points.",
        "curve.times": "When each of those reveals came, in milliseconds since 1970 (UTC).",
    }

    def __init__(self) -> None:
        self.steps: bytearray | array[int] = bytearray()
        self.stride = 1
        self.due = 1
        self.marked = 0
        self.times: PointTimes | None = None  # made when first needed: most models of a large fleet are young

    def observe(self, mistakes: int, at_us: int) -> None:
        """Take in reveal number `due`, with the mistakes made until then; no other reveal sets a point."""
        steps, times = self.steps, self.times
        if times is None:
            self.times = times = PointTimes()
            times.append(at_us)
        times.append(at_us)
        steps.append(mistakes - self.marked)
        self.marked = mistakes
        if len(steps) == STEPS_MAX:
            self.stride *= 2
            pairs = map(int.__add__, steps[::2], steps[1::2])
            self.steps = bytearray(pairs) if self.stride < 256 else array("I", pairs)
            times.halve()
        self.due += self.stride

    def observe_rows(self, block: RevealedBlock) -> None:
        while (at := self.due - block.revealed_before - 1) < len(block.mistakes):
            self.observe(int(block.mistakes[at]), block.at_us)

    def report(self, asked: Asked) -> dict[str, Any]:
        last = self.due - self.stride
        rounds = list(range(0, last + 1, self.stride))
        totals = list(accumulate(self.steps, initial=0))
        times = [None] if self.times is None else self.times.report()
        if asked.revealed > last:
            rounds.append(asked.revealed)
            totals.append(asked.mistakes)
            times.append(None)
        return {"curve": {"rounds": rounds, "mistakes": totals, "times": times}}

    def state(self) -> list[Any]:
        times = None if self.times is None else self.times.state()
        return [self.stride, self.due, self.marked, list(self.steps), times]

    @classmethod
    def restore(cls, state: list[Any]) -> Curve:
        curve = cls()
        stride, due, marked, kept, times = saved.items(with_unknown_times(state), 5)
        curve.stride = saved.whole(stride, "[0]", saved.ROUNDS_MAX, 1)
        saved.check(curve.stride & (curve.stride - 1) == 0, "[0]", "must be a power of two")
        steps = saved.wholes(kept, "[3]", min(curve.stride, STEP_MAX), STEPS_MAX - 1)
        curve.steps = bytearray(steps) if curve.stride < 256 else array("I", steps)
        next_point = curve.stride * (len(steps) + 1)
        curve.due = saved.whole(due, "[1]", next_point, next_point)
        curve.marked = saved.whole(marked, "[2]", total := sum(steps), total)
        with saved.Within("[4]"):
            saved.check((times is None) == (not steps), "", "must be there if there are points")
            curve.times = PointTimes.restore(times, len(steps) + 1) if steps else None
        return curve

    def check(self, counted: Asked) -> None:
        last = self.due - self.stride
        saved.check(
            last <= counted.revealed < self.due, "[1]", "must be the next of all rounds to get a point"
        )
        missing = counted.mistakes - self.marked
        saved.check(0 <= missing <= counted.revealed - last, "[2]", "must fit the count of mistakes")


def with_unknown_times(state: Any) -> Any:
    """A state in which points have no times, as older programs have written it, with times that are not known."""
    if type(state) is not list or len(state) != 4:
        return state
    steps = state[3]
    return [*state, PointTimes.unknown(len(steps) + 1).state() if type(steps) is list and steps else None]
