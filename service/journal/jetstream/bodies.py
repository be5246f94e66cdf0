"""Events as the log has them: in their message or, if they are too large for one, beside it."""

import itertools
import os
from functools import partial
from typing import NamedTuple

from service.events import AnyEvent
from service.journal.jetstream.api import Message
from service.journal.jetstream.messages import TOKEN_BYTES, Blob, decode_event, seal, unseal
from service.journal.jetstream.parts import Parts
from service.journal.jetstream.publishing import Publisher
from service.journal.jetstream.subjects import Subjects

_COUNT_BYTES = 6


class Opened(NamedTuple):
    """An event, its writer's token, and where its body was if not in its message."""

    token: bytes
    event: AnyEvent
    blob: Blob | None


class Bodies:
    """Puts events into messages and takes them out."""

    def __init__(self, publisher: Publisher, parts: Parts, subjects: Subjects) -> None:
        self._publisher = publisher
        self._parts = parts
        self._subjects = subjects
        self._writer = os.urandom(TOKEN_BYTES - _COUNT_BYTES)
        self._numbers = itertools.count()

    def new_token(self) -> bytes:
        return self._writer + next(self._numbers).to_bytes(_COUNT_BYTES, "big")

    def fits(self, body: bytes) -> bool:
        return len(body) <= self._publisher.payload_bytes_max

    async def put_beside(self, life: int, body: bytes) -> Blob:
        name = os.urandom(12).hex()
        parts, _ = await self._parts.store(partial(self._subjects.blob, life, name), body)
        return Blob(life, name, parts)

    @staticmethod
    def seal(token: bytes, body: bytes | Blob) -> bytes:
        return seal(token, body)

    async def open(self, message: Message) -> Opened | None:
        """The event of a message; None if its body went with its model."""
        token, body = unseal(message.data)
        if isinstance(body, bytes):
            return Opened(token, decode_event(body), None)
        found = await self._parts.load(partial(self._subjects.blob, body.life, body.name), body.parts)
        return Opened(token, decode_event(found), body) if found is not None else None
