"""Limits how long the journal's queue may be by the time that the newest in it would wait."""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from service.runtime.cooperative import keep_running

LOOK_SECONDS = 0.05
MORE_ROOM = 1.1
LEAST_ROOM = 64
UNNOTICED = 0.25
"""The fraction of the limit that a wait may last before anything is done about it."""


class Queue(Protocol):
    """Counts of a queue, and its limit: it refuses more when `queue_max` are waiting."""

    queue_max: int

    @property
    def submitted(self) -> int: ...

    @property
    def finished(self) -> int: ...


@dataclass(slots=True)
class QueueCounts:
    """The counts of a queue that someone else keeps."""

    queue_max: int
    submitted: int = 0
    finished: int = 0

    @property
    def waiting(self) -> int:
        return self.submitted - self.finished


class Mark(NamedTuple):
    """How many had been submitted, and how many were finished, at a time."""

    at: float
    submitted: int
    finished: int


class AdaptiveQueueLimit:
    """Lets no more wait in a queue than will be finished within `seconds_max`, by an estimate.

    A limit on the number alone is a long wait when the disk is slow. Items are not timed one by one. Every
    `LOOK_SECONDS` the two counts of the queue are noted; the oldest note whose items are not all finished tells how
    long the wait is and how many are finished in a second, and `queue_max` is set from that. While the wait is below
    `UNNOTICED` of the limit nothing is limited, since a queue with little to do would look slow.
    """

    def __init__(self, queue: Queue, *, seconds_max: float) -> None:
        self._queue = queue
        self._queue_max = queue.queue_max
        self._seconds_max = seconds_max
        self._marks: deque[Mark] = deque()

    def start(self) -> None:
        self._task = keep_running("watching the queue", self._run())

    async def stop(self) -> None:
        """Open the queue: what is left to do before the end is always taken."""
        self._task.cancel()
        await asyncio.wait([self._task])
        self._queue.queue_max = self._queue_max

    async def _run(self) -> None:
        now = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._queue.queue_max = min(self._queue_max, self.room(now(), self._queue.queue_max))

    def room(self, now: float, before: int) -> int:
        """How many may wait; after an overload it becomes more by and by, or the next one would be as bad."""
        marks, queue = self._marks, self._queue
        if not marks or marks[-1].submitted < queue.submitted:
            marks.append(Mark(now, queue.submitted, queue.finished))
        while marks and marks[0].submitted <= queue.finished:
            marks.popleft()
        waited = now - marks[0].at if marks else 0.0
        if waited <= self._seconds_max * UNNOTICED:
            return max(LEAST_ROOM, int(before * MORE_ROOM))
        if waited > self._seconds_max:
            return 1  # and not 0: with an empty queue, the next event is accepted
        finished = queue.finished - marks[0].finished
        if finished == 0:
            return before  # a disk that stands still tells nothing about its speed
        return max(1, int(finished / waited * self._seconds_max))
