"""The background task of the engine: expires predictions and saves summaries."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from time import monotonic, time_ns

from service.engine.fleet.fleet import Fleet
from service.engine.rounds.expiry import Expiry
from service.errors import NovikoffError, UnknownModel
from service.journal.protocol import Journal
from service.runtime.cooperative import end, keep_running

SWEEP_SECONDS = 1.0
SUMMARISE_EVERY_SWEEPS = 10

STALE_SUMMARY_US = 30_000_000
"""Events so old that no summary covers were applied by a replica that was killed: another one summarises them."""

LOADED_AT_ONCE = 100

FAILED_SECONDS = 600.0
"""How long until a model that could not be loaded is tried again."""

log = logging.getLogger(__name__)


class Housekeeping:
    """Gives up predictions older than `pending_ttl_seconds` every second, and saves summaries every ten."""

    def __init__(self, journal: Journal, fleet: Fleet, expiry: Expiry) -> None:
        self._journal = journal
        self._fleet = fleet
        self._expiry = expiry
        self._failed_at: dict[str, float] = {}  # models that could not be loaded: damaged ones, perhaps

    def start(self) -> None:
        self._task = keep_running("housekeeping", self._run())

    async def stop(self) -> None:
        """Expire and summarise once more, so that the next start finds summaries up to date."""
        await end([self._task])
        await self._tidy(self._fleet.summarise_loaded)

    async def _run(self) -> None:
        for sweep in count(1):
            await asyncio.sleep(SWEEP_SECONDS)
            is_turn = sweep % SUMMARISE_EVERY_SWEEPS == 0
            await self._tidy(self._fleet.summarise if is_turn else None)
            if is_turn:
                await self.load_stale()

    async def _tidy(self, summarise: Callable[[], Awaitable[None]] | None) -> None:
        try:
            await self._expiry.sweep()
            if summarise is not None:
                await summarise()
        except NovikoffError as error:
            log.warning("housekeeping is postponed: %s", error.detail)

    async def load_stale(self) -> None:
        """Load some models whose summaries are stale since another replica was killed. Loaded, they are summarised."""
        if self._journal.is_shared:
            try:
                await self._load_some()
            except NovikoffError as error:
                log.warning("housekeeping is postponed: %s", error.detail)

    async def _load_some(self) -> None:
        now = monotonic()
        self._failed_at = {name: at for name, at in self._failed_at.items() if now - at < FAILED_SECONDS}
        before = time_ns() // 1000 - STALE_SUMMARY_US
        names = await self._journal.unsummarised(before=before)
        names = [name for name in names if name not in self._failed_at]
        for name in random.sample(names, min(LOADED_AT_ONCE, len(names))):  # other replicas load others
            self._failed_at[name] = now
            with suppress(UnknownModel):  # deleted meanwhile
                await self._fleet.get(name)
            del self._failed_at[name]
