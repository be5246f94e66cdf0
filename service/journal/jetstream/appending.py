"""Appending events to the log. An append is answered when this replica's own follower has applied the event.

The order of the log decides, so an event is not applied when it is sent but when the follower brings it back; it is
recognised by its token. If the log refuses an event as a repetition, the append is answered when the follower has come
to the event that was there before.
"""

import asyncio
from asyncio import Future, Task
from collections.abc import Coroutine
from functools import partial
from heapq import heappop, heappush
from time import monotonic
from typing import Any

from service.errors import JournalFull, ModelUnreadable, OutcomeUnknown, UnknownModel
from service.events import AnyEvent, ModelCreated, ModelDeleted, ModelImported, RoundLearned
from service.journal.codec import encode
from service.journal.jetstream.ballast import Ballast
from service.journal.jetstream.bodies import Bodies
from service.journal.jetstream.catalogue.catalogue import Catalogue, Entry
from service.journal.jetstream.chains import Chains
from service.journal.jetstream.link.publishing import Ack, Publisher
from service.journal.jetstream.messages import Blob, wrap
from service.journal.jetstream.ordered_work import OrderedWork
from service.journal.jetstream.predictions.ids import Ids
from service.journal.jetstream.subjects import Subjects
from service.journal.protocol import NEW_LIFE, Appended
from service.runtime.timings import Timings

LifecycleEvent = ModelCreated | ModelImported | ModelDeleted
MODEL_DELETED = "the model was deleted"


