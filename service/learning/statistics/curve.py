"""Mistakes over rounds as a curve of at most 512 points, however long the stream.

The curve starts at (0, 0), has a point every `stride` rounds, and ends at the present. When there are too many, every
second point goes and the stride doubles. Between points only the mistakes made there are kept: a byte each while they
fit. Each point has the time of its reveal, the first one that of the first reveal, in four bytes.
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


class Steps:
    """The points of a curve of mistakes. `due` is the number of the round that gets the next point.

    >>> steps = Steps()
    >>> steps.add(mistakes=1), steps.add(mistakes=1)
    (False, False)
    >>> steps.points(rounds=3, mistakes=2)
    ([0, 1, 2, 3], [0, 1, 1, 2])
    """

    __slots__ = ("due", "marked", "steps", "stride")

    def __init__(self) -> None:
        self.steps: bytearray | array[int] = bytearray()
        self.stride = 1
        self.due = 1
        self.marked = 0

    def add(self, mistakes: int) -> bool:
        """Take in round number `due`, with the mistakes made until then; whether every second point went."""
        steps = self.steps
        steps.append(mistakes - self.marked)
        self.marked = mistakes
        is_full = len(steps) == STEPS_MAX
        if is_full:
            self.stride *= 2
            pairs = map(int.__add__, steps[::2], steps[1::2])
            self.steps = bytearray(pairs) if self.stride < 256 else array("I", pairs)
        self.due += self.stride
        return is_full

    @property
    def last(self) -> int:
        """The round of the newest point."""
        return self.due - self.stride

    def points(self, rounds: int, mistakes: int) -> tuple[list[int], list[int]]:
        """The rounds of all points and the mistakes made until each, the present included."""
        at, totals = list(range(0, self.last + 1, self.stride)), list(accumulate(self.steps, initial=0))
        if rounds > self.last:
            at.append(rounds)
            totals.append(mistakes)
        return at, totals

    def state(self) -> list[Any]:
        return [self.stride, self.due, self.marked, list(self.steps)]

    def take(self, state: Any) -> None:
        """Become what the four values of `state` were taken from; `saved.BadState` if they cannot be of one."""
        stride, due, marked, kept = saved.items(state, 4)
        self.stride = saved.whole(stride, "[0]", saved.ROUNDS_MAX, 1)
        saved.check(self.stride & (self.stride - 1) == 0, "[0]", "must be a power of two")
        steps = saved.wholes(kept, "[3]", min(self.stride, STEP_MAX), STEPS_MAX - 1)
        self.steps = bytearray(steps) if self.stride < 256 else array("I", steps)
        next_point = self.stride * (len(steps) + 1)
        self.due = saved.whole(due, "[1]", next_point, next_point)
        self.marked = saved.whole(marked, "[2]", total := sum(steps), total)

    def check_counts(self, rounds: int, mistakes: int) -> None:
        """`saved.BadState` unless these can be the points of so many rounds with so many mistakes."""
        is_next = self.last <= rounds < self.due
        saved.check(is_next, "[1]", "must be the next of all rounds to get a point")
        missing = mistakes - self.marked
        saved.check(0 <= missing <= rounds - self.last, "[2]", "must fit the count of mistakes")


MILLISECOND_US = 1000
TIME_MAX = saved.COUNT_MAX // MILLISECOND_US
TICKS_MAX = (1 << 32) - 2


class PointTimes:
    """Times as ticks since the first one that is known. A tick is a millisecond, and twice as long whenever they grow
    too large: after 49 days, after 98 and so on.

    >>> times = PointTimes.unknown(1)
    >>> times.append(5_000), times.append(9_000)
    (None, None)
    >>> times.report()
    [None, 5, 9]
    """

    __slots__ = ("began_ms", "marks", "tick_ms")

    def __init__(self) -> None:
        self.began_ms = 0
        self.tick_ms = 1
        self.marks = array("I")  # ticks and 1, or 0 if the time is not known

    @classmethod
    def unknown(cls, many: int) -> PointTimes:
        """For points that an older program has set: it kept no times."""
        times = cls()
        times.marks = array("I", bytes(4 * many))
        return times

    def append(self, at_us: int) -> None:
        at_ms = at_us // MILLISECOND_US
        if not self.began_ms:
            self.began_ms = at_ms
        passed_ms = max(0, at_ms - self.began_ms)  # clocks of replicas differ a little
        while passed_ms // self.tick_ms > TICKS_MAX:
            self.tick_ms *= 2
            self.marks = array("I", ((mark + 1) // 2 for mark in self.marks))
        self.marks.append(passed_ms // self.tick_ms + 1)

    def halve(self) -> None:
        """Drop every second time, but not the first."""
        self.marks = self.marks[::2]

    def report(self) -> list[int | None]:
        """In milliseconds since 1970; None for what is not known."""
        began, tick = self.began_ms, self.tick_ms
        return [began + (mark - 1) * tick if mark else None for mark in self.marks]

    def state(self) -> list[Any]:
        return [self.began_ms, self.tick_ms, list(self.marks)]

    @classmethod
    def restore(cls, state: Any, points: int) -> PointTimes:
        """Of so many points; `saved.BadState` if it cannot be that."""
        began, tick, marks = saved.items(state, 3)
        times = cls()
        times.began_ms = saved.whole(began, "[0]", TIME_MAX)
        times.tick_ms = saved.whole(tick, "[1]", TIME_MAX, 1)
        times.marks = array("I", saved.wholes(marks, "[2]", TICKS_MAX + 1, points))
        saved.check(len(times.marks) == points, "[2]", "must have a time for each point")
        return times


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
        steps = curve.steps
        saved.check((times is None) == (not steps), "[4]", "must be there if there are points")
        if steps:
            curve.times = saved.within("[4]", PointTimes.restore, times, len(steps) + 1)
        return curve

    def check(self, counted: Asked) -> None:
        self.check_counts(counted.revealed, counted.mistakes)


def with_unknown_times(state: Any) -> Any:
    """A state in which points have no times, as older programs have written it, with times that are not known."""
    if type(state) is not list or len(state) != 4:
        return state
    steps = state[3]
    return [*state, PointTimes.unknown(len(steps) + 1).state() if type(steps) is list and steps else None]
