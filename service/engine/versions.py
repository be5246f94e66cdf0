"""Waiting until a model has come to a version: what another replica has learned arrives a little later."""

import asyncio
from asyncio import Future

WAIT_SECONDS = 5.0


class Versions:
    """Wakes those who wait for a model to change."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Future[None]]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._waiting

    def changed(self, name: str) -> None:
        for future in self._waiting.pop(name, ()):
            if not future.done():
                future.set_result(None)

    async def next_change(self, name: str, seconds: float) -> None:
        """Wait until a model changes; TimeoutError if it does not."""
        future: Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, []).append(future)
        try:
            await asyncio.wait_for(future, seconds)
        finally:
            waiting = self._waiting.get(name, [])
            if future in waiting:
                waiting.remove(future)
            if not waiting:
                self._waiting.pop(name, None)
