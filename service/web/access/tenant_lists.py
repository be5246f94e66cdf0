"""Lists for people, kept apart like everything else of tenants: what waits for a label, and what needs a look."""

from service.engine.fleet.attention import Attention, Noticed
from service.engine.rounds.pending_list import Order, Place, WaitingList, WaitingPage
from service.web.access.callers import check_known, prefix


class TenantWaitingList:
    """Predictions of the caller's models that wait."""

    def __init__(self, waiting_list: WaitingList) -> None:
        self._waiting_list = waiting_list

    async def page(self, name: str, order: Order, after: Place | None, limit: int) -> WaitingPage:
        """Their ids are as they are stored; `public_id` makes them the caller's."""
        check_known(name)
        return await self._waiting_list.page(name, order, after, limit)


class TenantAttention:
    """Which of the caller's models need a look."""

    def __init__(self, attention: Attention) -> None:
        self._attention = attention

    async def find(self, now: int) -> list[Noticed]:
        return await self._attention.find(prefix(), now)
