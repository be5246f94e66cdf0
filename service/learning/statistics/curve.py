"""Mistakes over rounds as a curve of at most 512 points, however long the stream.

The curve starts at (0, 0), has a point every `stride` rounds, and ends at the present. When it is full,
every second point goes and the stride doubles. Between points only the mistakes made there are kept: a byte
each while they fit.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, ClassVar

from service.learning import saved
from service.learning.statistics.statistic import Asked, RevealedBlock

STEPS_MAX = 510  # and the first point and the present make 512; even, so that steps fold in pairs
STEP_MAX = (1 << 32) - 1


class Curve:
    """The curve of the mistakes made so far. `due` is the number of the reveal that gets the next point.

    >>> curve = Curve()
    >>> curve.observe(mistakes=1)
    >>> curve.observe(mistakes=1)
    >>> curve.report(Asked(now_us=0, classes=2, revealed=3, mistakes=2))
    {'curve': {'rounds': [0, 1, 2, 3], 'mistakes': [0, 1, 1, 2]}}
    """

    __slots__ = ("due", "marked", "steps", "stride")

    DEFINITIONS: ClassVar[Mapping[str, str]] = {
        "curve.rounds, curve.mistakes": "The mistakes made until each of those reveals, at most 512 points."
    }

    def __init__(self) -> None:
        self.steps: bytearray | array[int] = bytearray()
        self.stride = 1
        self.due = 1
        self.marked = 0

    def observe(self, mistakes: int) -> None:
        """Take in reveal number `due`, with the mistakes made until then; no other reveal sets a point."""
        steps = self.steps
        steps.append(mistakes - self.marked)
        self.marked = mistakes
        if len(steps) == STEPS_MAX:
            self.stride *= 2
            pairs = map(int.__add__, steps[::2], steps[1::2])
            self.steps = bytearray(pairs) if self.stride < 256 else array("I", pairs)
        self.due += self.stride

    def observe_rows(self, block: RevealedBlock) -> None:
        while (at := self.due - block.revealed_before - 1) < len(block.mistakes):
            self.observe(int(block.mistakes[at]))

    def report(self, asked: Asked) -> dict[str, Any]:
        last = self.due - self.stride
        rounds = list(range(0, last + 1, self.stride))
        totals = list(accumulate(self.steps, initial=0))
        if asked.revealed > last:
            rounds.append(asked.revealed)
            totals.append(asked.mistakes)
        return {"curve": {"rounds": rounds, "mistakes": totals}}

    def state(self) -> list[Any]:
        return [self.stride, self.due, self.marked, list(self.steps)]

    @classmethod
    def restore(cls, state: list[Any]) -> Curve:
        curve = cls()
        stride, due, marked, kept = saved.items(state, 4)
        curve.stride = saved.whole(stride, "[0]", saved.ROUNDS_MAX, 1)
        saved.check(curve.stride & (curve.stride - 1) == 0, "[0]", "must be a power of two")
        steps = saved.wholes(kept, "[3]", min(curve.stride, STEP_MAX), STEPS_MAX - 1)
        curve.steps = bytearray(steps) if curve.stride < 256 else array("I", steps)
        next_point = curve.stride * (len(steps) + 1)
        curve.due = saved.whole(due, "[1]", next_point, next_point)
        curve.marked = saved.whole(marked, "[2]", total := sum(steps), total)
        return curve

    def check(self, counted: Asked) -> None:
        last = self.due - self.stride
        saved.check(
            last <= counted.revealed < self.due, "[1]", "must be the next of all rounds to get a point"
        )
        missing = counted.mistakes - self.marked
        saved.check(0 <= missing <= counted.revealed - last, "[2]", "must fit the count of mistakes")
