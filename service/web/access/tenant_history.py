"""The past of models for a caller whose key is restricted to a prefix; see `tenants.py`."""

from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from service.engine.fleet.live import Live
from service.engine.models.model import Model
from service.engine.replay.past import Past
from service.engine.replay.record import PastRound, Record, Wanted
from service.engine.replay.rollbacks import GoingBack
from service.web.access.callers import check_known, check_own

T = TypeVar("T")


class TenantHistory:
    """What the caller's models were."""

    def __init__(self, past: Past, going_back: GoingBack, record: Record) -> None:
        self._past = past
        self._going_back = going_back
        self._record = record

    async def at(self, name: str, version: int) -> Model:
        check_known(name)
        return await self._past.at(name, version)

    async def read(
        self, name: str, version: int | None, read: Callable[[Model], T], first: Callable[[Model], None]
    ) -> T:
        check_known(name)
        return await self._past.read(name, version, read, first=first)

    async def rollback(self, name: str, to: int) -> Live:
        check_known(name)
        return await self._going_back.rollback(name, to)

    async def fork(self, name: str, new: str, at: int | None) -> Live:
        check_known(name)
        check_own(new)
        return await self._going_back.fork(name, new, at)

    async def rounds(self, name: str, wanted: Wanted) -> tuple[Model, AsyncIterator[list[PastRound]]]:
        """Their ids are as they are stored; `public_id` makes them the caller's."""
        check_known(name)
        return await self._record.rounds(name, wanted)
