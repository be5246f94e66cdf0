"""The embedded journal: one SQLite file, one service, group commit."""

import asyncio
import logging
import math
import sqlite3
import threading
import time
from asyncio import Future
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar, TypeVarTuple, Unpack

import msgspec

from service.errors import (
    JournalUnavailable,
    ModelDamaged,
    ModelUnreadable,
    OutcomeUnknown,
    Overloaded,
    UnknownModel,
)
from service.events import AnyEvent, Prediction, PredictionVoided, RoundRevealed
from service.journal.codec import encode
from service.journal.protocol import (
    NEW_LIFE,
    Answer,
    Appended,
    Apply,
    Before,
    Distrust,
    Eraser,
    Erasure,
    Figures,
    Listed,
    Milestone,
    Overdue,
    OwnTime,
    Page,
    Recorded,
    Snapshot,
    StoredModel,
    Summary,
    Tagged,
    Totals,
    WaitingPrediction,
)
from service.journal.seals import Damaged
from service.journal.sqlite import reading
from service.journal.sqlite.directory import DirectoryLock, open_directory
from service.journal.sqlite.group_commit import GROUP_MAX, GroupCommit, Item
from service.journal.sqlite.large_snapshots import PART_BYTES, LargeSnapshots, sealed
from service.journal.sqlite.ownership import OpenedFile, check_in_place, opened_file, why_lost
from service.journal.sqlite.queue_limit import AdaptiveQueueLimit, QueueCounts
from service.journal.sqlite.records import (
    MODEL_UNKNOWN,
    NEW,
    EraseRecord,
    ForgetRecord,
    Opening,
    PendingRecord,
    Record,
    SummariesRecord,
    Written,
    record_of,
)
from service.journal.sqlite.schema import open_reader
from service.journal.sqlite.scrubbing import Scrub
from service.journal.sqlite.sealing import seal_outcomes, seal_pending
from service.runtime.cooperative import Turns
from service.runtime.logs import LogLimiter

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

READERS = 2

OF_PREDICTIONS = (RoundRevealed, PredictionVoided)
"""Events with which a prediction need not be written any more."""

log = logging.getLogger(__name__)


class NoPeers:
    """See `Peers`: there are none."""

    replica = ""

    async def answer(self, answer: Answer) -> None:
        pass

    async def ask(self, replica: str, question: bytes) -> bytes | None:
        return None

    async def answer_all(self, answer: Answer) -> None:
        pass

    async def ask_all(self, question: bytes) -> list[bytes]:
        return []


class Unshared:
    """No other process appends, so this one never lags behind; but its files may be taken away from it."""

    is_shared = False
    pending_seconds_max = math.inf
    peers = NoPeers()
    lag_events = 0
    why_out_of_touch: str | None = None
    _files: list[OpenedFile]

    async def refresh(self) -> None:
        """See whether the files are still those that were opened."""
        self.why_out_of_touch = await asyncio.to_thread(why_lost, self._files)

    def time_us(self) -> int:
        return time.time_ns() // 1000

    async def may_arrive_later(self, prediction_id: str) -> bool:
        return False


