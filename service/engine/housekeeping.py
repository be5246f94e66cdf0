"""What is done now and then, whether anybody asks or not."""

import asyncio
import logging
import random
from itertools import count

from service.background import keep_running
from service.engine.expiry import Expiry
from service.engine.fleet import Fleet
from service.errors import NovikoffError
from service.journal.protocol import Journal

SWEEP_SECONDS = 1.0
SUMMARISE_EVERY_SWEEPS = 10

LEFT_BEHIND_SECONDS = 30.0
"""How old the events of a model may be until somebody makes its summary, in place of the replica that learned them."""

LEFT_BEHIND_AT_ONCE = 100

log = logging.getLogger(__name__)


class Housekeeping:
    """Gives up predictions whose time is over, and keeps the summaries of models near their states."""

    def __init__(self, journal: Journal, fleet: Fleet, expiry: Expiry) -> None:
        self._journal = journal
        self._fleet = fleet
        self._expiry = expiry

    def start(self) -> None:
        self._task = keep_running("housekeeping", self._run())

    async def stop(self) -> None:
        """Leave everything in order."""
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._tidy(summarise=True)

    async def _run(self) -> None:
        for sweep in count(1):
            await asyncio.sleep(SWEEP_SECONDS)
            await self._tidy(summarise=sweep % SUMMARISE_EVERY_SWEEPS == 0)

    async def _tidy(self, *, summarise: bool) -> None:
        try:
            await self._expiry.sweep()
            if summarise:
                await self._fleet.summarise()
                await self._find_left_behind()
        except NovikoffError as error:
            log.warning("housekeeping is done later: %s", error.detail)

    async def _find_left_behind(self) -> None:
        """Models that another replica should have summarised, and has not: it was killed. Some at a time."""
        if self._journal.is_shared:
            names = await self._journal.unsummarised(for_seconds=LEFT_BEHIND_SECONDS)
            some = random.sample(names, min(LEFT_BEHIND_AT_ONCE, len(names)))  # others see to others
            self._fleet.left_behind.update(some)
