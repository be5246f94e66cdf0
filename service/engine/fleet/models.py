"""Creating, finding, listing, resetting and deleting models."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from secrets import token_hex
from typing import Any
from weakref import WeakValueDictionary

from msgspec import structs

from service.engine.clock import Clock
from service.engine.engine_settings import EngineSettings
from service.engine.fleet.fleet import Fleet
from service.engine.fleet.large_models import in_thread
from service.engine.fleet.live import Live
from service.engine.fleet.loading import salvage
from service.engine.fleet.shared_totals import SharedTotals
from service.engine.models.challenger import Warm
from service.engine.models.challenger_settings import complete_new, complete_promote
from service.engine.models.checks import Sent
from service.engine.models.model import Model
from service.engine.models.settings import RULES, ModelLimits
from service.engine.names import check_name
from service.errors import (
    ChallengerExists,
    InvalidRequest,
    JournalUnavailable,
    ModelExists,
    TooManyModels,
    UnknownChallenger,
    UnknownModel,
)
from service.events import (
    AnyEvent,
    ChallengerAdded,
    ChallengerPromoted,
    ChallengerRemoved,
    ModelCreated,
    ModelDeleted,
    ModelImported,
    ModelReset,
    PromotionRuled,
    WarmStart,
)
from service.journal.protocol import Journal, Listed, Page, Recorded, own_ttl_us

MADE_AT_ONCE = 8
"""How many models a replica creates at the same time where other replicas create some too.

