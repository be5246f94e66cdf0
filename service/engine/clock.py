"""Times of events: they always rise, whatever happens to the clock of the machine."""

import logging
import time
from collections import deque
from collections.abc import Callable

from service.runtime.logs import LogLimiter

log = logging.getLogger(__name__)

AHEAD_MAX_US = 10_000_000
"""How far ahead the clock of another replica may be. Clocks that are kept right differ by far less."""

JUMP_US = 5_000_000
"""By so much the machine's clock and its steady one may part before that counts as a jump."""

BARELY_US = 1_000
"""By so much this clock may be ahead of the machine's without a look at the steady one: it was read too often."""

JUMPS_KEPT = 100

SLOWER = 16
"""While it is ahead of the machine's clock, this one is slower by one part in so many."""

LOG_EVERY_SECONDS = 60.0

_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _wall_us() -> int:
    return time.time_ns() // 1000


def _steady_us() -> int:
    """A clock that nobody sets, and that goes on while the machine sleeps, where there is one."""
    return time.clock_gettime_ns(_STEADY) // 1000


class Clock:
    """Microseconds since 1970 that always rise, and at the pace of real time.

    By these times is ordered what happens, so they never go back: not when the machine's clock is set back, nor after a
    restart, since `start_after` tells the newest time in the journal. Nor do they stand still until the machine's clock
    has caught up, or nothing would expire until then: they go on, a little slower. When the machine's clock is set
    ahead they follow at once, and `ago` knows that no time has passed.

    The clock of another replica may be wrong. So in a shared journal (`is_shared`) the time of an event counts for at
    most `AHEAD_MAX_US` more than `wall` says, which is `Journal.time_us` there.
    """

    def __init__(
        self,
        wall: Callable[[], int] = _wall_us,
        steady: Callable[[], int] = _steady_us,
        *,
        is_shared: bool = False,
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._is_shared = is_shared
        self._last = 0
        self._offset = 0  # of this clock to `steady`, when both were read
        self._wall_offset = 0  # the same of `wall`
        self._jumps: deque[tuple[int, int]] = deque(
            maxlen=JUMPS_KEPT
        )  # where each led to, and how far it was
        self._log_limit = LogLimiter(LOG_EVERY_SECONDS)

    def start_after(self, at: int) -> None:
        """Begin, and never give a time up to `at`, the newest in the journal."""
        wall, steady = self._wall(), self._steady()
        if at - wall > JUMP_US:
            log.warning("the newest event is %d seconds ahead of the system clock", (at - wall) // 1_000_000)
        self._last = max(wall - 1, self._bounded(at))
        self._offset, self._wall_offset = self._last - steady, wall - steady

    def follow(self, at: int) -> None:
        """Never give a time up to `at` from now on: that of another replica's event, or of a model that was loaded."""
        if at > self._last and (ahead := self._bounded(at) - self.now()) > 0:
            if ahead > JUMP_US:
                self._jumps.append((self._last + ahead, ahead))
            self._last += ahead
            self._offset += ahead

    def now(self) -> int:
        wall = self._wall()
        ahead = wall - self._last
        if not -BARELY_US < ahead < JUMP_US:
            return self._by_steady_clock(wall)
        self._last += ahead if ahead > 0 else 1  # as nearly always
        return self._last

    def _by_steady_clock(self, wall: int) -> int:
        """The time after a pause, after a jump of the machine's clock, or while this one is ahead of it."""
        if not self._last:
            self.start_after(0)
        steady = self._steady()
        self._tell_of_jump(wall - steady - self._wall_offset)
        passed = steady + self._offset - self._last
        if wall > self._last:
            if (ahead := wall - self._last - passed) > JUMP_US:
                self._jumps.append((wall, ahead))
            self._last = wall
        else:
            self._last += max(1, passed - passed // SLOWER)
        self._offset, self._wall_offset = self._last - steady, wall - steady
        return self._last

    def ago(self, now: int, duration_us: int) -> int:
        """The time that this clock gave so long before it gave `now`, whatever it has jumped over since."""
        at = now - duration_us
        for landed, distance in reversed(self._jumps):
            if at >= landed:
                break
            at -= distance
        return at

    def _tell_of_jump(self, by: int) -> None:
        if abs(by) <= JUMP_US:
            return
        direction = "ahead" if by > 0 else "back"
        seconds = abs(by) // 1_000_000
        fields = {"direction": direction, "seconds": seconds}
        log.warning("the system clock was set %s by %d seconds", direction, seconds, extra=fields)

    def _bounded(self, at: int) -> int:
        if not self._is_shared:
            return at
        now = self._wall()
        ahead = at - now
        if ahead <= AHEAD_MAX_US:
            return at
        if (held_back := self._log_limit.turn()) is not None:
            seconds = ahead // 1_000_000
            fields = {"seconds": seconds, "others": held_back}
            log.warning("an event is %d seconds ahead of the system clock", seconds, extra=fields)
        return now + AHEAD_MAX_US
