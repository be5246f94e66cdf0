"""Sums over all models, shared by the requests that want them at the same time; for feeds at most once a second."""

import asyncio
from collections import OrderedDict
from math import inf, nextafter
from time import monotonic
from typing import NamedTuple

from service.engine.fleet.fleet import Fleet
from service.errors import JournalUnavailable
from service.journal.protocol import Journal, Totals

PACE_SECONDS = 1.0
PREFIXES_MAX = 1_000


class FoundTotals(NamedTuple):
    """Totals, and how fresh they are."""

    tick: int
    """They cover all changes up to this tick of the fleet."""
    began: float
    """When the summing began, by `monotonic`."""
    totals: Totals


class SharedTotals:
    """Totals of the models whose names begin with a prefix. With many models they take long, so requests share them.

    A request that comes before the journal is asked shares the answer. One that comes after that waits for the next
    answer, since this one may lack a change that its client has made and knows of.
    """

    def __init__(self, journal: Journal, fleet: Fleet) -> None:
        self._journal = journal
        self._fleet = fleet
        self._found: OrderedDict[str, FoundTotals] = OrderedDict()
        """The latest totals, by prefix; the least recently found prefix first."""
        self._asking = asyncio.Lock()

    async def now(self, prefix: str) -> Totals:
        """Totals that include every change answered before this call."""
        return (await self._find(prefix, monotonic())).totals

    async def paced(self, prefix: str) -> FoundTotals:
        """The same for feeds, which ask again and again: summed at most once in PACE_SECONDS for all of them.

        They may lack the latest changes, and `tick` says so: then the feed asks once more.
        """
        found = self._found.get(prefix)
        if found is None:
            return await self._find(prefix, monotonic())
        if not self._is_current(found):
            await asyncio.sleep(found.began + PACE_SECONDS - monotonic())
        return await self._find(prefix, nextafter(found.began, inf))

    async def _find(self, prefix: str, wanted_at: float) -> FoundTotals:
        """Totals of this moment or a later one."""
        async with self._asking:
            await asyncio.sleep(0)  # who asks in the same turn of the loop shares the answer
            found = self._found.get(prefix)
            if found is None or (found.began < wanted_at and not self._is_current(found)):
                tick, began = self._fleet.tick, monotonic()
                found = FoundTotals(tick, began, await self._sum(prefix))
                self._keep(prefix, found)
            return found

    def _is_current(self, found: FoundTotals) -> bool:
        """Whether nothing has changed since. Other replicas change models not loaded here without a tick."""
        return found.tick == self._fleet.tick and not self._journal.is_shared

    async def _sum(self, prefix: str) -> Totals:
        try:
            await self._fleet.summarise()
        except JournalUnavailable:  # the disk is full, say; but it can be read
            return await self._sum_unsaved(prefix)
        return await self._journal.totals(prefix)

    async def _sum_unsaved(self, prefix: str) -> Totals:
        """What the journal has, with the summaries that could not be saved in the place of the saved ones."""
        totals = await self._journal.totals(prefix)
        fleet = self._fleet
        for new in [fleet.loaded[name].summary() for name in fleet.unsummarised if name.startswith(prefix)]:
            saved = await self._journal.summary(new.model)
            if saved is not None and saved.life == new.life:
                totals = Totals(
                    totals.models,
                    totals.revealed + new.revealed - saved.revealed,
                    totals.mistakes + new.mistakes - saved.mistakes,
                    totals.updates + new.updates - saved.updates,
                    totals.pending + new.pending - saved.pending,
                    totals.expired + new.expired - saved.expired,
                )
        return totals

    def _keep(self, prefix: str, found: FoundTotals) -> None:
        self._found[prefix] = found
        self._found.move_to_end(prefix)
        if len(self._found) > PREFIXES_MAX:
            self._found.popitem(last=False)
