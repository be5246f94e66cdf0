"""Expiry of predictions whose labels never came: given up by age or by number, then recorded as expired."""

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
"""How many predictions the journal is asked for at a time."""

ROOM_SHARE = 0.01
"""The share of all waiting predictions that is given up when there are `pending_total_max`."""


class Expiry:
    """Gives up predictions older than `ttl_seconds`, the oldest of a model that has more than `pending_max`, and the
    oldest of all models if these have more than `pending_total_max` together.

    Those of a loaded model are given up at once, and the next sweep records all of them with one event, so that a
    client that never reveals does not cost an event a prediction. After a crash in between, they wait again. Models
    that are not loaded are not loaded for this: the journal knows which predictions are due.
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
        """`in_use`: ids that a request is busy with, which are never given up."""
        self._journal = journal
        self._fleet = fleet
        self._clock = clock
        self._in_use = in_use
        self._ttl_us = round(ttl_seconds * 1e6)
        self._pending_max = pending_max
        self._pending_total_max = pending_total_max
        self._swept_through = 0  # all predictions made up to this time have been given up
        self._making_room: Task[int] | None = None

    def is_due(self, prediction_at: int, now: int) -> bool:
        return now - prediction_at > self._ttl_us

    def drop_excess(self, live: Live) -> None:
        """Give up a model's oldest predictions until it has `pending_max`, but none that is in use."""
        while len(live.pending) > self._pending_max:
            if not self._drop_oldest(live):
                return

    # All models together

    @property
    def is_full(self) -> bool:
        return len(self._fleet.owner) + self._fleet.pending_unloaded >= self._pending_total_max

    async def make_room(self, live: Live) -> None:
        """Give up the model's oldest prediction, or else the oldest of all; TooManyPending if there are none."""
        if self._drop_oldest(live):
            return
        if self._making_room is None:  # one task for all requests that need room
            self._making_room = asyncio.create_task(self._give_up_oldest())
        if not await asyncio.shield(self._making_room):
            raise TooManyPending(f"{self._pending_total_max} predictions wait for their labels; reveal some")

    async def _give_up_oldest(self) -> int:
        """Give up the oldest of all models; of how many models."""
        many = min(max(1, round(self._pending_total_max * ROOM_SHARE)), LOOKED_AT_ONCE)
        try:
            while True:
                now, before = self._clock.now(), self._swept_through
                oldest, through = await self._journal.overdue(before, now, many)
                if await self._give_up(oldest, now):
                    self._swept_through = through
                if oldest or through == before:  # else all of them had been given up before: look further
                    return len(oldest)
        finally:
            self._making_room = None

    # Called once a second

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
