"""The part of the `Journal` protocol that is about other replicas, for a journal that has none."""

import asyncio
import math
import time

from service.journal.protocol import Answer
from service.journal.sqlite.ownership import OpenedFile, why_lost


class NoPeers:
    """See `Peers`: there are none."""

    replica = ""

    async def answer(self, answer: Answer) -> None:
        pass

    async def ask(self, replica: str, question: bytes) -> bytes | None:
        return None

    async def answer_all(self, answer: Answer) -> None:
        pass

    async def ask_all(self, question: bytes) -> list[bytes]:
        return []


class Unshared:
    """No other process appends, so this one never lags behind; but its files may be taken away from it."""

    is_shared = False
    pending_seconds_max = math.inf
    peers = NoPeers()
    lag_events = 0
    why_out_of_touch: str | None = None
    _files: list[OpenedFile]

    async def refresh(self) -> None:
        """See whether the files are still those that were opened."""
        self.why_out_of_touch = await asyncio.to_thread(why_lost, self._files)

    def time_us(self) -> int:
        return time.time_ns() // 1000

    async def may_arrive_later(self, prediction_id: str) -> bool:
        return False
