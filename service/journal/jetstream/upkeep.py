"""The background tasks of a replica for the cluster: storing summaries and purging deleted models."""

import asyncio
import logging
import random
import time
from asyncio import Task
from collections.abc import Awaitable, Callable
from functools import partial

from service.errors import JournalUnavailable, NovikoffError
from service.journal.jetstream.appending import ReservedSpace
from service.journal.jetstream.catalogue import Catalogue, Deletion
from service.journal.jetstream.chains import Chains
from service.journal.jetstream.messages import encode
from service.journal.jetstream.streams import Streams
from service.runtime.cooperative import end, keep_running, run_once

log = logging.getLogger(__name__)

EVERY_SECONDS = 5.0
STORED_AT_ONCE = 500
PURGE_EVERY_SECONDS = 60.0


class Upkeep:
    """Stores summaries that no other replica has stored, and purges the data of deleted models."""

    def __init__(
        self,
        streams: Streams,
        catalogue: Catalogue,
        chains: Chains,
        reserved: ReservedSpace,
        position: Callable[[], int],
    ) -> None:
        self._api, self._publisher, self._subjects = streams.api, streams.publisher, streams.subjects
        self._catalogue = catalogue
        self._chains = chains
        self._reserved = reserved
        self._position = position
        self._deletions_kept_us = round(streams.options.ids_kept_seconds * 1e6)
        self._marked = 0
        self._shortened: set[str] = set()
        self.trouble: str | None = None
        """What is wrong with a stream, in words for people."""
        self._tasks: set[Task[None]] = set()
        self._knows_uncovered = asyncio.Event()

    def start(self, read_uncovered: Callable[[], Awaitable[None]]) -> None:
        """`read_uncovered` enters the events that no stored summary covers into the catalogue."""
        self._add(keep_running("upkeep of the cluster", self._run(read_uncovered)))
        self._add(keep_running("purging deleted models", self._purge_periodically()))

    async def know_uncovered(self, seconds: float) -> None:
        """Wait until `read_uncovered` is done; JournalUnavailable if that takes longer than `seconds`."""
        if self._knows_uncovered.is_set():
            return
        try:
            await asyncio.wait_for(self._knows_uncovered.wait(), seconds)
        except TimeoutError:
            raise JournalUnavailable("the newest events cannot be read at the moment") from None

    async def stop(self) -> None:
        await end(self._tasks)

    async def _run(self, read_uncovered: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                if not self._knows_uncovered.is_set():
                    await read_uncovered()
                    self._knows_uncovered.set()
                # A random pause, so that of replicas that started together one finds the work of the other done.
                await asyncio.sleep(EVERY_SECONDS * random.uniform(0.7, 1.3))
                await self.store_summaries()
                await self._reserved.put()
                await self.check_ends()
            except NovikoffError as error:
                log.warning("housekeeping is postponed: %s", error)

    async def check_ends(self) -> None:
        """Look whether the streams still have what was acknowledged; if not, let a server lead that has it."""
        known = self._publisher.acknowledged
        log_stream = self._subjects.log
        for stream, seq in {**known, log_stream: max(known.get(log_stream, 0), self._position())}.items():
            if await self._api.reaches(stream, seq):
                self._shortened.discard(stream)
            elif stream not in self._shortened:
                self._shortened.add(stream)  # who has just been elected may not have come so far
            else:
                what = f"the stream {stream} ends before message {seq}, which was acknowledged"
                self._api.report_damage(f"{what}; asking every server for its copy")
                self.trouble = what
                if await self._api.from_each_leader(partial(self._api.reaches, stream, seq), stream):
                    self._shortened.discard(stream)
        if not self._shortened:
            self.trouble = None

    async def store_summaries(self) -> None:
        to_store = self._catalogue.to_store(self._chains.newest)
        for start in range(0, len(to_store), STORED_AT_ONCE):
            some = to_store[start : start + STORED_AT_ONCE]
            publish, subject = self._publisher.publish, self._subjects.summary
            sent = [publish(subject(e.life), encode(each), expected=e.stored_seq) for e, each in some]
            acks = await asyncio.gather(*sent)
            for (entry, stored), ack in zip(some, acks, strict=True):
                if ack.stored:  # else another replica was first, and the follower brings its summary
                    self._catalogue.take_stored_summary(entry.life, ack.seq, stored)
        if not self._knows_uncovered.is_set():
            return  # there may be older events that no stored summary covers
        through = self._catalogue.stored_through(self._position())
        if through > self._marked:
            await self._publisher.publish(self._subjects.mark, str(through).encode())
            self._marked = through

    def purge(self, deletion: Deletion) -> None:
        """Purge all data of a deleted model but the two messages of its creation and deletion."""

        async def purge() -> None:
            try:
                await self._purge_all_of(deletion)
            except NovikoffError as error:
                log.warning("purging the deleted model %s is postponed: %s", deletion.model, error)

        self._add(run_once("purging a deleted model", purge()))

    async def _purge_all_of(self, deletion: Deletion) -> None:
        s = self._subjects
        await self._api.purge(s.log, s.events_of(deletion.life, deletion.model))
        for subjects in s.all_derived_of(deletion.life):
            await self._api.purge(s.state, subjects)
        if deletion.creation_blob is not None:
            await self._api.purge(s.state, s.blobs_of(0, deletion.creation_blob.name))

    async def _purge_periodically(self) -> None:
        while True:
            try:
                await self.purge_old_deletions()
            except NovikoffError as error:
                log.warning("purging the list of deleted models is postponed: %s", error)
            await asyncio.sleep(PURGE_EVERY_SECONDS * random.uniform(0.7, 1.3))

    async def purge_old_deletions(self) -> None:
        """Purge creations and deletions so old that every replica has read them."""
        s = self._subjects
        for deletion in self._catalogue.deletions_before(time.time_ns() // 1000 - self._deletions_kept_us):
            oldest = await self._api.next_from_leader(s.log, s.lifecycle_of(deletion.model), 1)
            if (
                oldest is not None and oldest.seq <= deletion.seq
            ):  # else another replica has purged it already
                await self._purge_all_of(deletion)
                await self._api.purge(s.log, s.lifecycle_of(deletion.model), below=deletion.seq + 1)
            self._catalogue.forget_deletion(deletion)

    def _add(self, task: Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
