"""Background tasks, and how they are ended."""

import asyncio
from asyncio import Task
from collections.abc import Iterable
from typing import Any

AGAIN_SECONDS = 0.1


async def end(tasks: Iterable[Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended.

    A cancellation that comes at the very moment an answer does is lost in `asyncio.wait_for` of Python 3.11,
    by which the NATS client waits, and the task goes on. So it is cancelled again until it has ended.
    """
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=AGAIN_SECONDS)
