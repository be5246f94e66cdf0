"""Ids that clients chose themselves: one request at a time works with each."""

import asyncio
from asyncio import Future
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

NOBODY_ELSE = nullcontext()


class ChosenIds:
    """A lock for each id that is in use just now.

    What an id stands for is looked up before a model is loaded or the journal has answered, and used after
    that. Without the lock a second request with the same id could come in between, and both would count.
    """

    def __init__(self) -> None:
        self._held: dict[str, Future[None]] = {}

    def hold(self, prediction_id: str | None) -> AbstractAsyncContextManager[None]:
        """Have an id for oneself; who comes later waits. Without an id there is nothing to wait for."""
        return NOBODY_ELSE if prediction_id is None else self._hold(prediction_id)

    @asynccontextmanager
    async def _hold(self, prediction_id: str) -> AsyncIterator[None]:
        await self.wait(prediction_id)
        released = self._held[prediction_id] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del self._held[prediction_id]
            released.set_result(None)

    async def wait(self, prediction_id: str) -> None:
        """Wait until nobody has the id."""
        while (released := self._held.get(prediction_id)) is not None:
            await asyncio.wait([released])  # whoever gives up waiting must not cancel it for the others
