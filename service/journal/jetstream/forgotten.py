"""What stands in the places of events that were forgotten.

A message cannot be replaced under its number. So events that were forgotten are deleted, and a list in the state
stream has what stands in their places: empty events, which keep their versions and nothing else. A model's pointer
names its list, so all of them are replaced at once, before the first is deleted.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec.structs import replace

from service.errors import JournalUnavailable
from service.events import PredictionVoided, RoundErased
from service.journal import codec
from service.journal.jetstream.link.api import Api, Message
from service.journal.jetstream.link.publishing import Publisher
from service.journal.jetstream.messages import (
    DIGEST_BYTES,
    TOKEN_BYTES,
    KeptErased,
    Pointer,
    Unreadable,
    decode_erased,
    decode_event,
    encode,
    wrap,
)
from service.journal.jetstream.parts import Parts
from service.journal.jetstream.predictions.waiting import Waiting
from service.journal.jetstream.subjects import Subjects

CACHED_MAX = 16
RETRY_SECONDS = 0.1

log = logging.getLogger(__name__)


class Replaced(JournalUnavailable):
    """A list is no longer there, since the model's pointer names another one."""


class Forgotten:
    """Stores and finds the lists: for each event its number, and the body of what stands in its place."""

    def __init__(
        self,
        api: Api,
        publisher: Publisher,
        subjects: Subjects,
        waiting: Waiting,
        pointer: Callable[[int], Awaitable[tuple[Pointer, int]]],
    ) -> None:
        self._api = api
        self._parts = Parts(api, publisher, subjects.state)
        self._subjects = subjects
        self._waiting = waiting
        self._pointer = pointer
        self._cached: OrderedDict[str, dict[int, bytes]] = OrderedDict()

    async def store(self, life: int, revision: int, events: dict[int, bytes], until: int) -> KeptErased:
        """Store a list, to be named by the revision of the model's pointer after this one."""
        edition, first, last = self._subjects.edition(revision), min(events), max(events)
        subject = partial(self._subjects.erased, life, first, last, edition)
        parts, _ = await self._parts.store(subject, encode(events))
        return KeptErased(edition, first, last, parts, until)

    async def of(self, life: int, pointer: Pointer) -> dict[int, bytes]:
        """The list that a model's pointer names; Replaced if it names another one by now."""
        kept = pointer.erased
        if kept is None:
            return {}
        subject = partial(self._subjects.erased, life, kept.first, kept.last, kept.edition)
        cached = self._cached.get(subject(0))
        if cached is None:
            found = await self._parts.load(subject, kept.parts)
            if found is None:
                raise Replaced("what was forgotten is just being written anew")
            cached = self._cached[subject(0)] = decode_erased(found)
            if len(self._cached) > CACHED_MAX:
                self._cached.popitem(last=False)
        return cached

    def with_digest(self, seq: int, body: bytes, message_digest: bytes) -> bytes:
        """What the list has of an event: the body that stands in its place, and the digest that its message had."""
        return body + (message_digest or bytes(DIGEST_BYTES)) if seq > self._unsealed else body

    def parts_of(self, seq: int, listed: bytes) -> tuple[bytes, bytes]:
        """The body and the digest again; no digest of an event that had none."""
        is_sealed = seq > self._unsealed
        return (listed[:-DIGEST_BYTES], listed[-DIGEST_BYTES:]) if is_sealed else (listed, b"")

    @property
    def _unsealed(self) -> int:
        return self._api.unsealed_through[self._subjects.log]

    async def between(self, after: int, before: int) -> list[Message]:
        """What stands in the places of events between these two, as messages for a replica that follows the log.

        They tell which predictions wait no longer that wait here. It is asked for until the cluster answers, since no
        event may be left out.
        """
        while True:
            try:
                return await self._between(after, before)
            except Unreadable:
                raise
            except JournalUnavailable as error:
                log.debug("nats: what was forgotten is asked for again: %s", error)
            await asyncio.sleep(RETRY_SECONDS)

    async def _between(self, after: int, before: int) -> list[Message]:
        s = self._subjects
        found: list[Message] = []
        lives: set[int] = set()
        for subject in await self._api.subjects(s.state, s.erased_of(None)):
            life, first, last = s.erased_in(subject)
            if first < before and last > after:
                lives.add(life)
        for life in lives:
            pointer, _ = await self._pointer(life)
            missed = {
                seq: body for seq, body in (await self.of(life, pointer)).items() if after < seq < before
            }
            gone = await self._waiting.forgotten(life) if missed else []
            for seq, listed in missed.items():
                body, message_digest = self.parts_of(seq, listed)
                event = decode_event(body)
                if gone and isinstance(event, RoundErased | PredictionVoided):
                    body = codec.encode(replace(event, prediction_id=gone.pop()))
                data = wrap(bytes(TOKEN_BYTES), body)
                found.append(Message(s.event(life, event.model, None), seq, data, message_digest))
        return sorted(found, key=lambda message: message.seq)