A replica counts the models in the log and those that it is creating, not those that others are just creating. So
`models_max` can be exceeded by at most this many for each other replica.
"""


LOOKED_AT_ONCE = 1_000
LOOKS_MAX = 10
"""How many events are looked through in search of some kinds: so many at a time, so many times."""


class Models:
    """What the routes under /models do, within the limit `models_max`."""

    def __init__(
        self,
        journal: Journal,
        fleet: Fleet,
        clock: Clock,
        settings: EngineSettings,
        default_settings: dict[str, dict[str, Any]],
    ) -> None:
        """`default_settings`: of models that a first example creates, by the kind of its features."""
        self._journal = journal
        self._fleet = fleet
        self._clock = clock
        self._default_settings = default_settings if settings.auto_create else {}
        self._models_max = settings.models_max
        self._turn = asyncio.Semaphore(MADE_AT_ONCE) if journal.is_shared else nullcontext()
        self._changing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Of models whose challengers are being changed: the next caller sees the result."""
        self.totals = SharedTotals(journal, fleet)

    async def get(self, name: str) -> Live:
        return await self._fleet.get(name)

    async def get_or_create(self, name: str, first: Sent, check: Callable[[Model], object]) -> Live:
        """The model; if there is none, it is created for examples like `first`, unless `auto_create` is off.

        `check` raises what is wrong with the request for the model as it would be created: then it is not.
        """
        try:
            return await self._fleet.get(name)
        except UnknownModel:
            if not self._default_settings:
                raise
        check_name("model", name)
        settings = self._default_settings["named" if isinstance(first, dict) else "dense"]
        created = ModelCreated(name, self._clock.now(), settings, _ask_key(settings))
        check(Model(created))
        # Whether it is new does not matter: another request may have created it a moment ago.
        await self._add(created)
        return await self._fleet.get(name)

    async def create(self, name: str, settings: dict[str, Any]) -> Live:
        """Create a model; ModelExists if there is one of this name, which is not changed."""
        self._check_ttl(settings)
        if not await self._add(ModelCreated(name, self._clock.now(), settings, _ask_key(settings))):
            raise _exists(name)
        return await self._fleet.get(name)

    async def adopt(
        self, name: str, settings: dict[str, Any], state: bytes, forked_from: str | None = None
    ) -> Live:
        """Create a model from the state of another; ModelExists if there is one of this name, which is not changed."""
        if forked_from is None:
            self._check_ttl(settings)
        event = ModelImported(name, self._clock.now(), settings, state, forked_from)
        if not await self._add(event):
            raise _exists(name)
        return await self._fleet.get(name)

    def _check_ttl(self, settings: dict[str, Any]) -> None:
        """InvalidRequest if the journal forgets predictions sooner than they are to be kept."""
        own_us, most = own_ttl_us(settings), self._journal.pending_seconds_max
        if own_us is not None and own_us > most * 1e6:
            raise InvalidRequest.at(
                "pending_ttl_seconds",
                f"must be at most {most:g} on this cluster: twice the service's `pending_ttl_seconds`",
            )

    async def salvage(self, name: str) -> tuple[Model, str]:
        """What is left of a model that is set aside, and what is missing."""
        if (stored := await self._journal.load(name)) is None:
            raise UnknownModel(f"there is no model {name!r}")
        model, seq, missing = await in_thread(salvage, name, stored)
        return model, f"as of event {seq}: this export lacks the {missing} events after it"

    async def reset(self, name: str) -> Live:
        live = await self._fleet.get(name)
        key = _ask_key(live.model.settings)
        await self._fleet.append(live, ModelReset(name, self._clock.now(), RULES, key))
        return live

    async def add_challenger(self, name: str, challenger: str, given: Any, limits: ModelLimits) -> Live:
        """Add a challenger by what a client has given of its settings."""
        async with self._lock(name):
            live = await self._fleet.get(name)
            own = complete_new(challenger, given, live.model, limits)
            await self._fleet.append(live, ChallengerAdded(name, self._clock.now(), challenger, own))
        if live.model.settings["challengers"].get(challenger) != own:
            raise _changed(name)
        return live

    async def enter_challenger(
        self, name: str, challenger: str, own: dict[str, Any], warm: WarmStart, state: bytes, life: int
    ) -> tuple[Live, Warm]:
        """Let one enter that has learned from the history of this life of a model."""
        live = await self._fleet.get(name)
        if live.life != life:
            raise _changed(name)
        event = ChallengerAdded(name, self._clock.now(), challenger, own, warm, state)
        await self._fleet.append(live, event)
        contest = live.model.contest
        entered = None if contest is None else contest.challengers.get(challenger)
        # The event may have come second: then the one of that name is another.
        if (
            entered is None
            or entered.warm is None
            or entered.warm.state()[:-1] != list(structs.astuple(warm))
        ):
            raise _changed(name)
        return live, entered.warm

    async def remove_challenger(self, name: str, challenger: str) -> Live:
        live = await self._with_challenger(name, challenger)
        return await self._append(live, ChallengerRemoved(name, self._clock.now(), challenger))

    async def promote(self, name: str, challenger: str) -> Live:
        """Let a challenger change places with the champion; if it is the champion already, nothing changes."""
        async with self._lock(name):
            live = await self._fleet.get(name)
            if live.model.settings.get("champion") == challenger:
                return live
            live = await self._with_challenger(name, challenger)
            former, round = live.model.settings["champion"], live.model.revealed
            return await self._append(
                live, ChallengerPromoted(name, self._clock.now(), challenger, former, round)
            )

    def _lock(self, name: str) -> asyncio.Lock:
        return self._changing.setdefault(name, asyncio.Lock())

    async def rule_promotion(self, name: str, promote: Any) -> Live:
        """Say when challengers are promoted by themselves, by what a client has given of that."""
        live = await self._fleet.get(name)
        event = PromotionRuled(name, self._clock.now(), complete_promote(promote), RULES)
        return await self._append(live, event)

    async def _with_challenger(self, name: str, challenger: str) -> Live:
        live = await self._fleet.get(name)
        if challenger not in live.model.settings.get("challengers", {}):
            raise UnknownChallenger(f"the model {name!r} has no challenger {challenger!r}")
        return live

    async def _append(self, live: Live, event: AnyEvent) -> Live:
        await self._fleet.append(live, event)
        return live

    async def delete(self, name: str) -> None:
        await self._fleet.delete(ModelDeleted(name, self._clock.now()))

    async def _add(self, event: ModelCreated | ModelImported) -> bool:
        """Create a model if there are fewer than `models_max`, and its tenant leaves some to others.

        False if there is one of this name.
        """
        async with self._turn:
            count = self._fleet.model_count
            if not count.has_room(event.model, self._models_max) and not await self._is_known(event.model):
                raise TooManyModels(_too_many(count.total, self._models_max))
            return (await self._fleet.create(event)).is_new

    async def _is_known(self, name: str) -> bool:
        try:
            await self._fleet.get(name)
        except UnknownModel:
            return False
        return True

    async def page(self, page: Page) -> list[Listed]:
        if page.sort != "name":
            with suppress(JournalUnavailable):  # on a full disk they are sorted as they were last saved
                await self._fleet.summarise()
        return await self._journal.models(page)

    def why_unreadable(self, line: Listed) -> str | None:
        """What is known to be wrong with a model of a page; None if nothing is."""
        if line.settings is None:
            return "its settings are damaged in the list of models"
        return self._fleet.set_aside.reason(line.model)

    async def events(self, name: str, *, after: int, limit: int) -> list[Recorded]:
        """A model's retained events, oldest first."""
        await self._fleet.get(name)
        return await self._journal.events(name, after=after, limit=limit)

    async def events_of(
        self, name: str, kinds: frozenset[str], *, after: int, limit: int
    ) -> tuple[list[Recorded], int | None]:
        """Those of some kinds, and the number to go on after; None if there are no more.

        A call looks through so many events and no more, so it may find few of them, or none.
        """
        await self._fleet.get(name)
        found: list[Recorded] = []
        for _ in range(LOOKS_MAX):
            some = await self._journal.events(name, after=after, limit=LOOKED_AT_ONCE)
            for recorded in some:
                if recorded.event.__struct_config__.tag in kinds:
                    if len(found) == limit:
                        return found, after
                    found.append(recorded)
                after = recorded.seq
            if len(some) < LOOKED_AT_ONCE:
                return found, None
        return found, after


def _ask_key(settings: Mapping[str, Any]) -> str | None:
    return None if settings["ask"] is None else token_hex(16)


def _too_many(models: int, models_max: int) -> str:
    if models >= models_max:
        return f"model limit reached (`models_max`, {models_max}); delete a model or raise the limit"
    return f"model limit of this tenant reached (its share of `models_max`, {models_max}); delete a model"


def _exists(name: str) -> ModelExists:
    return ModelExists(f"the model {name!r} already exists; delete it first, or choose another name")


def _changed(name: str) -> ChallengerExists:
    return ChallengerExists(f"the model {name!r} was changed in the meantime; read it and try again")
