"""Work that is done at the same time and finished in its order."""

import asyncio
from asyncio import Future
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class OrderedWork:
    """Whoever comes first is done first, so that requests that wait for the cluster keep their order."""

    def __init__(self) -> None:
        self._last: Future[None] | None = None

    async def take(self, work: Awaitable[T]) -> T:
        before = self._last
        mine = self._last = asyncio.get_running_loop().create_future()
        try:
            try:
                return await work
            finally:
                if before is not None and not before.done():
                    await asyncio.wait([before])
        finally:
            mine.set_result(None)
            if self._last is mine:
                self._last = None
