"""How long records wait for the disk: past a limit, no more are taken."""

import asyncio
from collections import deque

from service.journal.group_commit import GroupCommit

LOOK_SECONDS = 0.05


class Patience:
    """Closes the queue of a writer while its oldest record has waited for longer than `seconds_max`.

    A queue that is bounded by number alone is a long wait when each record takes long. Nothing is measured record
    by record: now and then the number submitted so far is marked with the time, and a mark that the writer
    has not yet reached tells how long its oldest record has waited at least.
    """

    def __init__(self, writer: GroupCommit, *, seconds_max: float) -> None:
        self._writer = writer
        self._queue_max = writer.queue_max
        self._seconds_max = seconds_max
        self._marks: deque[tuple[int, float]] = deque()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Open the queue: what is left to write before the end is always taken."""
        self._task.cancel()
        await asyncio.wait([self._task])
        self._writer.queue_max = self._queue_max

    async def _run(self) -> None:
        now = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._writer.queue_max = 0 if self._waited(now()) > self._seconds_max else self._queue_max

    def _waited(self, now: float) -> float:
        """How long the oldest record has waited, to within a look."""
        marks = self._marks
        if not marks or marks[-1][0] < self._writer.submitted:
            marks.append((self._writer.submitted, now))
        while marks and marks[0][0] <= self._writer.finished:
            marks.popleft()
        return now - marks[0][1] if marks else 0.0
