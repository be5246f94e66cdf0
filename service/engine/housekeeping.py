"""What is done now and then, whether anybody asks or not."""

import asyncio
import logging
from itertools import count

from service.background import keep_running
from service.engine.expiry import Expiry
from service.engine.fleet import Fleet
from service.errors import NovikoffError

SWEEP_SECONDS = 1.0
SUMMARISE_EVERY_SWEEPS = 10

log = logging.getLogger(__name__)


class Housekeeping:
    """Gives up predictions whose time is over, and keeps the summaries of models near their states."""

    def __init__(self, fleet: Fleet, expiry: Expiry) -> None:
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
        except NovikoffError as error:
            log.warning("housekeeping is done later: %s", error.detail)
