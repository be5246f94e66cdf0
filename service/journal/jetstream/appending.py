"""Appending events to the log. An append is answered when this replica's own follower has applied the event.

The order of the log decides, so an event is not applied when it is sent but when the follower brings it back; it is
recognised by its token. If the log refuses an event as a repetition, the append is answered when the follower has come
to the event that was there before.
"""

import asyncio
from asyncio import Future
from functools import partial
from heapq import heappop, heappush
from time import monotonic
from typing import Any

from service.errors import JournalFull, OutcomeUnknown, UnknownModel
from service.events import AnyEvent, ModelCreated, ModelDeleted, ModelImported, RoundLearned
from service.journal.codec import encode
from service.journal.jetstream.catalogue import Catalogue, Entry
from service.journal.jetstream.chains import Chains
from service.journal.jetstream.link.publishing import Ack
from service.journal.jetstream.messages import Blob, Bodies, wrap
from service.journal.jetstream.outstanding import OrderedWork, Outstanding, fail
from service.journal.jetstream.predictions import Ids
from service.journal.jetstream.streams import Streams
from service.journal.protocol import Appended
from service.runtime.timings import Timings

LifecycleEvent = ModelCreated | ModelImported | ModelDeleted
MODEL_DELETED = "the model was deleted"

RESERVED_BYTES = 65_536


class ReservedSpace:
    """Space reserved in the cluster, so that models can be deleted when its store is full.

    A deletion is an event, and a full store takes none. So the store has one large message without meaning. It is
    purged to make room for a deletion, which then frees space itself, and stored again later.
    """

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._is_there = False

    async def put(self) -> None:
        """Store the message, unless this replica knows that it is there."""
        if not self._is_there:
            publisher = self._streams.publisher
            size = min(RESERVED_BYTES, publisher.payload_bytes_max)
            await publisher.publish(self._streams.subjects.ballast, bytes(size), expected=0)
            self._is_there = True

    async def release(self) -> bool:
        """Purge the message to make room; False if it was not there."""
        self._is_there = False
        subjects = self._streams.subjects
        return await self._streams.api.purge(subjects.state, subjects.ballast) > 0


