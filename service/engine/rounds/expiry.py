"""Expiry of predictions whose labels never came: given up by age or for a limit, or learned with a chosen label."""

import asyncio
import logging
from asyncio import Task
from collections.abc import Callable, Container, Iterator
from dataclasses import replace
from heapq import heapify, heappop, heappush
from itertools import chain

from service.engine.clock import Clock
from service.engine.engine_settings import EngineSettings
from service.engine.fleet.fleet import Fleet
from service.engine.fleet.live import Live
from service.engine.models.checks import check_label
from service.engine.models.model import Model
from service.engine.models.settings import PENDING_TTL_SECONDS
from service.errors import (
    ModelUnreadable,
    NovikoffError,
    PredictionExpired,
    TooManyPending,
    UnknownLabel,
    UnknownModel,
)
from service.events import Prediction, PredictionsExpired, revealed
from service.journal.protocol import (
    PENDING_LOADED_MAX,
    Journal,
    Overdue,
    OwnTime,
    Page,
    WaitingPrediction,
    own_ttl_us,
)
from service.runtime.logs import LogLimiter

LEARNED_AT_ONCE = 500
"""Predictions of a model that are learned in one sweep, before others have their turn: each is an event."""


def learns_expired(model: Model) -> bool:
    return model.settings["on_expiry"] is not None


class ExpiryLabels:
    """Reveals predictions that are too old, as a client would; the journal takes each once, even if others try."""

    def __init__(self, journal: Journal, fleet: Fleet) -> None:
        self._journal = journal
        self._fleet = fleet

    async def find(self, overdue: Overdue) -> Live | None:
        """The model of overdue predictions, loaded for that, if it learns from what expires; None if not."""
        name = overdue.model
        live = self._fleet.loaded.get(name)
        if live is None:
            listed = await self._journal.models(Page(name, "name", None, 1))
            settings = listed[0].settings if listed and listed[0].model == name else None
            if settings is None or settings.get("on_expiry") is None:
                return None
            try:
                live = await self._fleet.get(name)
            except (UnknownModel, ModelUnreadable):
                return None
        return live if live.life == overdue.life and learns_expired(live.model) else None

    async def learn(self, due: list[tuple[str, int]], live: Live, now: int) -> None:
        """Learn the oldest of a model's predictions that are due; give them up if it can have no such class.

        `due`: their ids and times.
        """
        label, some = live.model.settings["on_expiry"], due[:LEARNED_AT_ONCE]
        if not some:
            return
        try:
            with live.pinned():
                found = [
                    each for prediction_id, _ in some if (each := await self._prediction(live, prediction_id))
                ]
                new = check_label(live.model, label, live.new_labels)
                if found:  # the first one brings the class, if it is new
                    await self._fleet.append(live, revealed(found[0], now, label), new)
                rest = [
                    each for each in found[1:] if live.awaits(each.prediction_id)
                ]  # a reset may have come
                await asyncio.gather(*(self._fleet.append(live, revealed(each, now, label)) for each in rest))
        except UnknownLabel:
            self._drop(live, some)
        except UnknownModel:
            pass  # deleted meanwhile, with its predictions

    async def _prediction(self, live: Live, prediction_id: str) -> Prediction | None:
        """A prediction that waits, read from the journal if it is only there; None if it waits no longer."""
        found = live.pending.get(prediction_id)
        if found is None and prediction_id in live.resting:
            known = await self._journal.find(prediction_id, expected=True)
            if isinstance(known, WaitingPrediction) and known.life == live.life:
                return known.prediction
            if known is None:  # the journal never had it
                self._drop(live, [(prediction_id, live.resting.get(prediction_id, 0))])
        return found

    def _drop(self, live: Live, some: list[tuple[str, int]]) -> None:
        for prediction_id, at in some:
            if live.awaits(prediction_id):
                self._fleet.waiting.let_go(live, prediction_id)
                live.drop(prediction_id, at)


LOOKED_AT_ONCE = 2_000
"""How many predictions the journal is asked for at a time."""

ROOM_SHARE = 0.01
"""The share of all waiting predictions that is given up when there are `pending_total_max`, and of those in memory that
go to the journal when they take `pending_bytes_max`."""