class Appender:
    """Appends events. The follower calls `applied`, `rejected` and `position_reached` as it goes through the log."""

    def __init__(
        self,
        publisher: Publisher,
        subjects: Subjects,
        catalogue: Catalogue,
        chains: Chains,
        ids: Ids,
        bodies: Bodies,
        ballast: Ballast,
        *,
        seconds: float,
    ) -> None:
        self._publisher = publisher
        self._chains = chains
        self._subjects = subjects
        self._catalogue = catalogue
        self._ids = ids
        self._bodies = bodies
        self._ballast = ballast
        self._seconds = seconds
        self._position = 0
        self._awaited: dict[bytes, tuple[Future[Appended], float]] = {}
        """By token: the future to answer, and when the event was sent."""
        self._ahead: list[tuple[int, bytes, bool]] = []
        """A heap of acknowledged events that the follower has not come to yet: sequence number, token, whether new."""
        self._creating: dict[str, Future[Appended]] = {}
        self._tasks: set[Task[None]] = set()
        self._slow: dict[int, tuple[OrderedWork, int]] = {}
        """By life, the events that need more than one message, and how many of them are under way."""
        self.commits = Timings()

    def append(self, event: AnyEvent, life: int, future: Future[Appended]) -> None:
        """Append an event; the future is done when this replica has applied it, or knows why not."""
        entry = self._catalogue.get_life(life)
        if isinstance(event, ModelCreated | ModelImported):
            self._append_creation(event, future)
        elif entry is None:
            future.set_exception(UnknownModel(MODEL_DELETED))
        elif isinstance(event, ModelDeleted):
            self._try_lifecycle_event(event, life, encode(event), future, None)
        else:
            body = encode(event)
            event_id: str | None = getattr(event, "prediction_id", None) or None
            claims = isinstance(event, RoundLearned) and event_id is not None
            # Later events of the model wait for a slow one, so that they keep their order.
            if claims or entry.life in self._slow or not self._bodies.fits(body):
                turns, under_way = self._slow.get(entry.life, (OrderedWork(), 0))
                self._slow[entry.life] = (turns, under_way + 1)
                self._spawn(self._append_slowly(entry, event_id, body, claims, future), future)
            else:
                self._send(entry, event_id, body, future)

    async def settle(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)

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

    async def _append_slowly(
        self, entry: Entry, event_id: str | None, body: bytes, claims: bool, future: Future[Appended]
    ) -> None:
        """An event whose id has to be claimed first, or whose body needs more than one message."""
        turns = self._slow[entry.life][0]
        try:
            whole = await turns.take(self._prepare(entry, event_id if claims else None, body))
        finally:
            turns, under_way = self._slow.pop(entry.life)
            if under_way > 1:
                self._slow[entry.life] = (turns, under_way - 1)
        self._send(entry, event_id, whole, future)

    async def _prepare(self, entry: Entry, to_claim: str | None, body: bytes) -> bytes | Blob:
        if to_claim is not None:
            await self._ids.claim(entry, to_claim)
        return body if self._bodies.fits(body) else await self._bodies.store_blob(entry.life, body)

    # Creations and deletions of models. The log takes one only directly after the last one of the same name.

    def _append_creation(self, event: ModelCreated | ModelImported, future: Future[Appended]) -> None:
        """Append the first event of a model; a second creation under the same name waits for the first."""
        first = self._creating.get(event.model)
        if first is not None:
            self._spawn(self._append_after(first, event, future), future)
            return
        self._creating[event.model] = future
        future.add_done_callback(lambda _: self._creating.pop(event.model, None))
        self._try_lifecycle_event(event, NEW_LIFE, encode(event), future, None)

    async def _append_after(
        self, first: Future[Appended], event: ModelCreated | ModelImported, future: Future[Appended]
    ) -> None:
        await asyncio.wait([first])
        self._append_creation(event, future)

    def _try_lifecycle_event(
        self, event: LifecycleEvent, life: int, body: bytes, future: Future[Appended], expected: int | None
    ) -> None:
        """Append a creation unless the model exists, or a deletion if this life of it does.

        `expected` is the sequence number that the last creation or deletion of the name must have.
        """
        entry = self._catalogue.get(event.model)
        if isinstance(event, ModelDeleted):
            if entry is None or entry.life != life:
                future.set_exception(UnknownModel(MODEL_DELETED))
                return
        elif entry is not None:
            future.set_result(Appended(entry.life, False))
            return
        if expected is None or entry is not None:
            expected = self._catalogue.last_lifecycle_seq(event.model)
        if self._bodies.fits(body):
            self._send_lifecycle_event(event, life, body, body, future, expected)
        else:
            self._spawn(self._send_large_creation(event, life, body, future, expected), future)

    async def _send_large_creation(
        self, event: LifecycleEvent, life: int, body: bytes, future: Future[Appended], expected: int
    ) -> None:
        whole = await self._bodies.store_blob(0, body)
        self._send_lifecycle_event(event, life, body, whole, future, expected)

    def _send_lifecycle_event(
        self,
        event: LifecycleEvent,
        life: int,
        body: bytes,
        whole: bytes | Blob,
        future: Future[Appended],
        expected: int,
    ) -> None:
        token = self._bodies.new_token()
        subject = self._subjects.lifecycle_of(event.model)
        ack = self._publisher.publish(subject, wrap(token, whole), expected=expected)
        attempt: Future[Appended] = asyncio.get_running_loop().create_future()
        attempt.add_done_callback(partial(self._lifecycle_event_answered, event, life, body, future))
        self._await(token, attempt, ack)

    def _lifecycle_event_answered(
        self,
        event: LifecycleEvent,
        life: int,
        body: bytes,
        future: Future[Appended],
        attempt: Future[Appended],
    ) -> None:
        if future.done():
            return
        error = attempt.exception()
        if isinstance(error, JournalFull) and isinstance(event, ModelDeleted):
            self._spawn(self._delete_when_full(event, life, body, future, error), future)
        elif error is not None:
            future.set_exception(error)
        elif attempt.result().is_new:
            future.set_result(attempt.result())
        else:  # another replica was first, and the catalogue knows of its event by now: decide again
            self._try_lifecycle_event(event, life, body, future, attempt.result().seq)

    async def _delete_when_full(
        self, event: LifecycleEvent, life: int, body: bytes, future: Future[Appended], error: JournalFull
    ) -> None:
        if not await self._ballast.release():
            raise error
        self._try_lifecycle_event(event, life, body, future, None)

    # Answers

    def _await(self, token: bytes, future: Future[Appended], ack: Future[Ack]) -> None:
        self._awaited[token] = (future, monotonic())
        ack.add_done_callback(partial(self._acknowledged, token))

    def _acknowledged(self, token: bytes, ack: Future[Ack]) -> None:
        if token not in self._awaited:
            return  # the follower has brought it before its acknowledgement came
        error = ack.exception()
        if error is not None:
            self._fail(token, error)
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
        if token in self._awaited:
            self._fail(token, UnknownModel(MODEL_DELETED))

    def failed(self, token: bytes, error: ModelUnreadable) -> None:
        """The event of this token is in the log, but cannot be applied."""
        if token in self._awaited:
            self._fail(token, error)

    def position_reached(self, seq: int) -> None:
        """The follower has come to this sequence number."""
        self._position = max(self._position, seq)
        while self._ahead and self._ahead[0][0] <= self._position:
            self._resolve(*heappop(self._ahead))

    def _resolve(self, seq: int, token: bytes, stored: bool) -> None:
        awaited = self._awaited.get(token)
        if awaited is None:
            return
        if stored:  # and yet the follower did not bring it: it was purged with its model
            self._fail(token, UnknownModel(MODEL_DELETED))
        else:
            del self._awaited[token]
            if not awaited[0].done():
                awaited[0].set_result(Appended(seq, False))

    def fail_overdue(self) -> None:
        """Fail appends whose events are in the log but were not brought by the follower in time."""
        latest = monotonic() - 2 * self._seconds
        for _, token, _ in self._ahead:
            if token in self._awaited and self._awaited[token][1] < latest:
                self._fail(token, OutcomeUnknown("the event is recorded, but this replica lags behind"))

    def _fail(self, token: bytes, error: BaseException) -> None:
        future, _ = self._awaited.pop(token)
        if not future.done():
            future.set_exception(error)
            future.exception()  # marks it as seen: if nobody waits for it, asyncio would log it

    def _spawn(self, work: Coroutine[Any, Any, None], future: Future[Appended]) -> None:
        async def run() -> None:
            try:
                await work
            except Exception as error:  # of whatever kind: somebody waits for the future
                if not future.done():
                    future.set_exception(error)
                    future.exception()

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
