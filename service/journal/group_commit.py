"""Group commit: whatever has gathered becomes durable in one go.

While one group is on its way to the disk the next one gathers, so groups grow with the load by
themselves: a lone client waits for one commit, fifty share one.
"""

import asyncio
import logging
import os
import sys
from asyncio import Future
from asyncio.subprocess import PIPE
from collections.abc import Callable
from typing import NamedTuple

from service.errors import Overloaded
from service.events import AnyEvent
from service.journal.protocol import Appended
from service.journal.records import Opening, PendingRecord, Record, Written, decode_written, message
from service.logs import Seldom
from service.timings import Timings

log = logging.getLogger(__name__)

GROUP_MAX = 2_000
"""The most records in one commit, so that no client waits behind an endless group."""

GROUPS_UNDER_WAY_MAX = 2
"""One on its way to the disk, and one that waits in the pipe for its turn."""

UNHURRIED_SECONDS = 0.005
"""How long records that nobody waits for may gather: a commit costs the same for one as for many."""


class Item(NamedTuple):
    """A record, who waits for it, and the event in it."""

    record: Record
    future: Future[Appended] | None
    event: AnyEvent | None = None


class GroupCommit:
    """Sends groups of records to the writing process, and hands what became of them to `done`.

    Groups and the records in them keep the order in which they were submitted.
    """

    def __init__(self, done: Callable[[list[Item], Written], None], *, queue_max: int) -> None:
        self._done = done
        self.queue_max = queue_max
        self._queue: list[Item] = []
        self._under_way: list[list[Item]] = []
        self._timer: asyncio.Handle | None = None
        self._in_no_hurry = False
        self._settling: list[tuple[int, Future[None]]] = []
        self._loop = asyncio.get_running_loop()
        self.submitted = 0
        self.finished = 0
        self.commits = Timings()
        self.failures = 0
        self._is_failing = False
        self._failures_told = Seldom()

    @property
    def waiting(self) -> int:
        return self.submitted - self.finished

    async def start(self, opening: Opening, lock_file: int) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "service.journal.writer_process",
            stdin=PIPE, stdout=PIPE, pass_fds=[lock_file],
            start_new_session=True,  # a signal to the group, such as Ctrl-C, is for the service alone
        )  # fmt: skip
        assert self._process.stdin is not None
        self._send = self._process.stdin.write
        self._send(message(opening))
        self._answers = asyncio.create_task(self._read_answers())

    def submit(self, item: Item) -> None:
        """Queue an item; Overloaded, and nothing queued, when the queue is full."""
        if self.waiting >= self.queue_max:
            raise Overloaded(f"{self.waiting} events wait for the journal; try again later")
        self.submitted += 1
        self._queue.append(item)
        if len(self._under_way) >= GROUPS_UNDER_WAY_MAX:
            return  # the next one to finish makes room
        if self._timer is None:
            hurried = item.future is not None or not isinstance(item.record, PendingRecord)
            self._schedule(hurried)
        elif self._in_no_hurry and item.future is not None:
            self._timer.cancel()
            self._schedule(hurried=True)

    def _schedule(self, hurried: bool) -> None:
        """Send what has gathered: at the end of this turn of the loop, or a little later."""
        self._in_no_hurry = not hurried
        if hurried:
            self._timer = self._loop.call_soon(self._flush)
        else:
            self._timer = self._loop.call_later(UNHURRIED_SECONDS, self._flush)

    def _flush(self) -> None:
        self._timer = None
        while self._queue and len(self._under_way) < GROUPS_UNDER_WAY_MAX:
            group, self._queue = self._queue[:GROUP_MAX], self._queue[GROUP_MAX:]
            self._under_way.append(group)
            self._send(message([item.record for item in group]))

    async def settle(self) -> None:
        """Wait until everything submitted before is on disk, or has failed."""
        if self.waiting:
            settled: Future[None] = self._loop.create_future()
            self._settling.append((self.submitted, settled))
            await settled

    async def stop(self) -> None:
        """Commit what is queued, then end the process."""
        await self.settle()
        self._answers.cancel()
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()

    async def _read_answers(self) -> None:
        assert self._process.stdout is not None
        read = self._process.stdout.readexactly
        try:
            while True:
                size = int.from_bytes(await read(4), "big")
                self._finish(decode_written(await read(size)))
        except asyncio.IncompleteReadError:
            log.critical("the process that writes the journal has died: stopping")
        except Exception as error:
            log.critical("an event that is on disk cannot be applied: stopping", exc_info=error)
        # What was under way may be on disk or not, applied or not, and only a fresh start can tell.
        os._exit(1)

    def _finish(self, written: Written) -> None:
        group = self._under_way.pop(0)
        self.finished += len(group)
        if written.failure is None:
            self.commits.observe(written.seconds)
            if self._is_failing:
                self._is_failing = False
                log.info("the journal can be written again")
        else:
            self._failed(len(group), written.failure)
        if self._queue and self._timer is None:
            self._flush()
        self._done(group, written)
        while self._settling and self._settling[0][0] <= self.finished:
            _, settled = self._settling.pop(0)
            if not settled.done():
                settled.set_result(None)

    def _failed(self, events: int, why: str) -> None:
        self.failures += 1
        self._is_failing = True
        if (held_back := self._failures_told.turn()) is not None:
            fields = {"events": events, "others": held_back}
            log.error("the journal cannot be written: %s", why, extra=fields)
