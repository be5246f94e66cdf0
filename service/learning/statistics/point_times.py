"""The times of a curve's points, in four bytes each, however long the stream takes."""

from __future__ import annotations

from array import array
from typing import Any

from service.learning import saved

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
