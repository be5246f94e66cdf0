"""The streams of a service, as the parts of a journal share them: who is asked, who writes, how subjects are called."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from service.journal.codec import StateBytes, cut
from service.journal.jetstream.link.api import Api
from service.journal.jetstream.link.connecting import Access
from service.journal.jetstream.link.publishing import Ack, Publisher
from service.journal.jetstream.subjects import Subjects

PART_BYTES = 524_288

PartSubject = Callable[[int], str]
"""The subject of each part of a body, from 0 on."""


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of a journal on a cluster.

    Every replica has to have the same ones, but for `seconds` and `queue_events_max`.
    """

    access: Access
    prefix: str
    """Of the names of streams and subjects, so that several services can share a cluster."""
    replicas: int
    """How many servers keep each stream."""
    monitors: tuple[str, ...]
    """The monitoring addresses of the servers, to check that they sync every write; empty: not checked."""
    seconds: float
    """How long the cluster may take to store an event."""
    queue_events_max: int
    events_kept_max: int
    """How many events of a model are kept at least; older ones are trimmed."""
    events_kept_seconds: float
    """Events younger than this are never trimmed."""
    ids_kept_seconds: float
    """How long a prediction id is remembered."""
    history_bytes_max: int = 0
    """What the snapshots of a model may take together that are kept for its older versions."""


@dataclass(frozen=True, slots=True)
class Streams:
    """Bodies of any size are kept in the state stream, cut into parts that the cluster takes as messages."""

    api: Api
    publisher: Publisher
    subjects: Subjects
    options: Options

    async def store(
        self, subject: PartSubject, body: StateBytes, *, keep_first: bool = False
    ) -> tuple[int, int]:
        """Store a body; how many parts it took, and the sequence number of the last one.

        `keep_first`: if there is another one under these subjects, that stays.
        """
        size = min(PART_BYTES, self.publisher.payload_bytes_max)
        parts = seq = 0
        for piece in cut(body, size):
            seq = (await self._store_part(subject(parts), piece, keep_first=keep_first)).seq
            parts += 1
        return parts, seq

    async def _store_part(self, subject: str, piece: bytes, *, keep_first: bool) -> Ack:
        """Store a part, but never by replacing another: what is replaced stays in the servers' files."""
        while True:
            ack = await self.publisher.publish(subject, piece, expected=0)
            if ack.stored or keep_first:
                return ack
            found = await self.api.last_from_leader(self.subjects.state, subject)
            if found is not None and found.data == piece:
                return Ack(found.seq, False)
            if found is not None:
                await self.api.overwrite(self.subjects.state, found.seq)

    async def load(self, subject: PartSubject, parts: int) -> bytes | None:
        """The body; None if a part of it is missing."""
        state = self.subjects.state
        found = await asyncio.gather(*(self.api.last(state, subject(part)) for part in range(parts)))
        pieces = [message.data for message in found if message is not None]
        return b"".join(pieces) if len(pieces) == parts else None
