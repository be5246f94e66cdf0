"""Tasks beside the requests: whoever starts one here is told when it ends and should not have."""

import asyncio
import logging
from asyncio import AbstractEventLoop, Task
from collections.abc import Coroutine, Iterable
from typing import Any
from weakref import WeakKeyDictionary

CANCEL_AGAIN_SECONDS = 0.1

log = logging.getLogger(__name__)

_ended: WeakKeyDictionary[AbstractEventLoop, list[str]] = WeakKeyDictionary()
"""By the loop that ran them, the tasks that are missing now."""


def keep_running(what: str, work: Coroutine[Any, Any, None]) -> Task[None]:
    """Start a task that is to run until it is cancelled. If it ends otherwise, `/readyz` tells."""
    task = asyncio.create_task(work, name=what)
    task.add_done_callback(_missed)
    return task


def run_once(what: str, work: Coroutine[Any, Any, None]) -> Task[None]:
    """Start a task that has an end; an exception that nobody foresaw is logged."""
    task = asyncio.create_task(work, name=what)
    task.add_done_callback(_finished)
    return task


async def end(tasks: Iterable[Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended.

    A cancellation that comes at the very moment an answer does is lost in `asyncio.wait_for` of Python 3.11,
    by which the NATS client waits, and the task goes on. So it is cancelled again until it has ended.
    """
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=CANCEL_AGAIN_SECONDS)


def ended_tasks() -> list[str]:
    """The tasks of this loop that have ended and should not have."""
    return _ended.get(asyncio.get_running_loop(), [])


def _missed(task: Task[None]) -> None:
    if task.cancelled():
        return
    _ended.setdefault(task.get_loop(), []).append(task.get_name())
    log.critical(
        "a background task has ended: restart the service", exc_info=task.exception(), extra=_fields(task)
    )


def _finished(task: Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("a background task has failed", exc_info=task.exception(), extra=_fields(task))


def _fields(task: Task[None]) -> dict[str, str]:
    return {"task": task.get_name()}
