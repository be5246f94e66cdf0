"""Whether the cluster has told lately where its log ends.

A replica that is cut off, or was stopped and goes on, knows nothing of what the others have done meanwhile. So it
counts as out of touch until the end of the log was asked for, and told, anew.
"""

import time

STOPPED_SECONDS = 2.0
"""A process that has done nothing for so long was stopped, and so was all that it knew."""

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def seconds_up() -> float:
    """A clock that goes on while this process is stopped and, where there is one, while the machine sleeps."""
    return time.clock_gettime(_CLOCK)


class Contact:
    """Lost when the cluster was silent for `seconds`, or since this process was stopped. `tick` it often."""

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
        """The end of the log is known and compared; it was asked for at `asked_at`, a tick.

        `cluster_us` is the time by the clock of the server that told it.
        """
        self._heard_at = asked_at
        self._cluster_us = cluster_us

    def cluster_now_us(self) -> int:
        """The time by the cluster's clock, as far as is known; 0 if it was never told."""
        return self._cluster_us + round(self.silent_seconds * 1e6) if self._cluster_us else 0

    @property
    def silent_seconds(self) -> float:
        return seconds_up() - self._heard_at

    def why_lost(self) -> str | None:
        """Why nothing is known of what others do just now; None if it is."""
        self.tick()
        if self._heard_at < self._went_on_at:
            return "this replica was stopped, and does not know yet what it has missed"
        if self.silent_seconds > self._seconds:
            return f"the journal's cluster was not heard from for {self.silent_seconds:.0f} seconds"
        return None
