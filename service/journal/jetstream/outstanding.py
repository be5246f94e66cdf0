"""The journal's queue: records that were handed over and have neither been stored nor failed yet."""

import asyncio
from asyncio import Future
from collections import OrderedDict
from typing import Any

from service.errors import Overloaded


class Outstanding:
    """Counts records, and refuses more than `records_max` at a time."""

    def __init__(self, records_max: int) -> None:
        self._records_max = records_max
        self._under_way: OrderedDict[int, Future[Any]] = OrderedDict()
        self.submitted = 0

    def __len__(self) -> int:
        return len(self._under_way)

    def check_room(self) -> None:
        if len(self._under_way) >= self._records_max:
            raise Overloaded(f"{len(self._under_way)} events wait for the journal; try again later")

    def add(self, future: Future[Any]) -> None:
        self.submitted += 1
        number = self.submitted
        if not future.done():
            self._under_way[number] = future
            future.add_done_callback(lambda _: self._under_way.pop(number, None))

    @property
    def finished(self) -> int:
        """How many records, counted from the first without a gap, are stored or have failed."""
        return next(iter(self._under_way), self.submitted + 1) - 1

    async def settle(self, seconds: float | None = None) -> None:
        """Wait for all records that are under way now, for at most `seconds`."""
        if self._under_way:
            await asyncio.wait(list(self._under_way.values()), timeout=seconds)
