"""The journal on a NATS cluster: any number of replicas append to one log, and each follows all of it."""

import asyncio
import logging
import os
import time
from asyncio import Future
from contextlib import suppress

from service.errors import NovikoffError
from service.events import AnyEvent, Prediction
from service.journal.jetstream.appending import Appender, ReservedSpace
from service.journal.jetstream.catalogue import Catalogue
from service.journal.jetstream.chains import Chains
from service.journal.jetstream.forgetting import Forgetting
from service.journal.jetstream.format import read_unsealed
from service.journal.jetstream.link.api import Api
from service.journal.jetstream.link.connecting import Asking, Link
from service.journal.jetstream.link.following import Contact, Follower
from service.journal.jetstream.link.publishing import Publisher
from service.journal.jetstream.loading import Loader
from service.journal.jetstream.log import Log
from service.journal.jetstream.messages import Bodies
from service.journal.jetstream.opening import (
    as_start_error,
    newest_time,
    prepare,
    read_catalogue,
    read_uncovered,
)
from service.journal.jetstream.outstanding import OrderedWork, Outstanding
from service.journal.jetstream.predictions import Ids, Waiting
from service.journal.jetstream.snapshots import Snapshots
from service.journal.jetstream.streams import Options, Streams
from service.journal.jetstream.subjects import Subjects
from service.journal.jetstream.upkeep import Upkeep
from service.journal.protocol import (
    NEW_LIFE,
    Appended,
    Apply,
    Before,
    Distrust,
    Eraser,
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
    Totals,
    WaitingPrediction,
)
from service.runtime.cooperative import end, keep_running

log = logging.getLogger(__name__)

OTHERS_SECONDS = 0.5
"""How long `find` waits for an expected prediction, which another replica may just be sending to the cluster."""

LOOK_AGAIN_SECONDS = 0.01

TAKE_OVER_SECONDS = 10.0
"""How often a replica looks for the waiting predictions of replicas that have stopped, to take them over."""

TICK_SECONDS = 0.5
PROBE_SECONDS = 0.5
"""How long `refresh` waits for the end of the log."""

LATE_SECONDS_MIN = 60.0
"""A replica that is less behind the log than this goes on."""


