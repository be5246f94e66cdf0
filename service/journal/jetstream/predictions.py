"""Predictions that wait for their labels on the cluster: their ids, how they are kept, and who expires them."""

import asyncio
import os
from asyncio import Future
from collections.abc import Awaitable, Callable
from heapq import merge
from itertools import islice, repeat, takewhile
from operator import itemgetter

from service.errors import InvalidRequest, PredictionIdTaken
from service.events import (
    VOIDING,
    AnyEvent,
    Prediction,
    PredictionsExpired,
    PredictionVoided,
    RoundErased,
    RoundRevealed,
    TagErased,
    TagForgotten,
)
from service.journal.jetstream.catalogue import Catalogue, Entry
from service.journal.jetstream.link.api import Message, in_batches
from service.journal.jetstream.link.publishing import Ack
from service.journal.jetstream.messages import Bodies, KnownId, decode_ids, decode_known_id, encode
from service.journal.jetstream.outstanding import Outstanding
from service.journal.jetstream.streams import Streams
from service.journal.protocol import (
    PENDING_LOADED_BYTES_MAX,
    PENDING_LOADED_MAX,
    Appended,
    Overdue,
    OwnTime,
    Recorded,
    Resting,
    WaitingPrediction,
    own_ttl_us,
)

ID_CHARS_MAX = 512
REMEMBERED_MAX = 10_000
READ_AT_ONCE = 64
LISTED_AT_ONCE = 5_000

Read = Callable[[str, str], Awaitable[Message | None]]
"""Reads the last message of a stream with a subject."""


class Ids:
    """Stores ids, and finds what they stand for."""

    def __init__(
        self,
        streams: Streams,
        catalogue: Catalogue,
        bodies: Bodies,
        reach: Callable[[int], Awaitable[None]],
    ) -> None:
        """`reach` waits until this replica has come to a sequence number of the log."""
        self._api, self._publisher, self._subjects = streams.api, streams.publisher, streams.subjects
        self._catalogue = catalogue
        self._bodies = bodies
        self._reach = reach
        self._lives: dict[str, int] = {}
        """Lives by ids that have events in the log, though their records may be gone."""
        self.forgetting: set[int] = set()
        """Lives of which a forgetting is under way, which may store records anew."""

    def record(self, life: int, prediction: Prediction | None) -> bytes:
        """The record to keep under an id. It is unique, so that a replica recognises its own."""
        return encode(KnownId(life, prediction, os.urandom(8)))

    async def keep(self, prediction_id: str, record: bytes) -> tuple[int, KnownId | None]:
        """Keep a record under an id unless it has one: the record's sequence number, and the earlier record if any."""
        subject = self._subjects.id(prediction_id)
        expected = 0
        while True:
            ack = await self._publisher.publish(subject, record, expected=expected)
            if ack.stored:
                return ack.seq, None
            found = await self._api.last_of_any_copy(self._subjects.ids, subject)
            if found is None:
                expected = 0  # it was removed for its age a moment ago
            elif found.data == record:
                return found.seq, None  # the answer to the first attempt was lost
            elif await self._entry((holder := decode_known_id(found.data)).life) is None:
                expected = found.seq
            else:
                return found.seq, holder

    async def claim(self, entry: Entry, prediction_id: str) -> None:
        """Take an id for a round that is learned at once; PredictionIdTaken if it stands for anything else.

        Several such rounds of one model may share the claim: the log takes the first and refuses the others,
        as it does if a prediction with this id was revealed already.
        """
        _, holder = await self.keep(prediction_id, self.record(entry.life, None))
        if holder is None or (holder.life == entry.life and holder.prediction is None):
            return
        subject = self._subjects.event(entry.life, entry.model, prediction_id)
        if await self._api.last(self._subjects.log, subject) is None:
            raise PredictionIdTaken(f"the id {prediction_id!r} was already used for another example")

    def remember(self, prediction_id: str, life: int) -> None:
        """Note that the log has an event with this id."""
        if len(self._lives) >= REMEMBERED_MAX:
            self._lives.clear()
        self._lives[prediction_id] = life

    async def find(
        self, prediction_id: str, *, in_any_copy: bool = False
    ) -> WaitingPrediction | Recorded | None:
        """The waiting prediction, or the event that revealed it, or None.

        `in_any_copy`: also if not every server can read it.
        """
        if len(prediction_id) > ID_CHARS_MAX:
            return None
        read = self._api.last_of_any_copy if in_any_copy else self._api.last
        found = await read(self._subjects.ids, self._subjects.id(prediction_id))
        if found is None and (in_any_copy or self.forgetting):
            found = await self._stored_anew(prediction_id, read)
        known = decode_known_id(found.data) if found is not None else None
        life = known.life if known is not None else self._lives.get(prediction_id)
        if life is None or (entry := await self._entry(life)) is None:
            return None
        # One that was refused as a repetition is there.
        read = self._api.last_of_any_copy if in_any_copy or prediction_id in self._lives else self._api.last
        event = await read(self._subjects.log, self._subjects.event(life, entry.model, prediction_id))
        if event is not None:
            opened = await self._bodies.open(event)
            await self._reach(event.seq)  # so that its outcome is known here
            return Recorded(event.seq, opened.event) if opened is not None else None
        if known is None or known.prediction is None:
            return None
        return WaitingPrediction(known.prediction, life)

    async def last(self, prediction_id: str, read: Read) -> Message | None:
        """The record of an id that had one."""
        found = await read(self._subjects.ids, self._subjects.id(prediction_id))
        return found if found is not None else await self._stored_anew(prediction_id, read)

    async def _stored_anew(self, prediction_id: str, read: Read) -> Message | None:
        """The record of an id that has none, if a forgetting stores it anew: see `Forgetting`."""
        s = self._subjects
        spare = await read(s.ids, s.spare_id(prediction_id))
        return spare if spare is not None else await read(s.ids, s.id(prediction_id))

    async def recorded(self, life: int, event_id: str) -> Recorded | None:
        """The event of a model with this id, by the server that leads."""
        if (entry := await self._entry(life)) is None:
            return None
        subject = self._subjects.event(life, entry.model, event_id)
        found = await self._api.last_from_leader(self._subjects.log, subject)
        if found is None or (opened := await self._bodies.open(found)) is None:
            return None
        await self._reach(found.seq)
        return Recorded(found.seq, opened.event)

    async def _entry(self, life: int) -> Entry | None:
        """None if the model is deleted."""
        await self._reach(life)  # another replica may have made the model a moment ago
        return self._catalogue.get_life(life)


