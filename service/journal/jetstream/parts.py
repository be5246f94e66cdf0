"""Bodies of any size: cut into messages that the cluster takes, and joined again."""

import asyncio
from collections.abc import Callable

from service.journal.jetstream.link.api import Api
from service.journal.jetstream.link.publishing import Publisher

PART_BYTES = 524_288


class Parts:
    """Keeps bodies in a stream, a subject for each part."""

    def __init__(self, api: Api, publisher: Publisher, stream: str) -> None:
        self._api = api
        self._publisher = publisher
        self._stream = stream

    async def store(
        self, subject: Callable[[int], str], body: bytes, *, expected: int | None = None
    ) -> tuple[int, int]:
        """Store a body; how many parts it took, and the sequence number of the last one."""
        size = min(PART_BYTES, self._publisher.payload_bytes_max)
        starts = range(0, max(len(body), 1), size)
        seq = 0
        for part, start in enumerate(starts):
            piece = body[start : start + size]
            seq = (await self._publisher.publish(subject(part), piece, expected=expected)).seq
        return len(starts), seq

    async def load(self, subject: Callable[[int], str], parts: int) -> bytes | None:
        """The body; None if a part of it is missing."""
        found = await asyncio.gather(*(self._api.last(self._stream, subject(part)) for part in range(parts)))
        pieces = [message.data for message in found if message is not None]
        return b"".join(pieces) if len(pieces) == parts else None