class JetStreamJournal:
    """See `Journal` for what it promises."""

    is_shared = True
    keeps_order = False  # publishing is tried again, by each event on its own

    def __init__(self, options: Options) -> None:
        """StartError if the cluster cannot be reached or used."""
        prepare(options)
        self._options = options
        self._late_seconds = max(options.events_kept_seconds / 2, LATE_SECONDS_MIN)
        self._took_over_at = -TAKE_OVER_SECONDS
        self._outstanding = Outstanding(options.queue_events_max)

    async def open(self, apply: Apply, before: Before | None = None, distrust: Distrust | None = None) -> int:
        options = self._options
        link = self._link = Link(options.access)
        await link.open()
        api = self.api = Api(link)
        with as_start_error():
            config = await api.config(Subjects(options.prefix).log)
            can_forget = not config.get("deny_delete")
            has_buckets = Subjects(options.prefix).events in config["subjects"]
            subjects = Subjects(options.prefix, has_plain_ids=not can_forget, has_buckets=has_buckets)
            self._subjects = subjects
            api.unsealed_through = await read_unsealed(api, subjects)
        publisher = self._publisher = Publisher(link, seconds=options.seconds)
        publisher.seals = True
        await publisher.start()

        streams = Streams(api, publisher, subjects, options)
        self._finds = OrderedWork()
        self._catalogue = catalogue = Catalogue()
        self._chains = chains = Chains()
        bodies, reserved = Bodies(streams), ReservedSpace(streams)
        self._snapshots = snapshots = Snapshots(streams)
        self._ids = Ids(streams, catalogue, bodies, self._reach)
        self._waiting = waiting = Waiting(streams, self._ids, self._outstanding, catalogue)
        forgetting = Forgetting(streams, snapshots, bodies, waiting)
        self._forgetting = forgetting if can_forget else None
        self._appender = Appender(streams, catalogue, chains, self._ids, bodies, self._outstanding, reserved)
        self._loader = Loader(
            streams, catalogue, chains, bodies, snapshots, forgetting, waiting, self._position
        )
        self._upkeep = Upkeep(streams, catalogue, chains, reserved, self._position)
        self.peers = Asking(link, subjects)
        self._contact = Contact(options.seconds)
        self._log = Log(
            streams, catalogue, chains, bodies, snapshots, waiting, self._forgetting, self._appender, self._upkeep,
            apply, before, distrust,
        )  # fmt: skip
        self._follower = Follower(
            link,
            api,
            subjects.log,
            [subjects.lifecycles, subjects.events],
            self._log.take_event,
            self._appender.position_reached,
            self._contact,
            all_of_stream=True,
            missing=self._log.missing,
        )
        self._summaries = Follower(link, api, subjects.state, [subjects.summaries], self._log.take_summary)

        with as_start_error():
            end_of_log, state_end = await read_catalogue(streams, bodies, catalogue)
            newest = await newest_time(streams)
            self._log.applied = end_of_log
            self._appender.position_reached(end_of_log)
            await self._follower.start(end_of_log)
            await self._summaries.start(state_end)
            await self._follower.check_end()
        api.limit_retries(options.seconds)
        self._upkeep.start(lambda: read_uncovered(streams, bodies, catalogue, end_of_log))
        self._ticking = keep_running("watching pending work", self._tick())
        return newest

    async def close(self) -> None:
        """Wait for the cluster for at most `seconds`. Events that it has not taken by then were not answered either."""
        await self._outstanding.settle(self._options.seconds)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._snapshots.settle(), self._options.seconds)
        try:
            await self._waiting.hand_over()
            await self._upkeep.store_summaries()
        except NovikoffError as error:
            log.warning("housekeeping is postponed: %s", error)
        await end([self._ticking])
        await self._upkeep.stop()
        await self._follower.stop()
        await self._summaries.stop()
        await self._publisher.stop()
        await self._link.close()

    # Writing

    def append(self, event: AnyEvent, life: int = NEW_LIFE) -> Future[Appended]:
        self._outstanding.check_room()
        return self._appender.append(event, life)

    def put_pending(self, prediction: Prediction, life: int, *, wait: bool) -> Future[Appended] | None:
        self._outstanding.check_room()
        if self._catalogue.get_life(life) is None:
            return None  # its model was deleted a moment ago, and the prediction with it
        return self._waiting.keep(life, prediction, wait=wait)

    async def overdue(
        self, after: int, through: int, limit: int, *, own: bool = False
    ) -> tuple[list[Overdue], int]:
        """Of the predictions that this replica has served or taken over: each replica expires its own."""
        if time.monotonic() > self._took_over_at + TAKE_OVER_SECONDS:
            self._took_over_at = time.monotonic()
            await self._waiting.take_over(None)
        found = self._waiting.overdue(through, limit, own=own)
        return found, max((one.through for one in found), default=after)

    @property
    def pending_seconds_max(self) -> float:
        """The stream of ids has one age for all messages, and a time to live of a message does not outlast it."""
        return self._options.ids_kept_seconds

    async def overdue_of(self, life: int, through: int) -> tuple[Overdue | None, int | None]:
        return self._waiting.overdue_of(life, through)

    async def own_times(self) -> list[OwnTime]:
        return self._waiting.own_times()

    async def forget_expired(self, through: int) -> None:
        """The streams have an age that messages come to at most: see `Options.ids_kept_seconds`."""

    def save_snapshot(self, snapshot: Snapshot, *, is_whole: bool = True) -> None:
        """`is_whole`: the log has all events of the model. `novikoff migrate` moves models with trimmed events too."""
        entry = self._catalogue.get_life(snapshot.life)
        if entry is not None:
            has_tags = entry.has_tags and self._forgetting is not None
            digest = self._chains.digest_at(entry.life, snapshot.seq)
            self._snapshots.save(
                entry.life, snapshot, entry.voided_through, digest, is_whole=is_whole, has_tags=has_tags
            )

    def save_summaries(self, summaries: list[Summary], through: int | None = None) -> Future[Appended]:
        """They count here at once, and `Upkeep` stores them in the cluster a little later."""
        for summary in summaries:
            self._catalogue.take_summary(summary, self._log.applied)
        done: Future[Appended] = asyncio.get_running_loop().create_future()
        done.set_result(Appended(0, True))
        return done

    async def settle(self) -> None:
        await self._outstanding.settle()
        await self._snapshots.settle()

    # Following

    def _position(self) -> int:
        return self._follower.position

    async def _reach(self, seq: int) -> None:
        await self._follower.reach(seq, self._options.seconds)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._contact.tick()
            self._appender.fail_overdue()
            if self._follower.behind_seconds > self._late_seconds:
                # The events that it lacks may be trimmed by now. After a restart it loads newer snapshots.
                log.critical(
                    "this replica is too far behind the log to catch up, or its clock is ahead: stopping"
                )
                os._exit(1)

    # Reading

    async def find(
        self, prediction_id: str, *, expected: bool = False
    ) -> WaitingPrediction | Recorded | None:
        found = await self._finds.take(self._ids.find(prediction_id))
        deadline = time.monotonic() + OTHERS_SECONDS
        while found is None and expected and time.monotonic() < deadline:
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
            found = await self._ids.find(prediction_id)
        if found is None and expected:
            found = await self._ids.find(prediction_id, in_any_copy=True)
        return found

    async def recorded(self, life: int, event_id: str) -> Recorded | None:
        return await self._ids.recorded(life, event_id)

    async def may_arrive_later(self, prediction_id: str) -> bool:
        subject = self._subjects.id(prediction_id)
        return await self.api.last_from_leader(self._subjects.ids, subject) is None

    async def load(self, model: str) -> StoredModel | None:
        entry = self._catalogue.get(model)
        if entry is None:
            return None
        await self._snapshots.settle_of(entry.life)
        return await self._loader.load(entry)

    async def outcomes(self, model: str, seq: int) -> bytes | None:
        entry = self._catalogue.get(model)
        if entry is None:
            return None
        await self._snapshots.settle_of(entry.life)
        return await self._snapshots.page(entry.life, seq)

    async def events(self, model: str, *, after: int, limit: int) -> list[Recorded]:
        entry = self._catalogue.get(model)
        return await self._loader.events(entry, after=after, limit=limit) if entry is not None else []

    async def milestone(self, model: str, version: int | None) -> Milestone | None:
        entry = self._catalogue.get(model)
        if entry is None:
            return None
        await self._snapshots.settle_of(entry.life)
        return await self._loader.milestone(entry, version)

    async def history(self, milestone: Milestone, *, after: int, limit: int) -> list[Recorded] | None:
        entry = self._catalogue.get_life(milestone.life)
        return await self._loader.history(entry, after=after, limit=limit) if entry is not None else None

    @property
    def eraser(self) -> Eraser | None:
        """None if an older version has made the log: it refuses for good that events are deleted by their numbers."""
        return self._forgetting

    async def unsummarised(self, *, before: int | None = None) -> list[str]:
        await self._upkeep.know_uncovered(self._options.seconds)
        return self._catalogue.unsummarised(before)

    async def summary(self, model: str) -> Summary | None:
        entry = self._catalogue.get(model)
        return entry.summary if entry is not None else None

    async def models(self, page: Page) -> list[Listed]:
        return self._catalogue.page(page)

    async def totals(self, prefix: str) -> Totals:
        return await self._catalogue.totals(prefix)

    # Figures

    @property
    def figures(self) -> Figures:
        return Figures(
            queued=len(self._outstanding),
            commits=self._appender.commits,
            failures=self._publisher.failures,
            damage_found=self.api.damage_found,
            is_connected=self._link.is_up and self.why_out_of_touch is None,
        )

    @property
    def submitted(self) -> int:
        return self._outstanding.submitted

    @property
    def finished(self) -> int:
        return self._outstanding.finished

    @property
    def trouble(self) -> str | None:
        return self._log.trouble or self._upkeep.trouble

    @property
    def streams(self) -> list[str]:
        return [*self._subjects.streams]

    @property
    def lag_events(self) -> int:
        return self._follower.lag

    def time_us(self) -> int:
        return self._contact.corrected_us(time.time_ns() // 1000)

    @property
    def why_out_of_touch(self) -> str | None:
        return self._contact.why_lost()

    async def refresh(self) -> None:
        await self._follower.check_end(PROBE_SECONDS)
