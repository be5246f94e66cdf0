"""Group commit: one thread that makes whatever has gathered durable in one go.

While one group is on its way to the disk the next one gathers, so groups grow with the load by
themselves: a lone client waits for one commit, fifty share one.
"""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable
from time import perf_counter
from typing import Generic, TypeVar

from service.errors import Overloaded
from service.timings import Timings

Item = TypeVar("Item")
Result = TypeVar("Result")

log = logging.getLogger(__name__)

GROUP_MAX = 2_000
"""The most items in one commit, so that no client waits behind an endless group."""


class GroupCommit(Generic[Item, Result]):
    """Hands groups of items to `commit` in a thread of its own, and the results to `done` on the loop.

    `commit` returns one result an item, or raises, and then nothing of the group happened. Groups and
    the items in them keep the order in which they were submitted.
    """

    def __init__(
        self,
        commit: Callable[[list[Item]], list[Result]],
        done: Callable[[list[Item], list[Result] | Exception], None],
        *,
        queue_max: int,
    ) -> None:
        self._commit = commit
        self._done = done
        self._queue_max = queue_max
        self._queue: queue.SimpleQueue[Item | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="journal-writer", daemon=True)
        self._stopped = self._loop.create_future()
        self.waiting = 0
        self.commits = Timings()

    def start(self) -> None:
        self._thread.start()

    def submit(self, item: Item) -> None:
        """Queue an item; Overloaded, and nothing queued, when the queue is full."""
        if self.waiting >= self._queue_max:
            raise Overloaded(f"{self.waiting} events wait for the journal; try again later")
        self.waiting += 1
        self._queue.put(item)

    async def stop(self) -> None:
        """Commit what is queued, then end the thread."""
        self._queue.put(None)
        await self._stopped
        self._thread.join()

    def _run(self) -> None:
        running = True
        while running:
            group, running = self._gather()
            if group:
                self._loop.call_soon_threadsafe(self._finish, group, self._attempt(group))
        self._loop.call_soon_threadsafe(self._stopped.set_result, None)

    def _gather(self) -> tuple[list[Item], bool]:
        """Wait for an item, then take all that are there; False once the end is reached."""
        group: list[Item] = []
        try:
            item = self._queue.get()
            while item is not None:
                group.append(item)
                if len(group) >= GROUP_MAX:
                    return group, True
                item = self._queue.get_nowait()
        except queue.Empty:
            return group, True
        return group, False

    def _attempt(self, group: list[Item]) -> list[Result] | Exception:
        began = perf_counter()
        try:
            results = self._commit(group)
            self.commits.observe(perf_counter() - began)
            return results
        except Exception as error:
            log.error("a group of %d was not committed: %s", len(group), error)
            return error

    def _finish(self, group: list[Item], results: list[Result] | Exception) -> None:
        self.waiting -= len(group)
        self._done(group, results)
