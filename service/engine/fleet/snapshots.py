"""Saving snapshots of models: a large one is encoded in a thread while the model is locked."""

import asyncio
from asyncio import Task
from contextlib import suppress
from functools import partial

from service.engine.fleet.budgets import MemoryUse
from service.engine.fleet.large_models import is_large, is_loaded, read_in_thread
from service.engine.fleet.live import Live
from service.errors import Overloaded, UnknownModel
from service.journal.protocol import Journal, Snapshot
from service.runtime.cooperative import Turns, run_once

SAVED_AT_ONCE = 1_000


class Saving:
    """Hands snapshots to the journal, those of one model in their order."""

    def __init__(self, journal: Journal, memory: MemoryUse, *, every_events: int) -> None:
        self._journal = journal
        self._memory = memory
        self._every_events = every_events
        self._tasks: set[Task[None]] = set()
        self._freeing: Task[None] | None = None
        """Makes room for outcomes, if it is not done."""

    def save_if_due(self, live: Live) -> None:
        if live.is_snapshot_due(self._every_events) and not live.is_being_saved:
            self.save(live)

    def save(self, live: Live) -> Task[None] | None:
        """Save a snapshot of the model as it is now, or of a large one as it will be when it can be locked.

        None of it may be under way. The task saves it, if it is large.
        """
        if not is_large(live.model):
            self._hand_over(live, live.snapshot())
            return None
        live.is_being_saved = True
        live.pins += 1  # so that it is not reloaded from the snapshot before
        task = run_once("saving a large model", self._save_large(live))
        self._keep(task)
        return task

    def save_outcomes(self) -> None:
        """Save models until half of the room for outcomes is free, in eviction order.

        In slices: they may be thousands.
        """
        if self._freeing is None or self._freeing.done():
            self._freeing = run_once("saving outcomes", self._free_outcomes())
            self._keep(self._freeing)

    async def _free_outcomes(self) -> None:
        turns = Turns()
        for live in self._memory.by_outcomes():
            if self._memory.outcomes.bytes <= self._memory.outcomes.bytes_max // 2:
                return
            if not live.is_being_saved and live.outcomes and is_loaded(live):
                if (saving := self.save(live)) is not None:
                    await asyncio.wait([saving])
                await turns.give()

    async def save_all(self, models: list[Live]) -> None:
        """Save those that have changed since their last snapshot, as fast as the journal takes them."""
        await self._settle()
        changed = [live for live in models if live.since_snapshot]
        turns = Turns()
        for start in range(0, len(changed), SAVED_AT_ONCE):
            for live in changed[start : start + SAVED_AT_ONCE]:
                if not live.is_being_saved:
                    self.save(live)
                await self._settle()  # one copy of a large state at a time
                await turns.give()
            with suppress(Overloaded):  # without these snapshots the next start replays more events
                await self._journal.settle()

    async def _save_large(self, live: Live) -> None:
        try:
            await read_in_thread(
                live, self._journal, lambda _: live.snapshot(), partial(self._hand_over, live)
            )
        except UnknownModel:
            pass  # deleted meanwhile
        finally:
            live.is_being_saved = False
            live.pins -= 1

    def _hand_over(self, live: Live, snapshot: Snapshot) -> None:
        if is_loaded(live):  # else its outcomes are not counted any more
            self._memory.add_outcomes(-live.outcomes.size_bytes)
        live.saved()
        self._journal.save_snapshot(snapshot)

    def _keep(self, task: Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _settle(self) -> None:
        """Wait until the journal has been given all snapshots that were begun."""
        while self._tasks:
            await asyncio.wait(self._tasks)