class Waiting:
    """Ids of waiting predictions by the life of their model, and when each was served.

    Any replica can reveal any prediction, by its id. But only the one that served it counts it as waiting, and as
    expired in the end. A replica that stops stores lists of its waiting predictions, which another replica takes over.
    """

    def __init__(self, streams: Streams, ids: Ids, outstanding: Outstanding, catalogue: Catalogue) -> None:
        self._api, self._publisher, self._subjects = streams.api, streams.publisher, streams.subjects
        self._ids = ids
        self._outstanding = outstanding
        self._catalogue = catalogue
        self._served: dict[int, dict[str, int]] = {}
        """For each life, the ids and when each was served, the oldest first."""
        self._unsent: set[str] = set()

    def keep(self, life: int, prediction: Prediction, *, wait: bool) -> Future[Appended] | None:
        """Send a prediction to the cluster. One that nobody waits for is sent again until the cluster has it; meanwhile
        it is in memory and can be revealed at this replica."""
        record = self._ids.record(life, prediction)
        most = self._publisher.payload_bytes_max
        if len(record) > most:
            raise InvalidRequest.at("features", f"the journal accepts predictions of at most {most} bytes")
        name = prediction.prediction_id
        self._unsent.add(name)
        self._served.setdefault(life, {})[name] = prediction.at
        if wait:
            future: Future[Appended] = asyncio.get_running_loop().create_future()
            self._outstanding.spawn(self._keep(life, name, record), self._outstanding.add(future))
            return future
        stored = self._publisher.publish(self._subjects.id(name), record, expected=0, persistent=True)
        self._outstanding.add(stored).add_done_callback(lambda _: self._unsent.discard(name))
        return None

    async def _keep(self, life: int, prediction_id: str, record: bytes) -> Appended:
        kept = False
        try:
            seq, holder = await self._ids.keep(prediction_id, record)
            kept = holder is None
            return Appended(seq, kept)
        finally:
            self._unsent.discard(prediction_id)
            if not kept:
                self.drop(life, prediction_id)

    async def drop_forgotten(self, life: int) -> None:
        """Drop those of which nothing is known any more, since another replica has forgotten them."""

        async def look(name: str) -> None:
            if await self._ids.last(name, self._api.last_from_leader) is None:
                self.drop(life, name)

        await in_batches(look, [name for name in self._served.get(life, ()) if name not in self._unsent])

    def _has_own_time(self, life: int) -> bool:
        entry = self._catalogue.get_life(life)
        return entry is not None and own_ttl_us(entry.settings) is not None

    def own_times(self) -> list[OwnTime]:
        entries = [self._catalogue.get_life(life) for life, served in self._served.items() if served]
        return [
            OwnTime(entry.model, entry.life, ttl_us, min(self._served[entry.life].values()))
            for entry in entries
            if entry is not None and (ttl_us := own_ttl_us(entry.settings)) is not None
        ]

    def overdue_of(self, life: int, through: int) -> tuple[Overdue | None, int | None]:
        entry = self._catalogue.get_life(life)
        if entry is None:
            return None, None
        times = self._served.get(life, {}).values()
        due = [at for at in times if at <= through]
        one = Overdue(entry.model, life, len(due), max(due)) if due else None
        return one, min((at for at in times if at > through), default=None)

    def overdue(self, through: int, limit: int, *, own: bool) -> list[Overdue]:
        """The `limit` oldest that were served up to a time, by model.

        `own`: also of models with `pending_ttl_seconds` of their own.
        """
        due = [
            zip(served.values(), repeat(life))
            for life, served in self._served.items()
            if next(iter(served.values()), through + 1) <= through and (own or not self._has_own_time(life))
        ]
        found: dict[int, list[int]] = {}
        for at, life in islice(takewhile(lambda one: one[0] <= through, merge(*due)), limit):
            found.setdefault(life, []).append(at)
        for life in [life for life in found if self._catalogue.get_life(life) is None]:
            self.forget(life)
        entries = [(self._catalogue.get_life(life), times) for life, times in found.items()]
        return [
            Overdue(one.model, one.life, len(times), times[-1]) for one, times in entries if one is not None
        ]

    def drop(self, life: int, prediction_id: str) -> None:
        self._served.get(life, {}).pop(prediction_id, None)

    def take_event(self, life: int, event: AnyEvent) -> None:
        """Remove the predictions that an event reveals or voids."""
        if isinstance(event, TagForgotten):
            self._ids.forgetting.add(life)
        elif isinstance(event, TagErased):
            self._ids.forgetting.discard(life)
        served = self._served.get(life)
        if served is None:
            return
        if isinstance(event, RoundRevealed | PredictionVoided | RoundErased):
            served.pop(event.prediction_id or "", None)
        elif isinstance(event, PredictionsExpired):
            self._served[life] = {name: at for name, at in served.items() if at > event.through}
        elif isinstance(event, VOIDING):
            self._served[life] = {name: at for name, at in served.items() if at > event.at}
        if not self._served[life]:
            del self._served[life]

    def forget(self, life: int) -> None:
        self._served.pop(life, None)
        self._ids.forgetting.discard(life)

    async def of(self, life: int, voided_through: int) -> tuple[list[Prediction], list[Resting]]:
        """The waiting predictions of a model, with those that a stopped replica has listed: the newest, and of the
        others their ids and times; each oldest first."""
        await self.take_over(life)
        served = self._served.get(life, {})
        names = sorted((name for name, at in served.items() if at > voided_through), key=served.__getitem__)
        resting = [Resting(name, served[name]) for name in names]
        newest: list[Prediction] = []
        size = 0
        while resting and len(newest) < PENDING_LOADED_MAX and size < PENDING_LOADED_BYTES_MAX:
            some, resting = resting[-READ_AT_ONCE:], resting[:-READ_AT_ONCE]
            read = (self._ids.last(each.prediction_id, self._api.last) for each in some)
            messages = await asyncio.gather(*read)
            known = [decode_known_id(each.data).prediction for each in messages if each is not None]
            newest[:0] = [each for each in known if each is not None]
            size += sum(len(each.data) for each in messages if each is not None)
        return newest, resting

    async def take_over(self, of: int | None) -> None:
        """Take over the lists of stopped replicas, of one life or of all: a list is the replica's that removes it."""
        s = self._subjects
        async for message in self._api.scan(s.state, s.waiting_of(of), after=0):
            if not await self._api.overwrite(s.state, message.seq):  # its ids may be forgotten later
                continue  # another one was first
            life = s.life_in(message.subject)
            taken = self._served.get(life, {}) | decode_ids(message.data)
            self._served[life] = dict(sorted(taken.items(), key=itemgetter(1)))

    async def hand_over(self) -> None:
        """Store lists of all waiting predictions for other replicas to take over. Called when this one stops."""
        stored: list[Future[Ack]] = []
        for life, served in self._served.items():
            items = list(served.items())
            for start in range(0, len(items), LISTED_AT_ONCE):
                subject = self._subjects.waiting(life, os.urandom(8).hex())
                listed = encode(dict(items[start : start + LISTED_AT_ONCE]))
                stored.append(self._publisher.publish(subject, listed, expected=0))
        await asyncio.gather(*stored)
        self._served.clear()
