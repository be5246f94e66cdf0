"""Holding a model up: whatever is to come for it waits until something is done that no event may come into."""

import asyncio

from service.engine.fleet.live import Live


class Hold:
    """While it is held, no event of a model is begun here and nothing is predicted by it, unless it is only read."""

    def __init__(self, live: Live, *, to_read: bool = False) -> None:
        self._live = live
        self._to_read = to_read

    async def __aenter__(self) -> None:
        await self._live.released()
        self._live.held = asyncio.get_running_loop().create_future()
        self._live.is_only_read = self._to_read

    async def __aexit__(self, *_: object) -> None:
        held, self._live.held = self._live.held, None
        assert held is not None
        held.set_result(None)


async def free_to_predict(live: Live) -> None:
    """Wait while a model is held, but not if it is only read."""
    while live.held is not None and not live.is_only_read:
        await asyncio.wait([live.held])
