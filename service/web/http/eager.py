"""Coroutines that run at once. Most requests never wait, or wait once, for the journal: making a task of each, which
begins a turn of the loop later, took as long as the rest of what uvicorn does for them.
"""

import asyncio
import sys
from collections.abc import Coroutine
from contextvars import Context
from functools import partial
from typing import Any


def start(coroutine: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop, under_way: set[Any]) -> None:
    """Run a coroutine up to where it waits, in a context of its own, and on from there when it can go on.

    While it waits, something that can be cancelled stands for it in `under_way`.
    """
    context = Context()
    if sys.version_info >= (3, 12):
        task = asyncio.Task(coroutine, loop=loop, context=context, eager_start=True)
        if not task.done():
            under_way.add(task)
            task.add_done_callback(under_way.discard)
    else:
        context.run(_Run(coroutine, loop, context, under_way).step)


class _Run:
    """What such a task is, where asyncio has none: less, since whatever runs in it is in no task."""

    __slots__ = ("_awaited", "_context", "_coroutine", "_loop", "_under_way")

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, None],
        loop: asyncio.AbstractEventLoop,
        context: Context,
        under_way: set[Any],
    ) -> None:
        self._coroutine = coroutine
        self._loop = loop
        self._context = context
        self._under_way = under_way
        self._awaited: asyncio.Future[Any] | None = None

    def step(self, _: object = None) -> None:
        try:
            awaited = self._coroutine.send(None)
        except BaseException as error:
            self._under_way.discard(self)
            if isinstance(error, StopIteration | asyncio.CancelledError):
                return
            raise
        if awaited is None:  # it only gives way
            awaited = self._loop.create_future()
            self._loop.call_soon(partial(_finish, awaited))
        awaited._asyncio_future_blocking = False  # a mark for tasks, and there is none
        awaited.add_done_callback(self.step, context=self._context)
        self._awaited = awaited
        self._under_way.add(self)

    def cancel(self, msg: object = None) -> None:
        assert self._awaited is not None
        self._awaited.cancel(msg)


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
