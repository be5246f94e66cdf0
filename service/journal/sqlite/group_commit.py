"""Group commit: all records that were submitted since the last commit are written in the next transaction.

While one group is on its way to the disk the next one gathers, so groups grow with the load: a single client waits for
one commit, fifty share one.
"""

import asyncio
import fcntl
import logging
import os
import sys
from asyncio import Future
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice, takewhile
from typing import NamedTuple

import msgspec

from service.errors import Overloaded
from service.events import AnyEvent
from service.journal.protocol import Appended
from service.journal.sqlite.records import (
    DeathRecord,
    Group,
    Opening,
    PendingRecord,
    ProbeRecord,
    Record,
    Written,
    decode_written,
    message,
)
from service.runtime.cooperative import Turns
from service.runtime.logs import LogLimiter
from service.runtime.memory import environment_of_child
from service.runtime.processes import command_of
from service.runtime.timings import Timings

log = logging.getLogger(__name__)

GROUP_MAX = 2_000
"""The most records in one commit, so that no client waits behind an endless group."""

GROUPS_UNDER_WAY_MAX = 2
"""One on its way to the disk, and one that waits in the pipe for its turn."""

PIPE_BYTES = 1_048_576
"""Whole groups fit into the pipe, so that one can be read from it while the loop is busy with the one before."""

HELD_SECONDS = 0.005
"""How long predictions may gather when no request waits for them to be durable. One that is revealed meanwhile is never
written, since the event of the reveal holds everything in it."""

HELD_SECONDS_MIN = 0.003
"""When the oldest is due, those that were held for so long go with it. Younger ones stay: many are revealed soon."""


PROBE_SECONDS = 1.0
"""How often it is tried whether the disk works again."""


class Item(msgspec.Struct, frozen=True):
    """A record, who waits for it, the event in it, and the prediction that need not be written with it."""

    record: Record
    future: Future[Appended] | None
    event: AnyEvent | None = None
    instead_of: PendingRecord | None = None


Numbered = tuple[int, Item]
"""An item and its number among all that were submitted."""

NONE = sys.maxsize
"""The oldest number where there is none."""


class Numbers(NamedTuple):
    """A group, and the oldest number in it: predictions that were held may be older than what stands before them."""

    items: list[Numbered]
    oldest: int


def oldest_of(items: list[Numbered]) -> int:
    return min(items)[0] if items else NONE  # numbers differ, so no items are compared


def _voids_predictions(record: Record) -> bool:
    """Whether predictions made before it must be written before it."""
    return isinstance(record, DeathRecord) or getattr(record, "voids", None) is not None


class Held(NamedTuple):
    """A prediction that nobody waits for, its number among all that were submitted, and the loop's time then."""

    number: int
    item: Item
    at: float


class Answers(asyncio.Protocol):
    """Splits what the writing process sends into messages; `take` gets each of them, and None when the process died."""

    def __init__(self, take: Callable[[bytes | None], None]) -> None:
        self._take = take
        self._received = b""

    def data_received(self, data: bytes) -> None:
        received = self._received + data
        while len(received) >= 4 and len(received) >= (end := 4 + int.from_bytes(received[:4], "big")):
            answer, received = received[4:end], received[end:]
            self._take(answer)
        self._received = received

    def eof_received(self) -> None:
        self._take(None)


