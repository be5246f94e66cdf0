"""The servers' own files by which they replicate a stream, and how they are made to let go of what was deleted.

A server that keeps a stream together with others writes each message to a log of its own first, which it cuts off
when it comes to COMPACTED_BYTES: up to the last message, but whole blocks only. Else it cuts it off every two or three
minutes, if anything was written meanwhile. So enough is written for it to be cut off twice: messages without meaning.
"""

import asyncio
import os
import time
from time import monotonic
from typing import Any

from service.errors import JournalUnavailable
from service.events import ModelRolledBack
from service.journal import codec
from service.journal.jetstream.link.api import Api
from service.journal.jetstream.link.publishing import Publisher
from service.journal.jetstream.messages import TOKEN_BYTES, KnownId, encode, wrap
from service.journal.jetstream.parts import PART_BYTES
from service.journal.jetstream.subjects import Subjects

COMPACTED_BYTES = 8 * 1_048_576
"""`compactSizeMin` of nats-server."""

FILLED_BYTES = 5 * COMPACTED_BYTES // 2
"""Twice, and half as much again since a log is cut off in blocks."""

AWAY_SECONDS = 10.0
"""How long a server may lag behind until the forgetting is put off."""

LOOK_AGAIN_SECONDS = 0.1


class Files:
    """Lets the servers' files have no more than what the streams have."""

    def __init__(self, api: Api, publisher: Publisher, subjects: Subjects) -> None:
        self._api = api
        self._publisher = publisher
        self._subjects = subjects

    async def check_all_there(self) -> None:
        """JournalUnavailable if a server is away or lags behind: it would not overwrite what is deleted meanwhile."""
        for stream in self._subjects.filling:
            await self._servers_of(stream)

    async def let_go(self, *streams: str) -> None:
        """Make the servers let go of what was deleted of streams; JournalUnavailable if one of them is away."""
        for stream in streams:
            if await self._servers_of(stream):
                await self._fill(stream)
                # The others learn that the purge at its end counts by what comes after it.
                await self._fill(stream, 1)
                await self._servers_of(stream)
            elif stream == self._subjects.ids:
                # The file that is being written is closed by it, and goes when all ids in it are too old.
                await self._fill(stream)

    async def _fill(self, stream: str, size: int = FILLED_BYTES) -> None:
        """Write so much to a stream, and remove it."""
        subject = self._subjects.filling[stream]
        piece = min(size, PART_BYTES, self._publisher.payload_bytes_max // 2)
        try:
            for _ in range(-(-size // piece)):
                await self._publisher.publish(subject, self._filling(stream, os.urandom(piece)))
        finally:
            await self._api.purge(stream, subject)

    def _filling(self, stream: str, random: bytes) -> bytes:
        """A message without meaning that everybody can read: of a model that is not there."""
        if stream == self._subjects.log:
            event = ModelRolledBack("", time.time_ns() // 1000, 0, random)
            return wrap(os.urandom(TOKEN_BYTES), codec.encode(event))
        return encode(KnownId(0, None, random)) if stream == self._subjects.ids else random

    async def _servers_of(self, stream: str) -> int:
        """How many other servers keep a stream, all of which have come as far as the one that leads."""
        deadline = monotonic() + AWAY_SECONDS
        while True:
            cluster = (await self._api.request(f"STREAM.INFO.{stream}")).get("cluster") or {}
            others: list[dict[str, Any]] = cluster.get("replicas") or []
            behind = [each["name"] for each in others if not _is_current(each)]
            if not behind:
                return len(others)
            if monotonic() > deadline:
                raise JournalUnavailable(
                    f"the server {behind[0]} is away, and cannot forget: it is waited for"
                )
            await asyncio.sleep(LOOK_AGAIN_SECONDS)


def _is_current(server: dict[str, Any]) -> bool:
    return bool(server.get("current")) and not server.get("offline") and not server.get("lag")
