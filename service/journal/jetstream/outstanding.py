"""The journal's queue: what is under way to the cluster, and in which order it is done."""

import asyncio
from asyncio import Future, Task
from collections import OrderedDict
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from service.errors import Overloaded

T = TypeVar("T")


class Outstanding:
    """Records that were handed over and have neither been stored nor failed yet; at most `records_max`."""

    def __init__(self, records_max: int) -> None:
        self._records_max = records_max
        self._under_way: OrderedDict[int, Future[Any]] = OrderedDict()
        self._tasks: set[Task[None]] = set()
        self.submitted = 0

    def __len__(self) -> int:
        return len(self._under_way)

    def check_room(self) -> None:
        if len(self._under_way) >= self._records_max:
            raise Overloaded(f"{len(self._under_way)} events are queued for the journal; try again later")

    def add(self, future: Future[T]) -> Future[T]:
        self.submitted += 1
        number = self.submitted
        if not future.done():
            self._under_way[number] = future
            future.add_done_callback(lambda _: self._under_way.pop(number, None))
        return future

    def spawn(self, work: Coroutine[Any, Any, T], future: Future[T]) -> None:
        """Do the work in a task of its own, which goes on though nobody waits for the future any more."""

        async def run() -> None:
            try:
                done = await work
                if not future.done():
                    future.set_result(done)
            except Exception as error:  # of whatever kind: somebody waits for the future
                fail(future, error)

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def finished(self) -> int:
        """How many records, counted from the first without a gap, are stored or have failed."""
        return next(iter(self._under_way), self.submitted + 1) - 1

    async def settle(self, seconds: float | None = None) -> None:
        """Wait for all records that are under way now, for at most `seconds`."""
        if self._under_way:
            await asyncio.wait(list(self._under_way.values()), timeout=seconds)


def fail(future: Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # marks it as seen: if nobody waits for it, asyncio would log it


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
