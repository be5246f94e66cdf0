"""Cooperative work on the event loop: long work in slices, and tasks beside the requests."""

import asyncio
import logging
import sys
import threading
from asyncio import AbstractEventLoop, Task
from collections.abc import Coroutine, Iterable, Sequence
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

log = logging.getLogger(__name__)

SLICE_SECONDS = 0.005
"""How long a task with long work may work before others have a turn. What is done between two looks at the clock comes
on top."""

STARTED_AT_ONCE = 16
"""How many tasks begin in the same turn of the loop, if their first steps are short."""

SLICE_SECONDS_MIN = 0.0005
"""Of a task that has not stood in line, however many do: a turn of the loop costs something, too."""

SWITCH_SECONDS = 0.0005
"""How long a thread beside the loop goes on once the loop wants to."""

CANCEL_AGAIN_SECONDS = 0.1


def favour_the_loop() -> None:
    """Let the loop go on soon when threads are busy beside it, such as those that read the journal.

    Whenever the loop has looked for what came, which it does in each turn, it waits for the interpreter until a busy
    thread gives it up, by default after 5 ms. With three of them 300 turns took 0.8 to 1.6 s, the longest 53 to 64 ms;
    so they take 0.1 to 0.5 s, the longest 8 to 20 ms, and the threads get nearly as much done.
    """
    sys.setswitchinterval(SWITCH_SECONDS)


class _Line(threading.local):
    """Tasks that have had their slices and want more: one of them goes on at a time, however many there are, so that
    all together hold the loop no longer than one alone would. A thread has at most one loop, which has a line."""

    def __init__(self) -> None:
        self._loop: AbstractEventLoop | None = None
        self._lock = asyncio.Lock()
        self.waiting = 0

    async def stand(self) -> None:
        """Wait for the next slice."""
        if (
            self._loop is not asyncio.get_running_loop()
        ):  # in tests: those of a loop that has ended go on no more
            self._loop = asyncio.get_running_loop()
            self._lock, self.waiting = asyncio.Lock(), 0
        self.waiting += 1
        try:
            async with self._lock:
                await asyncio.sleep(0)
        finally:
            self.waiting -= 1


_line = _Line()


class Turns:
    """For one task: call `give` now and then in work that can be long."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Count from now on: the task has just waited for something."""
        self._until = perf_counter() + max(SLICE_SECONDS_MIN, SLICE_SECONDS / (1 + _line.waiting))

    @property
    def is_over(self) -> bool:
        """Whether others should have a turn now, for work that cannot await."""
        return perf_counter() >= self._until

    async def give(self) -> None:
        """Let others have a turn if the slice has passed since the last one."""
        if perf_counter() >= self._until:
            await _line.stand()
            self._until = perf_counter() + SLICE_SECONDS


async def gather_in_turns(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run all of them at the same time, but begin only some in a turn of the loop: hundreds of short steps are long."""
    tasks: list[asyncio.Task[None]] = []
    for at, each in enumerate(work, 1):
        tasks.append(asyncio.create_task(each))
        if at % STARTED_AT_ONCE == 0:
            await asyncio.sleep(0)
    await asyncio.gather(*tasks)


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
    by which the NATS client waits, and the task goes on. It is therefore cancelled again until it has ended.
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
        "a background task ended: restart the service", exc_info=task.exception(), extra=_fields(task)
    )


def _finished(task: Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("a background task failed", exc_info=task.exception(), extra=_fields(task))


def _fields(task: Task[None]) -> dict[str, str]:
    return {"task": task.get_name()}