REMEMBERED_US_MIN = 600_000_000
"""An expired prediction is distinguished from an unknown one until twice `pending_ttl_seconds` after it was made,
or so long if
that is more. (On a cluster, too: `service/journals.py`.)"""

LOOKED_FOR_EVERY = 10
"""In a shared journal, after so many sweeps it is asked again for what was taken over from other replicas."""

OUTDATED_MAX = 10_000

OWN_TTL_SECONDS_MAX = PENDING_TTL_SECONDS.high

LIMITS = ("pending_max", "pending_total_max", "pending_bytes_max")
"""The settings for which predictions are evicted before their time."""

log = logging.getLogger(__name__)


class Expiry:
    """Gives up predictions that are older than their time, and evicts the oldest where a limit is reached.

    A model has at most PENDING_LOADED_MAX in memory, and all models together `pending_bytes_max`: beyond that the
    oldest rest in the journal, and of these only ids and times are in memory. They are evicted when even these do not
    fit, when all models have `pending_total_max` together, or a model has `pending_max`. Then the tenant or model
    that has most loses some: a tenant that floods the service evicts its own.

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
        settings: EngineSettings,
    ) -> None:
        """`in_use`: ids that a request is busy with, which are never given up. `labels`: learns those that are too
        old, of models that want it."""
        self._labels = labels
        self._journal = journal
        self._fleet = fleet
        self._clock = clock
        self._in_use = in_use
        self._ttl_us = round(settings.pending_ttl_seconds * 1e6)
        self._pending_max = settings.pending_max
        self._pending_total_max = settings.pending_total_max
        self._swept_through = 0  # all predictions made up to this time have been given up
        self._evicted_through = 0  # and these were evicted
        self._own: dict[int, OwnTime] = {}
        """By life, models with `pending_ttl_seconds` of their own that are not loaded and of which predictions wait."""
        self._own_due: list[tuple[int, int]] = []
        """A heap of when the oldest prediction of each of these is due, and the life; with some that are outdated."""
        self._own_due_max = 0
        """At so many it is made again from the journal, as by the first sweep."""
        self._sweeps = 0
        self._own_ttl_us_max = round(min(journal.pending_seconds_max, OWN_TTL_SECONDS_MAX) * 1e6)
        self._making_room: Task[int] | None = None
        self._log_limit = LogLimiter()
        self.evicted = dict.fromkeys(LIMITS, 0)
        """How many predictions were evicted since the start, by the limit."""

    def is_due(self, prediction_at: int, now: int, live: Live | None = None) -> bool:
        """Whether a prediction of a model, or of one that is not known, has waited for too long."""
        ttl_us = self._ttl_us if live is None else self._ttl_of(live)
        # What is not old enough by the times themselves is not after any jump of the clock, either.
        return prediction_at < now - ttl_us and prediction_at < self._clock.ago(now, ttl_us)

    def _ttl_of(self, live: Live) -> int:
        return self._ttl_us if (own := self._own_ttl(live)) is None else own

    def _own_ttl(self, live: Live) -> int | None:
        own = own_ttl_us(live.model.settings)
        return None if own is None else min(own, self._own_ttl_us_max)

    def why_gone(self, live: Live, prediction: Prediction, now: int) -> PredictionExpired:
        """Why the label of a prediction is not taken any more."""
        name, at, evictions = f"prediction {prediction.prediction_id!r}", prediction.at, live.model.evicted
        if self.is_due(at, now, live):
            seconds = self._ttl_of(live) / 1e6
            return PredictionExpired(
                f"{name} has expired: its label arrived more than {seconds:g} seconds (`pending_ttl_seconds`) later"
            )
        if at <= live.evicted_through:
            return _evicted(name, live.evicted_by)  # not recorded yet
        if evictions is not None and at <= evictions.through:
            return _evicted(name, evictions.limit)
        return PredictionExpired(f"{name} is void: its model was reset or rolled back after it was served")

    def drop_excess(self, live: Live) -> None:
        """Let a model's oldest predictions rest in the journal, or evict them, until it has no more than it may; but
        none that is in use."""
        if len(live.pending) > PENDING_LOADED_MAX:
            self._rest_oldest(live)
        while len(live.pending) + len(live.resting) > self._pending_max:
            if not self._drop_oldest(live, "pending_max"):
                return

    # All models together

    @property
    def is_full(self) -> bool:
        waiting = self._fleet.waiting
        budget = waiting.budget
        if budget.count + waiting.unloaded >= self._pending_total_max:
            return True
        return budget.bytes >= budget.bytes_max

    async def make_room(self, live: Live) -> None:
        """Make room for another prediction: let those in memory rest in the journal, or evict some of the tenant that
        has most; TooManyPending if there are none.

        If that is the model's own, the model's oldest goes first. Without tenants, the oldest of all go next.
        """
        waiting = self._fleet.waiting
        is_memory_full = waiting.budget.is_full
        heaviest = waiting.heaviest(by_bytes=is_memory_full)
        if is_memory_full and self._each_oldest(
            heaviest, self._rest_oldest, _oldest_in_memory, waiting.in_memory
        ):
            return
        limit = "pending_bytes_max" if is_memory_full else "pending_total_max"

        def evict(one: Live) -> bool:
            return self._drop_oldest(one, limit)

        if heaviest == live.tenant and evict(live):
            return
        goes_by_tenant = heaviest or is_memory_full or self._fleet.tenants.are_there
        if goes_by_tenant and self._each_oldest(heaviest, evict, _oldest, len(waiting)):
            return
        if self._making_room is None:  # one task for all requests that need room
            self._making_room = asyncio.create_task(self._evict_oldest(limit))
        if not await asyncio.shield(self._making_room):
            raise TooManyPending(
                f"{self._pending_total_max} predictions are pending (`pending_total_max`); reveal some"
            )

    def _each_oldest(
        self, tenant: str, take: Callable[[Live], bool], oldest: Callable[[Live], int | None], among: int
    ) -> int:
        """Take some of the oldest predictions of a tenant's loaded models, a small share of so many; how many."""
        models = [live for live in self._fleet.loaded.values() if live.tenant == tenant]
        ages = [(at, place) for place, live in enumerate(models) if (at := oldest(live)) is not None]
        heapify(ages)
        taken, enough = 0, max(1, round(among * ROOM_SHARE))
        while ages and taken < enough:
            _, place = heappop(ages)
            live = models[place]
            if take(live):
                taken += 1
                if (at := oldest(live)) is not None:
                    heappush(ages, (at, place))
        return taken

    async def _evict_oldest(self, limit: str) -> int:
        """Evict the oldest of all models; of how many models."""
        many = min(max(1, round(self._pending_total_max * ROOM_SHARE)), LOOKED_AT_ONCE)
        try:
            while True:
                now, before = self._clock.now(), self._evicted_through
                oldest, through = await self._journal.overdue(before, now, many, own=True)
                if await self._give_up(oldest, now, limit):
                    self._evicted_through = through
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
            if live.waiting:
                due_through = self._clock.ago(now, self._ttl_of(live)) - 1
                if learns_expired(live.model):
                    await self._labels.learn(self._due(live, due_through), live, now)
                else:
                    self._drop_through(live, due_through)
                    self._drop_through(live, self._evicted_through, "pending_total_max")
            if live.dropped and live.expiring is None:
                await self._record(live, now)
        await self._sweep_unloaded(now)
        await self._sweep_own_times(now)
        await self._journal.forget_expired(self._clock.ago(now, max(2 * self._ttl_us, REMEMBERED_US_MIN)))

    async def _record(self, live: Live, now: int) -> None:
        """Record what was given up as expired. If the wait is cut off, the event is still under way."""
        evicted, limit = live.evicted, live.evicted_by if live.evicted else ""
        asked = sorted(live.dropped_asked.items())
        live.expiring = PredictionsExpired(
            live.model.name, now, live.dropped, live.dropped_through, asked, evicted, limit
        )
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

    async def _sweep_own_times(self, now: int) -> None:
        """The same of models with `pending_ttl_seconds` of their own. Those that are loaded have been swept."""
        is_turn = self._journal.is_shared and self._sweeps % LOOKED_FOR_EVERY == 0
        if is_turn or len(self._own_due) >= self._own_due_max:
            own = await self._journal.own_times()
            self._own.clear()
            self._own_due.clear()
            for each in own:
                self._schedule(replace(each, ttl_us=min(each.ttl_us, self._own_ttl_us_max)))
            self._own_due_max = 2 * len(own) + OUTDATED_MAX
        self._sweeps += 1
        while self._fleet.unloaded_own_times:
            each = self._fleet.unloaded_own_times.pop()
            self._schedule(replace(each, ttl_us=min(each.ttl_us, self._own_ttl_us_max)))
        while self._own_due and self._own_due[0][0] <= now:
            due_at, life = self._own_due[0]
            one = self._own.get(life)
            if one is None or one.oldest + one.ttl_us != due_at:
                heappop(self._own_due)
                continue
            if one.model in self._fleet.loaded:
                del self._own[life]  # it is scheduled again when it is unloaded
                continue
            overdue, next_at = await self._journal.overdue_of(life, self._clock.ago(now, one.ttl_us) - 1)
            if overdue is not None and await self._labels.find(overdue) is None:
                await self._give_up([overdue], now)
            self._own.pop(life, None)
            if next_at is not None:
                self._schedule(replace(one, oldest=max(next_at, now - one.ttl_us + 1)))

    def _schedule(self, one: OwnTime) -> None:
        """Look at a model when the oldest of its predictions is due."""
        self._own[one.life] = one
        heappush(self._own_due, (one.oldest + one.ttl_us, one.life))

    async def _give_up(self, overdue: list[Overdue], now: int, limit: str = "") -> bool:
        """Give up predictions of models whether they are loaded or not; False if some are just being loaded."""
        unloaded: list[Overdue] = []
        for one in overdue:
            live = self._fleet.loaded.get(one.model)
            if live is None:
                unloaded.append(one)
            elif live.life == one.life:
                self._drop_through(live, one.through, limit)
        are_done = await asyncio.gather(*(self._fleet.expire_unloaded(one, now, limit) for one in unloaded))
        for one, is_done in zip(unloaded, are_done, strict=True):
            if limit and is_done:
                self._count_evicted(one.model, limit, one.count)
        return all(are_done)

    def _rest_oldest(self, live: Live) -> bool:
        """Let the oldest prediction that a model has in memory rest in the journal; False if all are in use."""
        for oldest in live.pending.values():
            if oldest.prediction_id not in self._in_use:
                self._fleet.waiting.rest(live, oldest)
                return True
        return False

    def _drop_oldest(self, live: Live, limit: str) -> bool:
        for prediction_id, at in _waiting_in(live):
            if prediction_id not in self._in_use:
                self._drop(live, prediction_id, at, limit)
                return True
        return False

    def _drop_through(self, live: Live, through: int, limit: str = "") -> None:
        """Give up a loaded model's predictions made up to a time."""
        for prediction_id, at in self._due(live, through):
            self._drop(live, prediction_id, at, limit)

    def _due(self, live: Live, through: int) -> list[tuple[str, int]]:
        """A loaded model's predictions made up to a time, but none that is in use: their ids and times."""
        due: list[tuple[str, int]] = []
        for prediction_id, at in _waiting_in(live):
            if at > through:
                break
            if prediction_id not in self._in_use:
                due.append((prediction_id, at))
        return due

    def _drop(self, live: Live, prediction_id: str, at: int, limit: str) -> None:
        self._fleet.waiting.let_go(live, prediction_id)
        live.drop(prediction_id, at, limit)
        self._fleet.changed(live)
        if limit:
            self._count_evicted(live.model.name, limit, 1)

    def _count_evicted(self, model: str, limit: str, count: int) -> None:
        self.evicted[limit] += count
        if (others := self._log_limit.turn()) is not None:
            fields = {"model": model, "limit": limit, "others": others}
            log.warning("a pending prediction of %s was evicted: %s is reached", model, limit, extra=fields)


def _waiting_in(live: Live) -> Iterator[tuple[str, int]]:
    """The ids and times of a model's waiting predictions, oldest first."""
    return chain(live.resting.items(), ((each.prediction_id, each.at) for each in live.pending.values()))


def _evicted(name: str, limit: str) -> PredictionExpired:
    return PredictionExpired(f"{name} was evicted before its label arrived: `{limit}` was reached")


def _oldest(live: Live) -> int | None:
    return live.oldest_waiting_at


def _oldest_in_memory(live: Live) -> int | None:
    return next((each.at for each in live.pending.values()), None)
