"""Coroutines that run at once. Most requests never wait, or wait once, for the journal: what a task costs, and the
turn of the loop until it begins, is as much as uvicorn's whole share of a request.
"""

import asyncio
import sys
import types
from collections.abc import Coroutine, Generator
from contextvars import Context
from typing import Any


def start(coroutine: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> asyncio.Task[None] | None:
    """Run a coroutine up to where it waits, in a context of its own; the task that goes on from there, if any."""
    context = Context()
    if sys.version_info >= (3, 12):
        task = asyncio.Task(coroutine, loop=loop, context=context, eager_start=True)
        return None if task.done() else task
    try:
        awaited = context.run(coroutine.send, None)
    except StopIteration:
        return None
    if awaited is not None:
        awaited._asyncio_future_blocking = (
            False  # a mark for the task, which comes later: others may wait as well
        )
    return loop.create_task(_go_on(coroutine, awaited), context=context)


@types.coroutine
def _go_on(coroutine: Coroutine[Any, Any, None], awaited: Any) -> Generator[Any, Any, None]:
    """The rest of a coroutine that waits for something already."""
    if awaited is not None:
        awaited._asyncio_future_blocking = True
    try:
        while True:
            try:
                value = yield awaited
            except BaseException as error:
                awaited = coroutine.throw(error)
            else:
                awaited = coroutine.send(value)
    except StopIteration:
        return
