"""Long work in slices, so that other tasks of the event loop have their turns."""

import asyncio
from collections.abc import Coroutine, Sequence
from time import perf_counter
from typing import Any

SLICE_SECONDS = 0.005
"""How long tasks with long work may work before others have a turn, all of them together. What is done between two
looks at the clock comes on top."""

STARTED_AT_ONCE = 16
"""How many tasks begin in the same turn of the loop, if their first steps are short."""

SLICE_SECONDS_MIN = 0.0005
"""Of one of them, however many there are: a turn of the loop costs something, too."""

_giving = 0
"""How many tasks with long work wait for their next slices: the loop comes to all of them in one turn."""


class Turns:
    """For one task: call `give` now and then in work that can be long."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Count from now on: the task has just waited for something."""
        self._until = perf_counter() + max(SLICE_SECONDS_MIN, SLICE_SECONDS / (1 + _giving))

    @property
    def is_over(self) -> bool:
        """Whether others should have a turn now, for work that cannot await."""
        return perf_counter() >= self._until

    async def give(self) -> None:
        """Let others have a turn if the slice has passed since the last one."""
        if perf_counter() >= self._until:
            global _giving
            _giving += 1
            try:
                await asyncio.sleep(0)
            finally:
                _giving -= 1
            self.restart()


async def gather_in_turns(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run all of them at the same time, but begin only some in a turn of the loop: hundreds of short steps are long."""
    tasks: list[asyncio.Task[None]] = []
    for at, each in enumerate(work, 1):
        tasks.append(asyncio.create_task(each))
        if at % STARTED_AT_ONCE == 0:
            await asyncio.sleep(0)
    await asyncio.gather(*tasks)