class GroupCommit:
    """Sends groups of records to the writing process, and hands what became of them to `done`, one after the other.

    `done` yields when the event loop should turn to others, and goes on in its next turn.

    Groups and the records in them keep the order in which they were submitted, but for predictions that
    nobody waits for: those may come a little later than what follows them.
    """

    def __init__(
        self, done: Callable[[list[Item], Written, Turns], Iterator[None]], *, queue_max: int
    ) -> None:
        self._done = done
        self.queue_max = queue_max
        self._held: dict[str, Held] = {}
        self._queue: list[Numbered] = []
        self._failures_known = 0
        """How many failures were known of when the first in the queue was submitted: it may build on what was under way
        then, and is not written if that fails."""
        self._oldest_queued = NONE
        """Kept, since `finished` is asked for every model that is loaded, and the queue may be long."""
        self._under_way: list[Numbers] = []
        self._being_applied = Numbers([], NONE)
        self._answered: deque[bytes] = deque()
        self._applying: Iterator[None] | None = None
        self._turns = Turns()
        self._flushing: asyncio.Handle | None = None
        self._releasing: asyncio.Handle | None = None
        self._settling: list[tuple[int, Future[None]]] = []
        self._loop = asyncio.get_running_loop()
        self.submitted = 0
        self.waiting = 0
        self.commits = Timings()
        self.failures = 0
        self.checkpoint_failures = 0
        self.trouble: str | None = None
        self._probing: asyncio.Handle | None = None
        self._is_failing = False
        self._failures_told = LogLimiter()
        self._log_failures_told = LogLimiter()

    @property
    def finished(self) -> int:
        """All records up to this number are on disk and applied, have failed, or need not be written."""
        oldest = min(
            self._oldest_queued, self._being_applied.oldest, *(g.oldest for g in self._under_way), NONE
        )
        for held in islice(self._held.values(), 1):
            oldest = min(oldest, held.number)
        return min(oldest, self.submitted + 1) - 1

    async def start(self, opening: Opening, lock_file: int) -> None:
        their_groups, groups = os.pipe()
        answers, their_answers = os.pipe()
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with suppress(OSError):  # it works with less, too
                fcntl.fcntl(groups, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._process = await asyncio.create_subprocess_exec(
            *command_of("service.journal.sqlite.writer_process"),
            stdin=their_groups, stdout=their_answers, pass_fds=[lock_file],
            start_new_session=True,  # a signal to the group, such as Ctrl-C, is for the service alone
            env=environment_of_child(),
        )  # fmt: skip
        os.close(their_groups)
        os.close(their_answers)
        connect = self._loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(groups, "wb", 0))
        self._pipe, _ = await connect
        self._send = self._pipe.write
        self._send(message(opening))
        reader = partial(Answers, self._take)
        self._answers, _ = await self._loop.connect_read_pipe(reader, os.fdopen(answers, "rb", 0))

    def submit(self, item: Item) -> None:
        """Queue an item; Overloaded, and nothing queued, when the queue is full."""
        if self.waiting >= self.queue_max:
            raise Overloaded(f"{self.waiting} events are queued for the journal; try again later")
        self.submitted += 1
        self.waiting += 1
        record = item.record
        if isinstance(record, PendingRecord) and item.future is None:
            self.withdraw(record.prediction_id)  # one that was given up, if its id is used again already
            now = self._loop.time()
            self._held[record.prediction_id] = Held(self.submitted, item, now)
            if self._releasing is None:
                self._releasing = self._loop.call_at(now + HELD_SECONDS, self._release)
            return
        if self._held and _voids_predictions(record):
            self._gather_held(len(self._held))
        self._enqueue(self.submitted, item)
        if self._flushing is None and len(self._under_way) < GROUPS_UNDER_WAY_MAX:
            self._flushing = self._loop.call_soon(self._flush)

    def withdraw(self, prediction_id: str) -> PendingRecord | None:
        """Take a prediction back that has not been sent to the disk yet."""
        held = self._held.pop(prediction_id, None)
        if held is None:
            return None
        self.waiting -= 1
        record = held.item.record
        assert isinstance(record, PendingRecord)
        return record

    def _release(self) -> None:
        latest = self._loop.time() - HELD_SECONDS_MIN
        self._gather_held(sum(1 for _ in takewhile(lambda held: held.at <= latest, self._held.values())))
        oldest = next(iter(self._held.values()), None)
        self._releasing = (
            None if oldest is None else self._loop.call_at(oldest.at + HELD_SECONDS, self._release)
        )
        self._flush()

    def _enqueue(self, number: int, item: Item) -> None:
        if not self._queue:
            self._failures_known = self.failures
        if number < self._oldest_queued:
            self._oldest_queued = number
        self._queue.append((number, item))

    def _gather_held(self, count: int) -> None:
        """Queue the oldest of the predictions that nobody waits for."""
        for prediction_id in list(islice(self._held, count)):
            number, item, _ = self._held.pop(prediction_id)
            self._enqueue(number, item)

    def _flush(self) -> None:
        self._flushing = None
        while self._queue and len(self._under_way) < GROUPS_UNDER_WAY_MAX:
            group, self._queue = self._queue[:GROUP_MAX], self._queue[GROUP_MAX:]
            self._oldest_queued = oldest_of(self._queue)
            self._under_way.append(Numbers(group, oldest_of(group)))
            self._send(message(Group(self._failures_known, [item.record for _, item in group])))

    async def settle(self) -> None:
        """Wait until everything submitted before is on disk, or has failed."""
        if self.finished < self.submitted:
            settled: Future[None] = self._loop.create_future()
            self._settling.append((self.submitted, settled))
            await settled

    async def stop(self) -> None:
        """Commit what is queued, then end the process."""
        if self._probing is not None:
            self._probing.cancel()
        await self.settle()
        self._answers.close()
        self._pipe.close()
        await self._process.wait()

    def _take(self, answer: bytes | None) -> None:
        """Go on after a commit; None says that there will be no more."""
        if answer is None:
            # What was under way may be on disk or not, applied or not, and only a fresh start can tell.
            log.critical("the writer process of the journal died: stopping")
            os._exit(1)
        self._answered.append(answer)
        if self._applying is None:
            self._go_on()

    def _go_on(self) -> None:
        """Apply what is on disk, group by group; when a slice is over, go on in the next turn of the loop."""
        self._turns.restart()
        try:
            while self._applying is not None or self._answered:
                if self._applying is None:
                    self._applying = self._finish(decode_written(self._answered.popleft()))
                for _ in self._applying:
                    self._loop.call_soon(self._go_on)
                    return
                self._applying = None
        except Exception as error:
            log.critical("an event on disk cannot be applied: stopping", exc_info=error)
            os._exit(1)

    def _finish(self, written: Written) -> Iterator[None]:
        if written.is_final:
            log.critical("another process has written to the journal: %s: stopping", written.failure)
            os._exit(1)
        self._being_applied = self._under_way.pop(0)
        group = [item for _, item in self._being_applied.items]
        self.waiting -= len(group)
        if written.failure is None:
            self.commits.observe(written.seconds)
            if self._is_failing:
                self._is_failing = False
                log.info("the journal can be written again")
        else:
            self._failed(len(group), written.failure)
        self._look_for_trouble(written)
        if self._queue and self._flushing is None:
            self._flush()
        yield from self._done(group, written, self._turns)
        self._being_applied = Numbers([], NONE)
        self._settle_those_done()

    def _settle_those_done(self) -> None:
        finished = self.finished if self._settling else 0
        while self._settling and self._settling[0][0] <= finished:
            _, settled = self._settling.pop(0)
            if not settled.done():
                settled.set_result(None)

    def _failed(self, events: int, why: str) -> None:
        self.failures += 1
        self._is_failing = True
        if (held_back := self._failures_told.turn()) is not None:
            fields = {"events": events, "others": held_back}
            log.error("the journal cannot be written: %s", why, extra=fields)

    def _look_for_trouble(self, written: Written) -> None:
        """Note what is wrong though the service can go on; a probe follows, so that its end is noticed by itself."""
        if (why := written.log_failure) is not None:
            self.checkpoint_failures += 1
            self.trouble = f"the journal's WAL cannot be checkpointed and grows: {why}"
            if (held_back := self._log_failures_told.turn()) is not None:
                log.error("the WAL cannot be checkpointed: %s", why, extra={"others": held_back})
        elif written.is_in_doubt:
            self.trouble = (
                f"the outcome of the last write is unknown, and the disk accepts no more: {written.failure}"
            )
        elif written.failure is None:
            self.trouble = None
        if self.trouble is not None and self._probing is None:
            self._probing = self._loop.call_later(PROBE_SECONDS, self._probe)

    def _probe(self) -> None:
        self._probing = None
        with suppress(Overloaded):  # then there is enough to write
            self.submit(Item(ProbeRecord(), None))