class Appender:
    """Appends events. The follower calls `applied`, `rejected` and `position_reached` as it goes through the log."""

    def __init__(
        self,
        streams: Streams,
        catalogue: Catalogue,
        chains: Chains,
        ids: Ids,
        bodies: Bodies,
        outstanding: Outstanding,
        reserved: ReservedSpace,
    ) -> None:
        self._publisher, self._subjects = streams.publisher, streams.subjects
        self._catalogue = catalogue
        self._chains = chains
        self._ids = ids
        self._bodies = bodies
        self._outstanding = outstanding
        self._reserved = reserved
        self._seconds = streams.options.seconds
        self._position = 0
        self._awaited: dict[bytes, tuple[Future[Appended], float]] = {}
        """By token: the future to answer, and when the event was sent."""
        self._ahead: list[tuple[int, bytes, bool]] = []
        """A heap of acknowledged events that the follower has not come to yet: sequence number, token, whether new."""
        self._slow: dict[int, tuple[OrderedWork, int]] = {}
        """By life, the events that need more than one message, and how many of them are under way."""
        self.commits = Timings()

    def append(self, event: AnyEvent, life: int) -> Future[Appended]:
        """Append an event; the future is done when this replica has applied it, or knows why not."""
        future: Future[Appended] = self._outstanding.add(asyncio.get_running_loop().create_future())
        entry = self._catalogue.get_life(life)
        if isinstance(event, LifecycleEvent):
            body, attempt = encode(event), None
            if self._bodies.fits(body) and self._is_due(event, life):  # sent at once, so that the order stays
                attempt = self._send_lifecycle_event(event, body, None)
            self._outstanding.spawn(self._append_lifecycle_event(event, life, body, attempt), future)
        elif entry is None:
            future.set_exception(UnknownModel(MODEL_DELETED))
        else:
            body = encode(event)
            event_id: str | None = getattr(event, "prediction_id", None) or None
            claims = isinstance(event, RoundLearned) and event_id is not None
            # Later events of the model wait for a slow one, so that they keep their order.
            if claims or entry.life in self._slow or not self._bodies.fits(body):
                turns, under_way = self._slow.get(entry.life, (OrderedWork(), 0))
                self._slow[entry.life] = (turns, under_way + 1)
                self._outstanding.spawn(self._append_slowly(entry, event_id, body, claims), future)
            else:
                self._send(entry, event_id, body, future)
        return future

    def _send(self, entry: Entry, event_id: str | None, body: bytes | Blob, future: Future[Appended]) -> None:
        token = self._bodies.new_token()
        payload = wrap(token, body, self._chains.newest(entry.life))
        subject = self._subjects.event(entry.life, entry.model, event_id)
        if event_id is None:
            ack = self._publisher.publish(subject, payload, name=token.hex())
        else:
            ack = self._publisher.publish(subject, payload, expected=0)
            ack.add_done_callback(partial(self._remember, event_id, entry.life))
        self._await(token, future, ack)

    def _remember(self, event_id: str, life: int, ack: Future[Ack]) -> None:
        if not ack.cancelled() and ack.exception() is None and not ack.result().stored:
            self._ids.remember(event_id, life)

    async def _append_slowly(self, entry: Entry, event_id: str | None, body: bytes, claims: bool) -> Appended:
        """An event whose id has to be claimed first, or whose body needs more than one message."""
        turns = self._slow[entry.life][0]
        try:
            whole = await turns.take(self._prepare(entry, event_id if claims else None, body))
        finally:
            turns, under_way = self._slow.pop(entry.life)
            if under_way > 1:
                self._slow[entry.life] = (turns, under_way - 1)
        future: Future[Appended] = asyncio.get_running_loop().create_future()
        self._send(entry, event_id, whole, future)
        return await future

    async def _prepare(self, entry: Entry, to_claim: str | None, body: bytes) -> bytes | Blob:
        if to_claim is not None:
            await self._ids.claim(entry, to_claim)
        return body if self._bodies.fits(body) else await self._bodies.store_blob(entry.life, body)

    # Creations and deletions of models. The log takes one only directly after the last one of the same name.

    def _is_due(self, event: LifecycleEvent, life: int) -> bool:
        """Whether there is no such model yet, or this life of it to delete."""
        entry = self._catalogue.get(event.model)
        return (
            entry is None if not isinstance(event, ModelDeleted) else entry is not None and entry.life == life
        )

    def _send_lifecycle_event(
        self, event: LifecycleEvent, whole: bytes | Blob, expected: int | None
    ) -> Future[Appended]:
        """`expected`: the number of the last creation or deletion of the name; None: as the catalogue knows it."""
        if expected is None or isinstance(event, ModelDeleted):
            expected = self._catalogue.last_lifecycle_seq(event.model)
        token, subject = self._bodies.new_token(), self._subjects.lifecycle_of(event.model)
        future: Future[Appended] = asyncio.get_running_loop().create_future()
        self._await(token, future, self._publisher.publish(subject, wrap(token, whole), expected=expected))
        return future

    async def _append_lifecycle_event(
        self, event: LifecycleEvent, life: int, body: bytes, attempt: Future[Appended] | None
    ) -> Appended:
        """Append a creation unless the model exists, or a deletion if this life of it does."""
        whole: bytes | Blob | None = body if self._bodies.fits(body) else None
        expected: int | None = None
        while True:
            if attempt is None:
                if not self._is_due(event, life):
                    entry = self._catalogue.get(event.model)
                    if entry is None or isinstance(event, ModelDeleted):
                        raise UnknownModel(MODEL_DELETED)
                    return Appended(entry.life, False)
                if whole is None:
                    whole = await self._bodies.store_blob(0, body)
                attempt = self._send_lifecycle_event(event, whole, expected)
            try:
                appended = await attempt
                if appended.is_new:
                    return appended
                expected = appended.seq  # another replica was first, and the catalogue knows of its event
            except JournalFull:
                if not isinstance(event, ModelDeleted) or not await self._reserved.release():
                    raise
            attempt = None

    # Answers

    def _await(self, token: bytes, future: Future[Appended], ack: Future[Ack]) -> None:
        self._awaited[token] = (future, monotonic())
        ack.add_done_callback(partial(self._acknowledged, token))

    def _acknowledged(self, token: bytes, ack: Future[Ack]) -> None:
        if token not in self._awaited:
            return  # the follower has brought it before its acknowledgement came
        error = ack.exception()
        if error is not None:
            self.failed(token, error)
            return
        seq, stored = ack.result()
        if seq <= self._position:
            self._resolve(seq, token, stored)
        else:
            heappush(self._ahead, (seq, token, stored))

    def awaits(self, token: bytes) -> bool:
        """Whether this replica has appended the event of this token."""
        return token in self._awaited

    def applied(self, token: bytes, seq: int, applied: Any) -> None:
        """The follower has applied the event of this token."""
        awaited = self._awaited.pop(token, None)
        if awaited is not None:
            future, began = awaited
            self.commits.observe(monotonic() - began)
            if not future.done():
                future.set_result(Appended(seq, True, applied))

    def rejected(self, token: bytes) -> None:
        """The follower has found that the event of this token came after its model was deleted."""
        self.failed(token, UnknownModel(MODEL_DELETED))

    def failed(self, token: bytes, error: BaseException) -> None:
        """The event of this token was not stored or cannot be applied."""
        awaited = self._awaited.pop(token, None)
        if awaited is not None:
            fail(awaited[0], error)

    def position_reached(self, seq: int) -> None:
        """The follower has come to this sequence number."""
        self._position = max(self._position, seq)
        while self._ahead and self._ahead[0][0] <= self._position:
            self._resolve(*heappop(self._ahead))

    def _resolve(self, seq: int, token: bytes, stored: bool) -> None:
        if stored:  # and yet the follower did not bring it: it was purged with its model
            self.rejected(token)
        elif (awaited := self._awaited.pop(token, None)) is not None and not awaited[0].done():
            awaited[0].set_result(Appended(seq, False))

    def fail_overdue(self) -> None:
        """Fail appends whose events are in the log but were not brought by the follower in time."""
        latest = monotonic() - 2 * self._seconds
        for _, token, _ in self._ahead:
            if token in self._awaited and self._awaited[token][1] < latest:
                self.failed(token, OutcomeUnknown("the event is recorded, but this replica lags behind"))
