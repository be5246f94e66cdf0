"""Whether this replica knows where the log ends, by a recent answer of the cluster.

A replica that is cut off, or whose process was stopped and goes on, does not know what the others have done meanwhile.
It counts as out of touch until it has asked for the end of the log and got an answer.
"""

import time

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

    def cluster_now_us(self) -> int:
        """The time by the cluster's clock, reckoned from its last answer; 0 before the first."""
        return self._cluster_us + round(self.silent_seconds * 1e6) if self._cluster_us else 0

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
