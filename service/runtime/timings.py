"""How long things took, and how long the event loop was held: while it is, no request is answered."""

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Callable
from time import monotonic

from service.runtime.logs import LogLimiter

log = logging.getLogger(__name__)

BOUNDS_SECONDS = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    10.0,
)

TICK_SECONDS = 0.02
"""How often the loop is asked for a turn: seldom enough to cost a thousandth of a core."""

LATELY_SECONDS = 30.0
"""A pause counts for `longest_seconds` for this long at least, and for twice as long at most."""

UNREADY_SECONDS = 10.0
"""For how long a service whose loop stalled for too long is not ready."""


class Timings:
    """Counts of durations up to each bound, and their sum.

    >>> timings = Timings()
    >>> timings.observe(0.0004)
    >>> timings.count, timings.cumulative()[2:4]
    (1, [(0.0005, 1), (0.001, 1)])
    """

    __slots__ = ("_counts", "count", "seconds")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_SECONDS) + 1)
        self.count = 0
        self.seconds = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(BOUNDS_SECONDS, seconds)] += 1
        self.count += 1
        self.seconds += seconds

    def cumulative(self) -> list[tuple[float, int]]:
        """How many took at most so long, for each bound."""
        total = 0
        rising = []
        for bound, count in zip(BOUNDS_SECONDS, self._counts, strict=False):
            total += count
            rising.append((bound, total))
        return rising


class LoopPauses:
    """Asks the loop for a turn again and again, and measures how late each comes.

    A pause is seen if it lasts beyond the moment at which a turn is due, and is then measured at most TICK_SECONDS
    too short. A process that is stopped, or gets no core, is held as well.
    """

    def __init__(self, *, seconds_max: float, clock: Callable[[], float] = monotonic) -> None:
        """`seconds_max`: from which length on a pause is logged and the service not ready for a while."""
        self._seconds_max = seconds_max
        self._clock = clock
        self._due = float("inf")
        """When the next turn is due; never before `run`."""
        self._began = clock()
        """When the current period of LATELY_SECONDS began."""
        self._longest = self._longest_before = 0.0
        """The longest pauses of the current period and of the one before."""
        self._held_seconds = 0.0
        self._held_at = float("-inf")
        """The last pause that was too long: its length, and when it ended."""
        self._log_limit = LogLimiter()
        self.timings = Timings()

    async def run(self) -> None:
        while True:
            self._due = self._clock() + TICK_SECONDS
            await asyncio.sleep(TICK_SECONDS)
            self.observe()

    def observe(self) -> None:
        """Note how late this turn is."""
        now = self._clock()
        late = max(0.0, now - self._due)
        self.timings.observe(late)
        if now - self._began >= LATELY_SECONDS:
            is_next = now - self._began < 2 * LATELY_SECONDS
            self._longest_before = self._longest if is_next else 0.0
            self._longest = 0.0
            self._began = now
        self._longest = max(self._longest, late)
        if late > self._seconds_max:
            self._held_seconds, self._held_at = late, now
            if (held_back := self._log_limit.turn()) is not None:
                fields = {"seconds": round(late, 3), "others": held_back}
                log.warning("the event loop stalled for %.1f seconds", late, extra=fields)

    @property
    def longest_seconds(self) -> float:
        """The longest pause of the last LATELY_SECONDS at least, also one that has just ended."""
        return max(self._longest, self._longest_before, self._clock() - self._due)

    def why_unready(self) -> str | None:
        """In words for people: that the loop stalled for too long a moment ago."""
        now = self._clock()
        if now - self._due > self._seconds_max:  # a request may come to its turn before the measurement does
            return _unready(now - self._due)
        return _unready(self._held_seconds) if now - self._held_at < UNREADY_SECONDS else None


def _unready(seconds: float) -> str:
    return f"the event loop stalled for {seconds:.1f} seconds"
