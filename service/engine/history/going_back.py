"""Going back: a model becomes what it was, or another one begins as it was."""

from service.engine.clock import Clock
from service.engine.fleet.fleet import Fleet
from service.engine.fleet.large_models import beside_the_loop, is_large
from service.engine.fleet.live import Live
from service.engine.fleet.models import Models
from service.engine.history.past import Past
from service.engine.model.model import Model
from service.errors import InvalidRequest
from service.events import ModelRolledBack
from service.journal.codec import encode_state


class GoingBack:
    """Rollbacks and forks. Both are events that carry the state, so that a replay needs nothing older."""

    def __init__(self, fleet: Fleet, models: Models, past: Past, clock: Clock) -> None:
        self._fleet = fleet
        self._models = models
        self._past = past
        self._clock = clock

    async def rollback(self, name: str, to: int) -> Live:
        """Make a model what it was at a version; waiting predictions are void. Its version rises by one."""
        live = await self._fleet.get(name)
        while True:
            if to == live.model.version:
                raise InvalidRequest.at("to", "the model is at this version")
            made, known = live.life, _in_force(live)
            then = await self._past.at(name, to, "to")
            revealed, as_of = then.revealed, then.updated_at  # before anything is awaited, like its state
            state = await _encoded(then)
            live = await self._released(name)
            if live.life != made:
                raise InvalidRequest.at("to", "the model was made anew meanwhile")
            if _in_force(live) == known:  # else that version is another one by now
                event = ModelRolledBack(name, self._clock.now(), to, state, revealed, as_of)
                await self._fleet.append(live, event)
                return live

    async def _released(self, name: str) -> Live:
        """The model, when no rebuild is just ending: until something is awaited, none can."""
        while (live := await self._fleet.get(name)).held is not None:
            await live.released()
        return live

    async def fork(self, name: str, new: str, at: int | None) -> Live:
        """Make another model that begins as this one was at a version, or is; ModelExists if there is one."""
        model = (await self._fleet.get(name)).model if at is None else await self._past.at(name, at)
        return await self._models.adopt(new, model.settings, await _encoded(model), forked_from=name)


def _in_force(live: Live) -> int:
    """How many corrections the model, and what is made of its past, has taken in."""
    return 0 if live.model.amended is None else live.model.amended.in_force


async def _encoded(model: Model) -> bytes:
    state = model.state()  # a copy: the model may go on
    return await beside_the_loop(encode_state, state) if is_large(model) else encode_state(state)
