"""Sums over all models: found once for all who ask at the same time, and for feeds at most once a second."""

import asyncio
from collections import OrderedDict
from time import monotonic
from typing import NamedTuple

from service.engine.fleet.fleet import Fleet
from service.journal.protocol import Journal, Totals

PACE_SECONDS = 1.0
PREFIXES_MAX = 1_000


class Found(NamedTuple):
    """Totals with all that had changed up to the fleet's `tick`, and when they began to be found."""

    tick: int
    began: float
    totals: Totals


class Totalling:
    """Totals of the models whose names begin so. With many models they take long, so askers share them.

    Whoever asks before the journal is asked gets what it answers; whoever comes later waits for the next
    answer, since what was acknowledged to them may not be in this one.
    """

    def __init__(self, journal: Journal, fleet: Fleet) -> None:
        self._journal = journal
        self._fleet = fleet
        self._found: OrderedDict[str, Found] = OrderedDict()
        """The latest, by prefix."""
        self._next: dict[tuple[str, bool], asyncio.Task[Found]] = {}
        """Those that the journal is not yet asked for, by prefix and whether they are paced."""
        self._asking = asyncio.Lock()

    async def now(self, prefix: str) -> Totals:
        """With all that was answered before."""
        return (await self._join(prefix, paced=False)).totals

    async def paced(self, prefix: str) -> Found:
        """The same for who asks again and again: at most once in PACE_SECONDS, for all of them."""
        return await self._join(prefix, paced=True)

    async def _join(self, prefix: str, *, paced: bool) -> Found:
        found = self._found.get(prefix)
        if found is not None and self._is_current(found):
            return found
        task = self._next.get((prefix, paced))
        if task is None:
            wait = found.began + PACE_SECONDS - monotonic() if found is not None and paced else 0.0
            task = asyncio.create_task(self._find(prefix, wait, paced=paced))
            self._next[prefix, paced] = task
        return await asyncio.shield(task)  # who goes away leaves it to the others

    def _is_current(self, found: Found) -> bool:
        """Whether nothing has changed since. What other replicas do to models not in memory here makes no tick."""
        return found.tick == self._fleet.tick and not self._journal.is_shared

    async def _find(self, prefix: str, wait_seconds: float, *, paced: bool) -> Found:
        try:
            await asyncio.sleep(wait_seconds)
            await self._asking.acquire()
        finally:
            del self._next[prefix, paced]
        try:
            found = self._found.get(prefix)
            if found is None or not self._is_current(found):
                tick, began = self._fleet.tick, monotonic()
                await self._fleet.summarise()
                found = Found(tick, began, await self._journal.totals(prefix))
                self._keep(prefix, found)
            return found
        finally:
            self._asking.release()

    def _keep(self, prefix: str, found: Found) -> None:
        self._found[prefix] = found
        self._found.move_to_end(prefix)
        if len(self._found) > PREFIXES_MAX:
            self._found.popitem(last=False)
