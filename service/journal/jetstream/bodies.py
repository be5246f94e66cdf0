"""Bodies of events: in their message of the log or, if they are too large for it, as a blob in the state stream."""

import asyncio
import itertools
import logging
import os
from functools import partial
from typing import NamedTuple

from service.errors import NovikoffError
from service.events import AnyEvent
from service.journal.jetstream.link.api import Message
from service.journal.jetstream.link.publishing import Publisher
from service.journal.jetstream.messages import (
    TOKEN_BYTES,
    Blob,
    Link,
    Unreadable,
    decode_event,
    unwrap,
)
from service.journal.jetstream.parts import Parts
from service.journal.jetstream.subjects import Subjects
from service.runtime.logs import LogLimiter

log = logging.getLogger(__name__)

_COUNT_BYTES = 6
RETRY_SECONDS = 0.1
LOG_EVERY_SECONDS = 10.0


class Opened(NamedTuple):
    """A message of the log, decoded."""

    token: bytes
    """By which the replica that appended the event recognises it."""
    event: AnyEvent
    blob: Blob | None
    """Where its body was, if not in the message."""
    link: Link
    """What the replica that appended it had applied of its model."""


class Bodies:
    """Encodes events into messages and decodes them."""

    def __init__(self, publisher: Publisher, parts: Parts, subjects: Subjects) -> None:
        self._publisher = publisher
        self._parts = parts
        self._subjects = subjects
        self._writer = os.urandom(TOKEN_BYTES - _COUNT_BYTES)
        self._numbers = itertools.count()
        self._log_limit = LogLimiter(LOG_EVERY_SECONDS)

    def new_token(self) -> bytes:
        return self._writer + next(self._numbers).to_bytes(_COUNT_BYTES, "big")

    def fits(self, body: bytes) -> bool:
        return len(body) <= self._publisher.payload_bytes_max

    async def store_blob(self, life: int, body: bytes) -> Blob:
        name = os.urandom(12).hex()
        parts, _ = await self._parts.store(partial(self._subjects.blob, life, name), body)
        return Blob(life, name, parts)

    async def open(self, message: Message) -> Opened | None:
        """The event of a message; None if its blob was purged with its model."""
        token, body, link = unwrap(message.data)
        if isinstance(body, bytes):
            return Opened(token, decode_event(body), None, link)
        found = await self._parts.load(partial(self._subjects.blob, body.life, body.name), body.parts)
        return Opened(token, decode_event(found), body, link) if found is not None else None

    async def open_with_retries(self, message: Message) -> Opened | None:
        """The same, repeated until the cluster answers: no event may be left out. Unreadable if it is damaged."""
        while True:
            try:
                return await self.open(message)
            except Unreadable:
                raise
            except NovikoffError as error:
                if (held_back := self._log_limit.turn()) is not None:
                    fields = {"others": held_back}
                    log.warning("an event waits for its body: %s", error.detail, extra=fields)
            await asyncio.sleep(RETRY_SECONDS)
