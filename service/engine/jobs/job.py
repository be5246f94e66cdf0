"""What there is to tell of a job, on the replica that runs it and on any other."""

from typing import Any

import msgspec


class Job(msgspec.Struct):
    """A fit: `running`, then `done`, `failed` or `cancelled`."""

    id: str
    model: str
    options: dict[str, Any]
    examples: int
    started_at: int
    state: str = "running"
    finished_at: int | None = None
    progress: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    error: str | None = None
    version: int | None = None

    def seconds_left(self, now: int) -> float | None:
        """How long it may still take if it needs `passes_max` passes; None if that is not known yet."""
        if self.state != "running" or not self.progress or not self.progress["passes"]:
            return None
        passes: int = self.progress["passes"]
        seconds_a_pass = (now - self.started_at) / 1e6 / passes
        return seconds_a_pass * float(self.options["passes_max"] - passes)


class Question(msgspec.Struct):
    """What one replica asks another about a job. The answer is the `Job`, or None if it is not there."""

    job_id: str
    cancel: bool
