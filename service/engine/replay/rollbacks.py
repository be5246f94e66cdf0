"""Rollbacks and forks: a model becomes what it was, or another one begins as it was."""

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from service.engine.clock import Clock
from service.engine.fleet.fleet import Fleet
from service.engine.fleet.large_models import is_large
from service.engine.fleet.live import Live
from service.engine.fleet.models import Models
from service.engine.models.model import Model
from service.engine.replay.past import Past
from service.errors import InvalidRequest
from service.events import ModelRolledBack


class GoingBack:
    """Rollbacks and forks. Both are events that carry the state, so that a replay needs nothing older."""

    def __init__(self, fleet: Fleet, models: Models, past: Past, clock: Clock) -> None:
        self._fleet = fleet
        self._models = models
        self._past = past
        self._clock = clock
        self._large_turn = asyncio.Lock()

    async def rollback(self, name: str, to: int) -> Live:
        """Make a model what it was at a version; waiting predictions are void. Its version rises by one."""
        live = await self._fleet.get(name)
        async with self._turn(live):
            return await self._roll_back(live, to)

    def _turn(self, live: Live) -> AbstractAsyncContextManager[None]:
        """Large ones go one after the other: on its way to the journal, a state is there five times for a while."""
        return self._large_turn if is_large(live.model) else nullcontext()

    async def _roll_back(self, live: Live, to: int) -> Live:
        name = live.model.name
        while True:
            if to == live.model.version:
                raise InvalidRequest.at("to", "the model is already at this version")
            made, known = live.life, _in_force(live)
            _, revealed, updated_at, state = await self._past.read(name, to, _taken, "to")
            live = await self._released(name)
            if live.life != made:
                raise InvalidRequest.at("to", "the model was reset in the meantime")
            if _in_force(live) == known:  # else that version is another one by now
                event = ModelRolledBack(name, self._clock.now(), to, state, revealed, updated_at)
                await self._fleet.append(live, event)
                return live

    async def _released(self, name: str) -> Live:
        """The model, when no rebuild is just ending: until something is awaited, none can."""
        while (live := await self._fleet.get(name)).held is not None:
            await live.released()
        return live

    async def fork(self, name: str, new: str, at: int | None) -> Live:
        """Make another model that begins as this one was at a version, or is; ModelExists if there is one."""
        async with self._turn(await self._fleet.get(name)):
            settings, _, _, state = await self._past.read(name, at, _taken)
            return await self._models.adopt(new, settings, state, forked_from=name)


def _in_force(live: Live) -> int:
    """How many corrections the model, and what is made of its past, has taken in."""
    return 0 if live.model.amended is None else live.model.amended.in_force


def _taken(model: Model) -> tuple[dict[str, Any], int, int, bytes]:
    return model.settings, model.revealed, model.updated_at, model.to_bytes()
