"""Long work in slices, so that other tasks of the event loop have their turns."""

import asyncio
from time import perf_counter

SLICE_SECONDS = 0.005
"""How long a task may work before others have a turn. What is done between two looks at the clock comes on top."""


class Turns:
    """For one task: call `give` now and then in work that can be long."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Count from now on: the task has just waited for something."""
        self._until = perf_counter() + SLICE_SECONDS

    @property
    def is_over(self) -> bool:
        """Whether others should have a turn now, for work that cannot await."""
        return perf_counter() >= self._until

    async def give(self) -> None:
        """Let others have a turn if SLICE_SECONDS have passed since the last one."""
        if self.is_over:
            await asyncio.sleep(0)
            self.restart()
