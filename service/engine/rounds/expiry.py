"""Predictions whose labels never came: given up by age or by number, then recorded as expired."""

import asyncio
from asyncio import Task
from collections.abc import Container

from service.engine.clock import Clock
from service.engine.fleet.fleet import Fleet
from service.engine.fleet.live import Live
from service.errors import TooManyPending
from service.events import Prediction, PredictionsExpired
from service.journal.protocol import Journal, Overdue

LOOKED_AT_ONCE = 2_000
"""So many predictions of models that are not loaded are looked at in one step."""

ROOM_MADE = 0.01
"""The share of all waiting predictions that goes when there are too many."""


class Expiry:
    """Gives up predictions older than `ttl_seconds`, the oldest of a model that has too many, and the oldest of
    all where all models together have too many.

    Giving up those of a loaded model is immediate, and one event a sweep records it, so that a client which never
    reveals does not cost an event a prediction. A crash in between forgets the giving up, and they wait again.
    Models that are not loaded need not be: the journal tells what is due, and takes the event.
    """

    def __init__(
        self,
        journal: Journal,
        fleet: Fleet,
        clock: Clock,
        in_use: Container[str],
        *,
        ttl_seconds: float,
        pending_max: int,
        pending_total_max: int,
    ) -> None:
        """`in_use`: ids that a request is under way with, which are never given up."""
        self._journal = journal
        self._fleet = fleet
        self._clock = clock
        self._in_use = in_use
        self._ttl_us = round(ttl_seconds * 1e6)
        self._pending_max = pending_max
        self._pending_total_max = pending_total_max
        self._swept_through = 0  # whatever was predicted up to this time has been given up
        self._making_room: Task[int] | None = None

    def is_due(self, prediction_at: int, now: int) -> bool:
        return now - prediction_at > self._ttl_us

    def push_out(self, live: Live) -> None:
        """Make room: the oldest go first, but none whose label is just arriving."""
        while len(live.pending) > self._pending_max:
            if not self._drop_oldest(live):
                return

    # All models together

    @property
    def is_full(self) -> bool:
        return len(self._fleet.owner) + self._fleet.waiting_unloaded >= self._pending_total_max

    async def make_room(self, live: Live) -> None:
        """A model gives up its oldest prediction, or else the oldest of all go. TooManyPending if there are none."""
        if self._drop_oldest(live):
            return
        if self._making_room is None:  # once for all who wait
            self._making_room = asyncio.create_task(self._give_up_oldest())
        if not await asyncio.shield(self._making_room):
            raise TooManyPending(f"{self._pending_total_max} predictions wait for their labels; reveal some")

    async def _give_up_oldest(self) -> int:
        """Give up some; how many models had them."""
        many = min(max(1, round(self._pending_total_max * ROOM_MADE)), LOOKED_AT_ONCE)
        try:
            while True:
                now, before = self._clock.now(), self._swept_through
                oldest, through = await self._journal.overdue(before, now, many)
                if await self._give_up(oldest, now):
                    self._swept_through = through
                if oldest or through == before:  # else those looked at had been given up before
                    return len(oldest)
        finally:
            self._making_room = None

    # Now and then

    async def sweep(self) -> None:
        """Give up what is due, and record all that was given up."""
        now = self._clock.now()
        for live in list(self._fleet.loaded.values()):
            if self._fleet.loaded.get(live.model.name) is not live:
                continue  # unloaded while an earlier one was recorded
            if live.pending:
                self._drop_through(live, max(now - self._ttl_us - 1, self._swept_through))
            if live.dropped:
                expired = PredictionsExpired(live.model.name, now, live.dropped, live.dropped_through)
                live.expiring = expired
                await self._fleet.append(live, expired)
        await self._sweep_unloaded(now)

    async def _sweep_unloaded(self, now: int) -> None:
        while True:
            overdue, through = await self._journal.overdue(
                self._swept_through, now - self._ttl_us - 1, LOOKED_AT_ONCE
            )
            if not await self._give_up(overdue, now) or through == self._swept_through:
                return  # those that were just being loaded are looked at again by the next sweep
            self._swept_through = through

    async def _give_up(self, overdue: list[Overdue], now: int) -> bool:
        """Give up predictions of models whether they are loaded or not; False if some are just being loaded."""
        unloaded: list[Overdue] = []
        for one in overdue:
            live = self._fleet.loaded.get(one.model)
            if live is None:
                unloaded.append(one)
            elif live.life == one.life:
                self._drop_through(live, one.through)
        return all(await asyncio.gather(*(self._fleet.expire_unloaded(one, now) for one in unloaded)))

    def _drop_oldest(self, live: Live) -> bool:
        for oldest in live.pending.values():
            if oldest.prediction_id not in self._in_use:
                self._drop(live, oldest)
                return True
        return False

    def _drop_through(self, live: Live, through: int) -> None:
        """Give up a loaded model's predictions made up to a time."""
        due: list[Prediction] = []
        for prediction in live.pending.values():
            if prediction.at > through:
                break
            if prediction.prediction_id not in self._in_use:
                due.append(prediction)
        for prediction in due:
            self._drop(live, prediction)

    def _drop(self, live: Live, prediction: Prediction) -> None:
        live.drop(prediction)
        self._fleet.owner.pop(prediction.prediction_id, None)
        self._fleet.changed(live)
