"""Whether this replica knows where the log ends, by a recent answer of the cluster.

A replica that is cut off, or whose process was stopped and goes on, does not know what the others have done meanwhile.
It counts as out of touch until it has asked for the end of the log and got an answer.
"""

import logging
import time

from service.runtime.logs import LogLimiter

log = logging.getLogger(__name__)

APART_MAX_US = 1_000_000
"""By so much this machine's clock may differ from the cluster's before that one counts."""

LOG_EVERY_SECONDS = 60.0

STOPPED_SECONDS = 2.0
"""A process that has not ticked for so long was stopped (SIGSTOP, a paused machine): what it knows is out of date."""

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def seconds_up() -> float:
    """A clock that goes on while this process is stopped and, where there is one, while the machine sleeps."""
    return time.clock_gettime(_CLOCK)


class Contact:
    """Contact is lost when the cluster was silent for `seconds`, or when this process was stopped. `tick` it often."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ticked_at = self._heard_at = self._went_on_at = seconds_up()
        self._cluster_us = 0
        self._log_limit = LogLimiter(LOG_EVERY_SECONDS)

    def tick(self) -> float:
        """Note that the process runs; the time by `seconds_up`."""
        now = seconds_up()
        if now - self._ticked_at > STOPPED_SECONDS:
            self._went_on_at = now
        self._ticked_at = now
        return now

    def heard(self, asked_at: float, cluster_us: int) -> None:
        """Note an answer to the question for the end of the log, which was asked at `asked_at` (a `tick`).

        `cluster_us` is the time by the clock of the server that answered.
        """
        self._heard_at = asked_at
        self._cluster_us = cluster_us

    def corrected_us(self, own_us: int) -> int:
        """The time by this machine's clock, or as near to it as `APART_MAX_US` from the cluster's time allows.

        So a machine whose clock is wrong puts no wrong times into the log. The cluster's time is reckoned from its last
        answer; before the first, nothing is corrected.
        """
        if not self._cluster_us:
            return own_us
        cluster_us = self._cluster_us + round(self.silent_seconds * 1e6)
        if abs(own_us - cluster_us) <= APART_MAX_US:
            return own_us
        if (held_back := self._log_limit.turn()) is not None:
            seconds = (own_us - cluster_us) / 1e6
            fields = {"seconds": round(seconds, 3), "others": held_back}
            log.warning(
                "this machine's clock and the cluster's are %.1f seconds apart", seconds, extra=fields
            )
        return cluster_us + APART_MAX_US if own_us > cluster_us else cluster_us - APART_MAX_US

    @property
    def silent_seconds(self) -> float:
        return seconds_up() - self._heard_at

    def why_lost(self) -> str | None:
        """Why contact is lost, in words for people; None if it is not."""
        self.tick()
        if self._heard_at < self._went_on_at:
            return "this replica was stopped, and does not know yet what it has missed"
        if self.silent_seconds > self._seconds:
            return f"the journal's cluster was not heard from for {self.silent_seconds:.0f} seconds"
        return None
