"""The embedded journal: one SQLite file, one process, group commit."""

import asyncio
import logging
import sqlite3
import threading
from asyncio import Future
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from service.errors import JournalUnavailable, Overloaded
from service.events import AnyEvent, Prediction
from service.journal import reading
from service.journal.codec import encode
from service.journal.group_commit import GroupCommit
from service.journal.lock import DirectoryLock
from service.journal.protocol import (
    Appended,
    Apply,
    Listed,
    Page,
    Recorded,
    Snapshot,
    Stored,
    Summary,
    Totals,
)
from service.journal.schema import open_reader, open_writer
from service.journal.writing import Append, Barrier, Item, Keep, Result, Save, Summarise, Writing
from service.timings import Timings

P = ParamSpec("P")
T = TypeVar("T")

READERS = 2

log = logging.getLogger(__name__)


class SqliteJournal:
    """See `Journal` for what it promises."""

    def __init__(
        self,
        directory: Path,
        *,
        durability: str,
        queue_events_max: int,
        events_kept_max: int,
        expired_remembered_max: int,
    ) -> None:
        """Take the directory; StartError if it is in use or cannot be used."""
        self._path = directory.absolute() / "journal.sqlite"
        self._lock = DirectoryLock(directory)
        self._lock.acquire()
        try:
            self._connection = open_writer(self._path, durability)
        except BaseException:
            self._lock.release()
            raise
        self._writing = Writing(
            self._connection, events_kept_max=events_kept_max, expired_remembered_max=expired_remembered_max
        )
        self._queue_events_max = queue_events_max
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="journal-reader")
        self._reader = threading.local()
        self._reader_connections: list[sqlite3.Connection] = []
        self._unsaved: list[Keep] = []

    async def open(self, apply: Apply) -> int:
        self._apply = apply
        self._loop = asyncio.get_running_loop()
        self._writer = GroupCommit[Item, Result](
            self._writing.commit, self._committed, queue_max=self._queue_events_max
        )
        self._writer.start()
        return await self._read(reading.newest_time)

    async def close(self) -> None:
        await self._writer.stop()
        self._readers.shutdown()
        for connection in (*self._reader_connections, self._connection):
            connection.close()
        self._lock.release()

    def append(self, event: AnyEvent) -> Future[Appended]:
        future: Future[Appended] = self._loop.create_future()
        self._writer.submit(Append(event, encode(event), future))
        return future

    def put_pending(self, prediction: Prediction, *, wait: bool) -> Future[Appended] | None:
        future: Future[Appended] | None = self._loop.create_future() if wait else None
        self._writer.submit(Keep(prediction, encode(prediction), future))
        return future

    def save_snapshot(self, snapshot: Snapshot) -> None:
        try:
            self._writer.submit(Save(snapshot))
        except Overloaded as error:
            log.warning("no snapshot of %s: %s", snapshot.model, error)

    @property
    def waiting(self) -> int:
        """How many events wait for the disk."""
        return self._writer.waiting

    @property
    def commits(self) -> Timings:
        """How long group commits took."""
        return self._writer.commits

    async def find(self, prediction_id: str) -> Prediction | Recorded | None:
        return await self._read(reading.find, prediction_id)

    async def load(self, model: str) -> Stored | None:
        await self._settle()
        return await self._read(reading.load, model)

    async def outcomes(self, model: str, seq: int) -> bytes | None:
        await self._settle()
        return await self._read(reading.outcomes, model, seq)

    def save_summaries(self, summaries: list[Summary], through: int | None = None) -> Future[Appended]:
        future: Future[Appended] = self._loop.create_future()
        self._writer.submit(Summarise(summaries, through, future))
        return future

    async def unsummarised(self) -> list[str]:
        return await self._read(reading.unsummarised)

    async def models(self, page: Page) -> list[Listed]:
        return await self._read(reading.models, page)

    async def totals(self, prefix: str) -> Totals:
        return await self._read(reading.totals, prefix)

    async def events(self, model: str, *, after: int, limit: int) -> list[Recorded]:
        return await self._read(reading.events, model, after, limit)

    async def _settle(self) -> None:
        """Wait until what was queued before is on disk, or has failed."""
        if self._writer.waiting:
            settled: Future[Appended] = self._loop.create_future()
            self._writer.submit(Barrier(settled))
            with suppress(JournalUnavailable):
                await settled

    async def _read(
        self, function: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Ask in a reader thread, so that the loop never waits for the disk."""

        def ask() -> T:
            try:
                connection: sqlite3.Connection | None = getattr(self._reader, "connection", None)
                if connection is None:
                    connection = self._reader.connection = open_reader(self._path)
                    self._reader_connections.append(connection)
                return function(connection, *args, **kwargs)
            except sqlite3.Error as error:
                raise JournalUnavailable(f"the journal cannot be read: {error}") from error

        return await self._loop.run_in_executor(self._readers, ask)

    def _committed(self, group: list[Item], results: list[Result] | Exception) -> None:
        """Apply a durable group in its order and answer those who wait; or tell them that it failed."""
        if isinstance(results, Exception):
            self._failed(group, results)
            return
        for item, result in zip(group, results, strict=True):
            if isinstance(result, Appended) and result.is_new and isinstance(item, Append):
                result = Appended(result.seq, True, self._apply(result.seq, item.event))
            if isinstance(item, Save) or item.future is None or item.future.done():
                continue
            if isinstance(result, Exception):
                item.future.set_exception(result)
            else:
                item.future.set_result(result or Appended(0, is_new=True))
        if self._unsaved:
            self._retry()

    def _failed(self, group: list[Item], cause: Exception) -> None:
        for item in group:
            if isinstance(item, Keep) and item.future is None:
                if len(self._unsaved) < self._queue_events_max:
                    item.retried = True
                    self._unsaved.append(item)
            elif not isinstance(item, Save) and item.future is not None and not item.future.done():
                error = JournalUnavailable(f"the journal cannot be written: {cause}")
                error.__cause__ = cause
                item.future.set_exception(error)

    def _retry(self) -> None:
        """The journal works again: keep the predictions that it could not keep before."""
        unsaved, self._unsaved = self._unsaved, []
        for item in unsaved:
            try:
                self._writer.submit(item)
            except Overloaded:
                self._unsaved.append(item)
