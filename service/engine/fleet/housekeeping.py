"""What is done now and then, whether anybody asks or not."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from time import monotonic, time_ns

from service.background import keep_running
from service.engine.fleet.fleet import Fleet
from service.engine.rounds.expiry import Expiry
from service.errors import NovikoffError, UnknownModel
from service.journal.protocol import Journal

SWEEP_SECONDS = 1.0
SUMMARISE_EVERY_SWEEPS = 10

LEFT_BEHIND_US = 30_000_000
"""How old the events of a model may be until somebody makes its summary, in place of the replica that learned them."""

LEFT_BEHIND_AT_ONCE = 100

FAILED_SECONDS = 600.0
"""When a model that could not be loaded is tried again."""

log = logging.getLogger(__name__)


class Housekeeping:
    """Gives up predictions whose time is over, and keeps the summaries of models near their states."""

    def __init__(self, journal: Journal, fleet: Fleet, expiry: Expiry) -> None:
        self._journal = journal
        self._fleet = fleet
        self._expiry = expiry
        self._failed_at: dict[str, float] = {}  # models that could not be loaded: damaged ones, perhaps

    def start(self) -> None:
        self._task = keep_running("housekeeping", self._run())

    async def stop(self) -> None:
        """Leave everything in order."""
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._tidy(self._fleet.summarise_loaded)

    async def _run(self) -> None:
        for sweep in count(1):
            await asyncio.sleep(SWEEP_SECONDS)
            is_turn = sweep % SUMMARISE_EVERY_SWEEPS == 0
            await self._tidy(self._fleet.summarise if is_turn else None)
            if is_turn:
                await self.load_left_behind()

    async def _tidy(self, summarise: Callable[[], Awaitable[None]] | None) -> None:
        try:
            await self._expiry.sweep()
            if summarise is not None:
                await summarise()
        except NovikoffError as error:
            log.warning("housekeeping is done later: %s", error.detail)

    async def load_left_behind(self) -> None:
        """Load models that another replica should have summarised, and has not: it was killed. Some at a time.

        Once loaded they are summarised like any other.
        """
        if self._journal.is_shared:
            try:
                await self._load_some()
            except NovikoffError as error:
                log.warning("housekeeping is done later: %s", error.detail)

    async def _load_some(self) -> None:
        now = monotonic()
        self._failed_at = {name: at for name, at in self._failed_at.items() if now - at < FAILED_SECONDS}
        before = time_ns() // 1000 - LEFT_BEHIND_US
        names = await self._journal.unsummarised(before=before)
        names = [name for name in names if name not in self._failed_at]
        for name in random.sample(names, min(LEFT_BEHIND_AT_ONCE, len(names))):  # other replicas load others
            self._failed_at[name] = now
            with suppress(UnknownModel):  # deleted meanwhile
                await self._fleet.get(name)
            del self._failed_at[name]
