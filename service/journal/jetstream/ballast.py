"""Space reserved in the cluster, so that models can be deleted when its store is full.

A deletion is an event, and a full store takes none. So the store has one large message without meaning, the ballast.
It is purged to make room for a deletion, which then frees space itself, and stored again later.
"""

from service.journal.jetstream.link.api import Api
from service.journal.jetstream.link.publishing import Publisher
from service.journal.jetstream.subjects import Subjects

BALLAST_BYTES = 65_536


class Ballast:
    def __init__(self, api: Api, publisher: Publisher, subjects: Subjects) -> None:
        self._api = api
        self._publisher = publisher
        self._subjects = subjects
        self._is_there = False

    async def put(self) -> None:
        """Store the ballast, unless this replica knows that it is there."""
        if not self._is_there:
            size = min(BALLAST_BYTES, self._publisher.payload_bytes_max)
            await self._publisher.publish(self._subjects.ballast, bytes(size), expected=0)
            self._is_there = True

    async def release(self) -> bool:
        """Purge the ballast to make room; False if it was not there."""
        self._is_there = False
        return await self._api.purge(self._subjects.state, self._subjects.ballast) > 0
