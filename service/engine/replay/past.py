"""Older versions of models: made again by replaying events after the nearest snapshot before them, a few at a time."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

from service.engine.fleet.fleet import Fleet
from service.engine.fleet.fold import (
    LAG_SECONDS,
    LOOK_AGAIN_SECONDS,
    Fold,
    Trimmed,
    model_at,
    oldest_version,
    pages,
    step,
)
from service.engine.fleet.loading import as_damaged
from service.engine.models.model import Model
from service.engine.models.sizes import bytes_in_memory
from service.engine.replay.playing import milestone_before, right_model
from service.errors import InvalidRequest, JournalUnavailable, Overloaded, VersionGone
from service.journal.protocol import Journal, Milestone, Recorded
from service.runtime.byte_budget import Shares
from service.runtime.processes import JobLimits

MADE_AT_ONCE = 2
WAITING_MAX = 16
"""How many requests may wait for their turns or have them; with tenants, none takes more than half of what is left."""

KEPT_MAX = 16
KEPT_BYTES_MAX = 67_108_864
KEPT_SHARE = 8
"""What was made is kept while it is likely to be asked for again, the least recently used given up first: so many, so
many bytes, and the eighth part of the room for models that are loaded."""

T = TypeVar("T")

Key = tuple[int, int, int]
"""Life, version, and with how many corrections."""


class Moved(Exception):
    """The model is at a later version than when it was asked for."""


class Past:
    """Models as they were. Callers must not change them."""

    def __init__(self, journal: Journal, fleet: Fleet, limits: JobLimits) -> None:
        """`limits`: of the processes that make versions which corrections have changed since."""
        self._journal = journal
        self._fleet = fleet
        self._limits = limits
        self._bytes_max = min(KEPT_BYTES_MAX, fleet.memory.models.bytes_max // KEPT_SHARE)
        self._kept: OrderedDict[Key, Model] = OrderedDict()
        self._kept_bytes = 0
        self._places = Shares(fleet.tenants)
        self._turns = asyncio.Semaphore(MADE_AT_ONCE)

    async def at(self, name: str, version: int, field: str = "at") -> Model:
        """A model as it was last at a version: after the event that led there and those that raised it no further.

        VersionGone if that is no longer kept; InvalidRequest, of this `field`, if the version has not come yet. At the
        present version it is the model itself, which changes as soon as the caller awaits anything.
        """
        live = await self._fleet.get(name)
        if version > live.model.version:
            if not self._journal.is_shared:
                raise InvalidRequest.at(field, f"the model is at version {live.model.version}")
            await self._fleet.reach(name, version)
            live = await self._fleet.get(name)
        if version == live.model.version:
            return live.model
        amended = live.model.amended
        key = (live.life, version, 0 if amended is None else amended.in_force)
        is_corrected = amended is not None and amended.spoils(version) is not None
        return self._found(key) or await self._in_turn(name, key, is_corrected)

    async def read(
        self,
        name: str,
        version: int | None,
        read: Callable[[Model], T],
        field: str = "at",
        *,
        first: Callable[[Model], None] | None = None,
    ) -> T:
        """What a function reads of a model as it is, or was at a version; see `at` and `Fleet.read`.

        `first` is called with the model before that, and again if it has to be another one by then.
        """

        def read_then(model: Model) -> T:
            if version is not None and model.version != version:
                raise Moved
            return read(model)

        while True:
            if version is None:
                model = (await self._fleet.get(name)).model
            else:
                model = await self.at(name, version, field)
            if first is not None:
                first(model)
            try:
                return await self._fleet.read(model, read_then)
            except Moved:
                pass  # it learned while this waited, so that version is one of the past by now

    def _found(self, key: Key) -> Model | None:
        model = self._kept.get(key)
        if model is not None:
            self._kept.move_to_end(key)
        return model

    async def _in_turn(self, name: str, key: Key, is_corrected: bool) -> Model:
        tenant = self._fleet.tenants.of(name)
        if not self._places.may_take(tenant, 1, WAITING_MAX):
            raise Overloaded(f"{self._places.count} older versions are being rebuilt; try again later")
        self._places.add(tenant, 0)
        try:
            async with self._turns:
                model = self._found(key)
                if model is None:
                    with as_damaged(name):
                        model = await (self._make_right if is_corrected else self._make)(name, key[1])
                    self._keep(key, model)
                return model
        finally:
            self._places.remove(tenant, 0)

    async def _make_right(self, name: str, version: int) -> Model:
        model = await right_model(self._journal, self._fleet, self._limits, name, version)
        if model is None:
            raise await self.gone(name, version)
        return model

    def _keep(self, key: Key, model: Model) -> None:
        if key in self._kept:  # two have made it at the same time
            return
        self._kept[key] = model
        self._kept_bytes += bytes_in_memory(model)
        while len(self._kept) > KEPT_MAX or self._kept_bytes > self._bytes_max:
            _, given_up = self._kept.popitem(last=False)
            self._kept_bytes -= bytes_in_memory(given_up)

    async def _make(self, name: str, version: int) -> Model:
        deadline = monotonic() + (LAG_SECONDS if self._journal.is_shared else 0.0)
        while True:
            milestone = await self._journal.milestone(name, version)
            if milestone is None:
                raise await self.gone(name, version)
            try:
                model, is_there = await self._replayed(milestone, version)
            except Trimmed:
                continue  # then there is a later milestone, or none any more
            if model is not None and model.version > version:
                raise await self.gone(name, version)
            if model is not None and is_there:
                return model
            if monotonic() >= deadline:
                raise JournalUnavailable(f"the events up to version {version} cannot be read at the moment")
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    async def _replayed(self, milestone: Milestone, version: int) -> tuple[Model | None, bool]:
        """The model at a version, or as near to it as the events lead; whether the next one was seen that leads on."""

        def take(model: Model, recorded: Recorded) -> bool:
            return model.version > version or step(model, recorded.event, version)

        fold = Fold(await model_at(milestone), take)
        if fold.model is not None and fold.model.version > version:
            return fold.model, False
        await fold.run_in_slices(pages(self._journal, milestone))
        return fold.model, fold.is_enough

    async def gone(self, name: str, version: int) -> VersionGone:
        """The error for a client: which version is the oldest available."""
        present = (await self._fleet.get(name)).model
        oldest = await oldest_version(self._journal, present)
        if present.amended is not None and await milestone_before(self._journal, present, oldest) is None:
            ends = dict(present.amended.spans)
            while (since := present.amended.spoils(oldest)) is not None:
                oldest = max(oldest + 1, ends[since])
        return VersionGone(version, oldest)
