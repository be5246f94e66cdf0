"""What there is to tell of a job, on the replica that runs it and on any other."""

from typing import Any

import msgspec


class Job(msgspec.Struct):
    """A fit or a replay: `running`, then `done`, `failed` or `cancelled`."""

    id: str
    kind: str
    model: str
    options: dict[str, Any]
    started_at: int
    examples: int = 0
    """What a fit trains on."""
    state: str = "running"
    finished_at: int | None = None
    progress: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    error: str | None = None
    version: int | None = None

    def seconds_left(self, now: int) -> float | None:
        """How long it may still take, a fit if it needs `passes_max` passes; None if that is not known yet."""
        if self.state != "running" or not self.progress:
            return None
        done = self.progress
        share: float = done["passes"] / self.options["passes_max"] if self.kind == "fit" else done["share"]
        return (now - self.started_at) / 1e6 * (1 - share) / share if share else None


class Question(msgspec.Struct):
    """What one replica asks another about a job. The answer is the `Job`, or None if it is not there."""

    job_id: str
    cancel: bool
