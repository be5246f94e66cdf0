"""Long work in slices, so that other tasks of the event loop have their turns."""

import asyncio
import sys
import threading
from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import Coroutine, Sequence
from time import perf_counter
from typing import Any

SLICE_SECONDS = 0.005
"""How long a task with long work may work before others have a turn. What is done between two looks at the clock comes
on top."""

STARTED_AT_ONCE = 16
"""How many tasks begin in the same turn of the loop, if their first steps are short."""

SLICE_SECONDS_MIN = 0.0005
"""Of a task that has not stood in line, however many do: a turn of the loop costs something, too."""


SWITCH_SECONDS = 0.0005
"""How long a thread beside the loop goes on once the loop wants to."""


def favour_the_loop() -> None:
    """Let the loop go on soon when threads are busy beside it, such as those that read the journal.

    Whenever the loop has looked for what came, which it does in each turn, it waits for the interpreter until a busy
    thread gives it up, by default after 5 ms. With three of them 300 turns took 0.8 to 1.6 s, the longest 53 to 64 ms;
    so they take 0.1 to 0.5 s, the longest 8 to 20 ms, and the threads get nearly as much done.
    """
    sys.setswitchinterval(SWITCH_SECONDS)


class _Line(threading.local):
    """Tasks that have had their slices and want more. In each turn of the loop one of them goes on, however many there
    are: all together they hold the loop no longer than one alone would. Loops run in threads of their own, so each has
    a line of its own."""

    def __init__(self) -> None:
        self._loop: AbstractEventLoop | None = None
        self._waiting: deque[Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    async def stand(self) -> None:
        """Wait for the next slice."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # in tests: what stood in line of a loop that has ended goes on no more
            self._loop = loop
            self._waiting = deque()
        turn = loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            loop.call_soon(self._admit, loop)
        await turn

    def _admit(self, loop: AbstractEventLoop) -> None:
        if loop is not self._loop:
            return
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else its task was cancelled
                turn.set_result(None)
                break
        if self._waiting:
            loop.call_soon(self._admit, loop)


_line = _Line()


class Turns:
    """For one task: call `give` now and then in work that can be long."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Count from now on: the task has just waited for something."""
        self._until = perf_counter() + max(SLICE_SECONDS_MIN, SLICE_SECONDS / (1 + len(_line)))

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
