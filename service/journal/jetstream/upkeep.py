"""What a replica does for the cluster now and then: summaries for those that start, and burying the dead."""

import asyncio
import logging
import random
import time
from asyncio import Task
from collections.abc import Awaitable, Callable

from service.background import end, keep_running, run_once
from service.errors import JournalUnavailable, NovikoffError
from service.journal.jetstream.ballast import Ballast
from service.journal.jetstream.catalogue.catalogue import Catalogue, Death
from service.journal.jetstream.link.api import Api
from service.journal.jetstream.link.publishing import Publisher
from service.journal.jetstream.messages import encode
from service.journal.jetstream.subjects import Subjects

log = logging.getLogger(__name__)

EVERY_SECONDS = 5.0
STORED_AT_ONCE = 500
BURY_EVERY_SECONDS = 60.0


class Upkeep:
    """Stores summaries that nobody else has stored, and forgets what deleted models have left."""

    def __init__(
        self,
        api: Api,
        publisher: Publisher,
        subjects: Subjects,
        catalogue: Catalogue,
        ballast: Ballast,
        position: Callable[[], int],
        *,
        deaths_kept_seconds: float,
    ) -> None:
        self._api = api
        self._publisher = publisher
        self._subjects = subjects
        self._catalogue = catalogue
        self._ballast = ballast
        self._position = position
        self._deaths_kept_us = round(deaths_kept_seconds * 1e6)
        self._marked = 0
        self._tasks: set[Task[None]] = set()
        self._knows_uncovered = asyncio.Event()

    def start(self, read_uncovered: Callable[[], Awaitable[None]]) -> None:
        """`read_uncovered` tells the catalogue of events that no stored summary covers."""
        self._add(keep_running("upkeep of the cluster", self._run(read_uncovered)))
        self._add(keep_running("burying old models", self._keep_burying()))

    async def know_uncovered(self, seconds: float) -> None:
        """Wait until the catalogue has heard of all events that no stored summary covers."""
        if self._knows_uncovered.is_set():
            return
        try:
            await asyncio.wait_for(self._knows_uncovered.wait(), seconds)
        except TimeoutError:
            raise JournalUnavailable("the newest events cannot be read just now") from None

    async def stop(self) -> None:
        await end(self._tasks)

    async def _run(self, read_uncovered: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                if not self._knows_uncovered.is_set():
                    await read_uncovered()
                    self._knows_uncovered.set()
                # Replicas that began together do not stay together, so that one finds the other's work done.
                await asyncio.sleep(EVERY_SECONDS * random.uniform(0.7, 1.3))
                await self.store_summaries()
                await self._ballast.put()
            except NovikoffError as error:
                log.warning("housekeeping is done later: %s", error)

    async def store_summaries(self) -> None:
        to_store = self._catalogue.to_store()
        for start in range(0, len(to_store), STORED_AT_ONCE):
            some = to_store[start : start + STORED_AT_ONCE]
            acks = await asyncio.gather(
                *(
                    self._publisher.publish(
                        self._subjects.summary(entry.life), encode(stored), expected=entry.stored_seq
                    )
                    for entry, stored in some
                )
            )
            for (entry, stored), ack in zip(some, acks, strict=True):
                if ack.stored:  # else another replica was quicker, and its summary is on its way to us
                    self._catalogue.take_stored_summary(entry.life, ack.seq, stored)
        if not self._knows_uncovered.is_set():
            return  # there may be older events that no stored summary covers
        through = self._catalogue.stored_through(self._position())
        if through > self._marked:
            await self._publisher.publish(self._subjects.mark, str(through).encode())
            self._marked = through

    def bury(self, death: Death) -> None:
        """Forget all that a deleted model has left, but for the death itself."""
        self._add(run_once("burying a model", self._bury(death)))

    async def _bury(self, death: Death) -> None:
        try:
            await self._forget_derived(death)
        except NovikoffError as error:
            log.warning("what %s has left is forgotten later: %s", death.model, error)

    async def _forget_derived(self, death: Death) -> None:
        s = self._subjects
        await self._api.purge(s.log, s.events_of(death.life))
        for subjects in s.all_derived_of(death.life):
            await self._api.purge(s.state, subjects)
        if death.birth_blob is not None:
            await self._api.purge(s.state, s.blobs_of(0, death.birth_blob.name))

    async def _keep_burying(self) -> None:
        while True:
            try:
                await self.bury_old()
            except NovikoffError as error:
                log.warning("old deaths are forgotten later: %s", error)
            await asyncio.sleep(BURY_EVERY_SECONDS * random.uniform(0.7, 1.3))

    async def bury_old(self) -> None:
        """Forget the deaths too that every replica has heard of, with the births before them."""
        s = self._subjects
        for death in self._catalogue.deaths_before(time.time_ns() // 1000 - self._deaths_kept_us):
            oldest = await self._api.next_of_leader(s.log, s.life_of(death.model), 1)
            if oldest is not None and oldest.seq <= death.seq:  # else another replica has done it already
                await self._forget_derived(death)
                await self._api.purge(s.log, s.life_of(death.model), below=death.seq + 1)
            self._catalogue.forget_death(death)

    def _add(self, task: Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
