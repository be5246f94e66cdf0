"""Room that is set aside in the cluster, so that models can be deleted when its store is full.

A delete is an event like any other, and a full store takes none. So there is one message that means nothing: it
is given up for the sake of a delete, which then makes room by itself, and put back later.
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
        """Have it there, unless this replica knows that it is."""
        if not self._is_there:
            size = min(BALLAST_BYTES, self._publisher.payload_bytes_max)
            await self._publisher.publish(self._subjects.ballast, bytes(size), expected=0)
            self._is_there = True

    async def give_up(self) -> bool:
        """Make room; False if there was none to be made."""
        self._is_there = False
        return await self._api.purge(self._subjects.state, self._subjects.ballast) > 0