class SqliteJournal(Unshared):
    """See `Journal` for what it promises."""

    def __init__(
        self,
        directory: Path,
        *,
        durability: str,
        queue_events_max: int,
        queue_seconds_max: float,
        events_kept_max: int,
        expired_remembered_max: int,
        scrub_rows_per_second: int = 0,
        history_bytes_max: int = 0,
    ) -> None:
        """Take the directory; StartError if it is in use or cannot be used."""
        self._path = directory.absolute() / "journal.sqlite"
        self._lock = DirectoryLock(directory)
        self._lock.acquire()
        try:
            open_directory(self._path, durability)
            self._files = [opened_file(self._path), opened_file(self._lock.path, self._lock.file)]
        except BaseException:
            self._lock.release()
            raise
        limits = (events_kept_max, expired_remembered_max)
        self._opening = Opening(str(self._path), durability, *limits, self._files, history_bytes_max)
        self._queue_events_max = queue_events_max
        self._queue_seconds_max = queue_seconds_max
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="journal-reader")
        # Ids are looked up one after the other, so that requests that wait for it keep their order.
        self._finder = ThreadPoolExecutor(1, thread_name_prefix="journal-finder")
        self._lookups = QueueCounts(queue_events_max)
        self._reader = threading.local()
        self._reader_connections: list[sqlite3.Connection] = []
        self._unsaved: list[PendingRecord] = []
        self._failures_told = LogLimiter()
        self.damage_found = 0
        self._scrub = Scrub(self._read, self._tell_damage, rows_per_second=scrub_rows_per_second)

    async def open(self, apply: Apply, before: Before | None = None, distrust: Distrust | None = None) -> int:
        self._apply = apply
        self._loop = asyncio.get_running_loop()
        self._writer = GroupCommit(self._committed, queue_max=self._queue_events_max)
        await self._writer.start(self._opening, self._lock.file)
        self._large_snapshots = LargeSnapshots(self._submit)
        self._queue_limits = [
            AdaptiveQueueLimit(queue, seconds_max=self._queue_seconds_max)
            for queue in (self._writer, self._lookups)
        ]
        for limit in self._queue_limits:
            limit.start()
        newest = await self._read(reading.newest_time)  # which opens the log, too
        self._files.append(opened_file(Path(f"{self._path}-wal")))
        self._scrub.start()
        return newest

    async def close(self) -> None:
        await self._scrub.stop()
        await self._large_snapshots.settle()
        for limit in self._queue_limits:
            await limit.stop()
        self._readers.shutdown()
        self._finder.shutdown()
        for connection in self._reader_connections:
            connection.close()
        await self._writer.stop()  # the last one to close the file leaves it in one piece
        self._lock.release()

    def append(self, event: AnyEvent, life: int = NEW_LIFE) -> Future[Appended]:
        withdrawn = None
        if isinstance(event, OF_PREDICTIONS):
            withdrawn = self._writer.withdraw(event.prediction_id)
        return self._submit(record_of(event, life), event, withdrawn)

    def put_pending(self, prediction: Prediction, life: int, *, wait: bool) -> Future[Appended] | None:
        record = PendingRecord(prediction.prediction_id, life, prediction.at, encode(prediction))
        if wait:
            return self._submit(record)
        self._writer.submit(Item(record, None))
        return None

    def save_snapshot(self, snapshot: Snapshot) -> None:
        if len(snapshot.state) > PART_BYTES:
            self._large_snapshots.save(snapshot)
            return
        try:
            self._writer.submit(Item(sealed(snapshot), None))
        except Overloaded as error:
            log.warning("no snapshot of %s: %s", snapshot.model, error)

    def save_summaries(self, summaries: list[Summary], through: int | None = None) -> Future[Appended]:
        rows = [
            (s.life, s.updated_at, s.revealed, s.mistakes, s.updates, s.pending, s.expired, s.ewma_error_rate)
            for s in summaries
        ]
        return self._submit(SummariesRecord(rows, through))

    def _submit(
        self, record: Record, event: AnyEvent | None = None, instead_of: PendingRecord | None = None
    ) -> Future[Appended]:
        future: Future[Appended] = self._loop.create_future()
        try:
            self._writer.submit(Item(record, future, event, instead_of))
        except Overloaded:
            if instead_of is not None:
                self._keep_later(instead_of)
            raise
        return future

    @property
    def keeps_order(self) -> bool:
        # So few are in the group under way or in the next, which is not written if that one fails.
        return self._writer.waiting < GROUP_MAX

    @property
    def submitted(self) -> int:
        return self._writer.submitted

    @property
    def finished(self) -> int:
        return self._writer.finished

    @property
    def figures(self) -> Figures:
        sizes = {}
        for name, path in (("file", self._path), ("wal", Path(f"{self._path}-wal"))):
            with suppress(OSError):  # it was taken away
                sizes[name] = path.stat().st_size
        return Figures(
            queued=self._writer.waiting,
            commits=self._writer.commits,
            failures=self._writer.failures,
            damage_found=self.damage_found,
            is_connected=self.why_out_of_touch is None,
            checkpoint_failures=self._writer.checkpoint_failures,
            file_bytes=sizes,
        )

    @property
    def trouble(self) -> str | None:
        return self._writer.trouble

    async def overdue(
        self, after: int, through: int, limit: int, *, own: bool = False
    ) -> tuple[list[Overdue], int]:
        return await self._read(reading.overdue, after, through, limit, own)

    async def overdue_of(self, life: int, through: int) -> tuple[Overdue | None, int | None]:
        return await self._read(reading.overdue_of, life, through)

    async def own_times(self) -> list[OwnTime]:
        return await self._read(reading.own_times)

    async def forget_expired(self, through: int) -> None:
        if await self._read(reading.has_pending, through):
            self._writer.submit(Item(ForgetRecord(through), None))

    async def find(
        self, prediction_id: str, *, expected: bool = False
    ) -> WaitingPrediction | Recorded | None:
        turns = self._lookups
        # A lookup of an id precedes a write: without room for that, refuse before the wait.
        if turns.waiting >= turns.queue_max or self._writer.waiting >= self._writer.queue_max:
            raise Overloaded(f"{turns.waiting} lookups of ids are queued; try again later")
        turns.submitted += 1
        try:
            found = await self._read(reading.find, prediction_id, executor=self._finder)
            if found is None and expected:
                await self._settle()  # it may have been given up before it was on disk
                found = await self._read(reading.find, prediction_id, executor=self._finder)
            return found
        finally:
            turns.finished += 1

    async def recorded(self, life: int, event_id: str) -> Recorded | None:
        await self._settle()
        return await self._read(reading.recorded, life, event_id)

    async def load(self, model: str) -> StoredModel | None:
        await self._settle(model)
        try:
            return await self._read(reading.load, model)
        except JournalUnavailable as error:
            is_damaged = isinstance(error.__cause__, msgspec.MsgspecError | Damaged)
            raise (ModelDamaged if is_damaged else ModelUnreadable)(error.detail) from error

    async def outcomes(self, model: str, seq: int) -> bytes | None:
        await self._settle(model)
        return await self._read(reading.outcomes, model, seq)

    async def unsummarised(self, *, before: int | None = None) -> list[str]:
        return await self._read(reading.unsummarised)

    async def summary(self, model: str) -> Summary | None:
        await self._settle()
        return await self._read(reading.summary, model)

    async def models(self, page: Page) -> list[Listed]:
        return await self._read(reading.models, page)

    async def totals(self, prefix: str) -> Totals:
        return await self._read(reading.totals, prefix)

    async def events(self, model: str, *, after: int, limit: int) -> list[Recorded]:
        return await self._read(reading.events, model, after, limit)

    async def milestone(self, model: str, version: int | None) -> Milestone | None:
        await self._settle(model)
        return await self._read(reading.milestone, model, version)

    async def history(self, milestone: Milestone, *, after: int, limit: int) -> list[Recorded] | None:
        return await self._read(reading.history, milestone.life, after, limit)

    @property
    def eraser(self) -> Eraser:
        return self

    async def tagged(self, life: int, tag: str, after: int = 0) -> Tagged:
        await self._settle()
        return Tagged(dict.fromkeys(await self._read(reading.tagged, life, tag), 0))

    async def pages(self, life: int, seq: int) -> list[tuple[int, int, bytes]]:
        await self._settle()
        return await self._read(reading.pages, life, seq)

    async def erase(self, erasure: Erasure) -> None:
        life = erasure.life
        found: list[Prediction] = []
        if erasure.labels:
            await self._settle()
            found = await self._read(reading.served, life, erasure.labels)
        waiting = [msgspec.structs.replace(each, served=None) for each in found]
        record = EraseRecord(
            life,
            [
                (seq, getattr(event, "prediction_id", None) or None, encode(event))
                for seq, event in erasure.events
            ],
            [
                (through, version, seal_outcomes(body, life, through, version))
                for through, version, body in erasure.pages
            ],
            erasure.snapshots,
            erasure.predictions,
            erasure.is_whole,
            [
                (each.prediction_id, seal_pending(encode(each), each.prediction_id, life, each.at))
                for each in waiting
            ],
        )
        done = await self._submit(record)
        if not done.is_new:
            raise JournalUnavailable("the file could not be compacted at the moment")

    async def settle(self) -> None:
        await self._large_snapshots.settle()
        await self._settle()

    async def _settle(self, model: str | None = None) -> None:
        """The same, but for large snapshots of models other than this one."""
        if model is not None:
            await self._large_snapshots.settle_of(model)
        if self._writer.waiting >= self._writer.queue_max < self._queue_events_max:
            raise Overloaded(f"{self._writer.waiting} events are queued for the journal; try again later")
        await self._writer.settle()

    async def _read(
        self,
        function: Callable[[sqlite3.Connection, Unpack[Ts]], T],
        *args: *Ts,
        executor: ThreadPoolExecutor | None = None,
    ) -> T:
        """Ask in a reader thread, so that the loop never waits for the disk."""

        def ask() -> T:
            try:
                connection: sqlite3.Connection | None = getattr(self._reader, "connection", None)
                if connection is None:
                    connection = open_reader(self._path)
                    check_in_place(self._files)
                    self._reader.connection = connection
                    self._reader_connections.append(connection)
                return function(connection, *args)
            except (sqlite3.Error, msgspec.MsgspecError, Damaged) as error:
                if not isinstance(
                    error, sqlite3.OperationalError
                ):  # neither the disk nor a lock: the content
                    self.damage_found += 1
                if (held_back := self._failures_told.turn()) is not None:
                    log.error("the journal cannot be read: %s", error, extra={"others": held_back})
                raise JournalUnavailable(f"the journal cannot be read: {error}") from error

        return await self._loop.run_in_executor(executor or self._readers, ask)

    def _tell_damage(self, what: str) -> None:
        self.damage_found += 1
        log.error("the journal is damaged: %s", what)

    def _committed(self, group: list[Item], written: Written, turns: Turns) -> Iterator[None]:
        """Apply a durable group in its order and answer those who wait; or tell them that it failed."""
        if written.failure is not None:
            self._failed(group, written.failure, in_doubt=written.is_in_doubt)
            return
        for item, (status, seq) in zip(group, written.results, strict=True):
            future, event = item.future, item.event
            if future is None and event is None:  # a prediction that nobody waits for
                continue
            if turns.is_over:
                yield
            try:
                applied = self._apply(seq, event) if event is not None and status == NEW else None
            except ModelDamaged as error:
                if future is not None and not future.done():
                    future.set_exception(error)
                continue
            if future is None or future.done():
                continue
            if status == MODEL_UNKNOWN:
                future.set_exception(UnknownModel("the model was deleted"))
            else:
                future.set_result(Appended(seq, status == NEW, applied))
        if self._unsaved:
            self._retry()

    def _failed(self, group: list[Item], why: str, *, in_doubt: bool) -> None:
        """Tell those who wait. What is in doubt is not applied; it is once the same id is asked for again."""
        error = (
            OutcomeUnknown(f"{why}: the outcome is unknown; retry with the same id to find out")
            if in_doubt
            else JournalUnavailable(f"the journal cannot be written: {why}")
        )
        for item in group:
            record, future, instead_of = item.record, item.future, item.instead_of
            if isinstance(record, PendingRecord) and future is None:
                self._keep_later(record)
            elif future is not None and not future.done():
                future.set_exception(error)
            if instead_of is not None:
                self._keep_later(instead_of)

    def _keep_later(self, record: PendingRecord) -> None:
        """Keep a prediction once the journal works again; it may have been revealed by then."""
        if len(self._unsaved) < self._queue_events_max:
            record.retried = True
            self._unsaved.append(record)

    def _retry(self) -> None:
        """The journal works again: keep the predictions that it could not keep before."""
        unsaved, self._unsaved = self._unsaved, []
        for record in unsaved:
            try:
                self._writer.submit(Item(record, None))
            except Overloaded:
                self._unsaved.append(record)
