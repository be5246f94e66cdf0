"""Concurrent work whose results come in the order in which it was started."""

import asyncio
from asyncio import Future
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class OrderedWork:
    """`take` calls run at the same time and return in the order of the calls, so that requests keep their order."""

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
