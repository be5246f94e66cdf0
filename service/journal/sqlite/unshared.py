"""What a journal answers that nobody else appends to: there is nothing to lag behind, only files to lose."""

import asyncio
import time

from service.journal.sqlite.ownership import OpenedFile, why_lost


class Unshared:
    """The part of `Journal` that concerns others."""

    is_shared = False
    lag_events = 0
    why_out_of_touch: str | None = None
    _files: list[OpenedFile]

    @property
    def is_connected(self) -> bool:
        return self.why_out_of_touch is None

    async def look(self) -> None:
        self.why_out_of_touch = await asyncio.to_thread(why_lost, self._files)

    def time_us(self) -> int:
        return time.time_ns() // 1000

    async def may_come(self, prediction_id: str) -> bool:
        return False
