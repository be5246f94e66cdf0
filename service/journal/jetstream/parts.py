"""Bodies of any size: cut into messages that the cluster takes, and joined again."""

import asyncio
from collections.abc import Callable

from service.journal.jetstream.link.api import Api
from service.journal.jetstream.link.publishing import Ack, Publisher
from service.journal.pieces import Pieces, cut

PART_BYTES = 524_288


class Parts:
    """Keeps bodies in a stream, a subject for each part."""

    def __init__(self, api: Api, publisher: Publisher, stream: str) -> None:
        self._api = api
        self._publisher = publisher
        self._stream = stream

    async def store(
        self, subject: Callable[[int], str], body: bytes | Pieces, *, keep_first: bool = False
    ) -> tuple[int, int]:
        """Store a body; how many parts it took, and the sequence number of the last one.

        `keep_first`: if there is another one under these subjects, that stays.
        """
        size = min(PART_BYTES, self._publisher.payload_bytes_max)
        parts = seq = 0
        for piece in cut(body, size):
            seq = (await self._store_part(subject(parts), piece, keep_first=keep_first)).seq
            parts += 1
        return parts, seq

    async def _store_part(self, subject: str, piece: bytes, *, keep_first: bool) -> Ack:
        """Store a part, but never by replacing another: what is replaced stays in the servers' files."""
        while True:
            ack = await self._publisher.publish(subject, piece, expected=0)
            if ack.stored or keep_first:
                return ack
            found = await self._api.last_from_leader(self._stream, subject)
            if found is not None and found.data == piece:
                return Ack(found.seq, False)
            if found is not None:
                await self._api.overwrite(self._stream, found.seq)

    async def load(self, subject: Callable[[int], str], parts: int) -> bytes | None:
        """The body; None if a part of it is missing."""
        found = await asyncio.gather(*(self._api.last(self._stream, subject(part)) for part in range(parts)))
        pieces = [message.data for message in found if message is not None]
        return b"".join(pieces) if len(pieces) == parts else None
