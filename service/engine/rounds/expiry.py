"""Expiry of predictions whose labels never came: given up by age or by number, then recorded as expired."""

import asyncio
from asyncio import Task
from collections.abc import Container
from heapq import heapify, heappop, heappush

from service.engine.clock import Clock
from service.engine.fleet.fleet import Fleet
from service.engine.fleet.live import Live
from service.engine.rounds.expiry_labels import ExpiryLabels, learns_expired
from service.errors import NovikoffError, TooManyPending
from service.events import Prediction, PredictionsExpired
from service.journal.protocol import Journal, Overdue

LOOKED_AT_ONCE = 2_000
"""How many predictions the journal is asked for at a time."""

ROOM_SHARE = 0.01
"""The share of all waiting predictions that is given up when there are `pending_total_max`."""


REMEMBERED_US_MIN = 600_000_000
"""An expired prediction is told from an unknown one until twice `ttl_seconds` after it was made, or so long if that is
more. (On a cluster, too: `service/journals.py`.)"""


class Expiry:
    """Gives up predictions older than `ttl_seconds` and the oldest of a model that has more than `pending_max`.

    If all models have `pending_total_max` together, or those in memory leave no room there, it gives up some of
    whoever has most: so a tenant that floods the service pushes out its own.

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
        labels: ExpiryLabels,
        *,
        ttl_seconds: float,
        pending_max: int,
        pending_total_max: int,
    ) -> None:
        """`in_use`: ids that a request is busy with, which are never given up. `labels`: learns those that are too
        old, of models that want it."""
        self._labels = labels
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
        # What is not old enough by the times themselves is not after any jump of the clock, either.
        return prediction_at < now - self._ttl_us and prediction_at < self._clock.ago(now, self._ttl_us)

    def drop_excess(self, live: Live) -> None:
        """Give up a model's oldest predictions until it has `pending_max`, but none that is in use."""
        while len(live.pending) > self._pending_max:
            if not self._drop_oldest(live):
                return

    # All models together

    @property
    def is_full(self) -> bool:
        waiting = self._fleet.waiting
        return len(waiting) + waiting.unloaded >= self._pending_total_max or waiting.are_at_their_limit

    async def make_room(self, live: Live) -> None:
        """Give up predictions of the tenant that has most; TooManyPending if there are none.

        If that is the model's own, the model's oldest goes first. Without tenants, the oldest of all go next.
        """
        waiting = self._fleet.waiting
        by_bytes = waiting.are_at_their_limit
        heaviest = waiting.heaviest(by_bytes=by_bytes)
        if heaviest == live.tenant and self._drop_oldest(live):
            return
        if (heaviest or by_bytes or self._fleet.tenants.are_there) and self._drop_oldest_of(heaviest):
            return
        if self._making_room is None:  # one task for all requests that need room
            self._making_room = asyncio.create_task(self._give_up_oldest())
        if not await asyncio.shield(self._making_room):
            raise TooManyPending(f"{self._pending_total_max} predictions wait for their labels; reveal some")

    def _drop_oldest_of(self, tenant: str) -> int:
        """Give up some of the oldest of a tenant's loaded models; how many."""
        models = [live for live in self._fleet.loaded.values() if live.pending and live.tenant == tenant]
        oldest = [(next(iter(live.pending.values())).at, at) for at, live in enumerate(models)]
        heapify(oldest)
        dropped, enough = 0, max(1, round(len(self._fleet.waiting) * ROOM_SHARE))
        while oldest and dropped < enough:
            _, at = heappop(oldest)
            live = models[at]
            if self._drop_oldest(live):
                dropped += 1
                if live.pending:
                    heappush(oldest, (next(iter(live.pending.values())).at, at))
        return dropped

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
                due_through = self._clock.ago(now, self._ttl_us) - 1
                if learns_expired(live.model):
                    await self._labels.learn(self._due(live, due_through), live, now)
                else:
                    self._drop_through(live, max(due_through, self._swept_through))
            if live.dropped and live.expiring is None:
                await self._record(live, now)
        await self._sweep_unloaded(now)
        await self._journal.forget_expired(self._clock.ago(now, max(2 * self._ttl_us, REMEMBERED_US_MIN)))

    async def _record(self, live: Live, now: int) -> None:
        """Record what was given up as expired. If the wait is cut off, the event is still under way."""
        asked = sorted(live.dropped_asked.items())
        live.expiring = PredictionsExpired(live.model.name, now, live.dropped, live.dropped_through, asked)
        try:
            await self._fleet.append(live, live.expiring)
        except NovikoffError:  # and it is tried again
            live.expiring = None
            raise

    async def _sweep_unloaded(self, now: int) -> None:
        due_through = self._clock.ago(now, self._ttl_us) - 1
        while True:
            overdue, through = await self._journal.overdue(self._swept_through, due_through, LOOKED_AT_ONCE)
            rest: list[Overdue] = []
            for one in overdue:
                live = await self._labels.find(one)
                if live is None:
                    rest.append(one)
                else:
                    await self._labels.learn(self._due(live, due_through), live, now)
            are_all_given_up = await self._give_up(rest, now)
            if not are_all_given_up or len(rest) < len(overdue) or through == self._swept_through:
                return  # what was just being loaded, or may not all be learned, is looked at again by the next sweep
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
        for prediction in self._due(live, through):
            self._drop(live, prediction)

    def _due(self, live: Live, through: int) -> list[Prediction]:
        """A loaded model's predictions made up to a time, but none that is in use."""
        due: list[Prediction] = []
        for prediction in live.pending.values():
            if prediction.at > through:
                break
            if prediction.prediction_id not in self._in_use:
                due.append(prediction)
        return due

    def _drop(self, live: Live, prediction: Prediction) -> None:
        live.drop(prediction)
        self._fleet.waiting.remove(live, prediction)
        self._fleet.changed(live)
