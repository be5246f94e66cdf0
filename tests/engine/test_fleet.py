"""A model has one state in memory, whoever asks for it while it comes and goes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import coroutine
from typing import Any

from service.engine.clock import Clock
from service.engine.engine_settings import EngineSettings
from service.engine.fleet.fleet import Fleet
from service.engine.fleet.live import Live
from service.engine.rounds.examples import Examples
from service.errors import InvalidRequest, UnknownModel
from service.events import AnyEvent, ModelCreated, ModelDeleted, ModelReset
from service.web.routes.model_settings import ModelLimits, ModelSettings
from tests.journal.journals import sqlite_at
from tests.support.waiting import eventually_async

SETTINGS = ModelSettings().complete(ModelLimits(100, 100, 100, 10**8))
Before = Callable[[Fleet, AnyEvent], None]


@asynccontextmanager
async def fleet_at(path: Path, before: Before | None = None) -> AsyncIterator[Fleet]:
    """A fleet over a journal; `before` is called right before it takes in a durable event."""
    journal = sqlite_at(path)
    fleet = Fleet(
        journal,
        Clock(),
        EngineSettings(models_loaded_max=10, snapshot_every_events=1000),
    )

    def apply(seq: int, event: AnyEvent) -> Any:
        if before is not None:
            before(fleet, event)
        return fleet.apply(seq, event)

    await journal.open(apply)
    try:
        yield fleet
    finally:
        await journal.close()


async def test_a_model_that_is_asked_for_right_before_its_creation_is_one(tmp_path: Path) -> None:
    found: list[Live] = []
    under_way: list[asyncio.Task[None]] = []

    async def look(fleet: Fleet) -> None:
        found.append(await fleet.get("m"))

    @coroutine
    def rest(looking: Coroutine[Any, Any, None], awaited: Any) -> Generator[Any, None, None]:
        with suppress(StopIteration):
            while True:
                yield awaited
                awaited = looking.send(None)

    def look_at_once(fleet: Fleet, _: AnyEvent) -> None:
        looking = look(fleet)
        under_way.append(asyncio.create_task(rest(looking, looking.send(None))))

    async with fleet_at(tmp_path, look_at_once) as fleet:
        await fleet.create(ModelCreated("m", 1, SETTINGS))
        early = await fleet.get("m")
        await eventually_async(lambda: bool(found))
        assert found == [early] == [await fleet.get("m")]


async def test_a_first_example_of_a_model_that_is_made_anew_meanwhile_is_refused(tmp_path: Path) -> None:
    async with fleet_at(tmp_path) as fleet:
        await fleet.create(ModelCreated("m", 1, SETTINGS))
        live = await fleet.get("m")
        examples = Examples(fleet, Clock(), EngineSettings(features_max=10))
        reading = await asyncio.gather(
            fleet.append(live, ModelDeleted("m", 2)),
            fleet.create(ModelCreated("m", 3, SETTINGS)),
            examples.read(live, [1.0, 2.0]),
            return_exceptions=True,
        )
        assert isinstance(reading[-1], UnknownModel)
        assert (await fleet.get("m")).model.features.dimension is None


async def test_of_two_first_examples_that_cross_a_reset_one_fixes_the_dimension(tmp_path: Path) -> None:
    async with fleet_at(tmp_path) as fleet:
        await fleet.create(ModelCreated("m", 1, SETTINGS))
        live = await fleet.get("m")
        examples = Examples(fleet, Clock(), EngineSettings(features_max=10))
        _, first, second = await asyncio.gather(
            fleet.append(live, ModelReset("m", 2)),
            examples.read(live, [1.0, 2.0, 3.0]),
            examples.read(live, [1.0, 2.0]),
            return_exceptions=True,
        )
        assert len(first) == 3 and isinstance(second, InvalidRequest)


async def test_a_change_of_a_model_that_was_deleted_meanwhile_is_not_summarised(tmp_path: Path) -> None:
    async with fleet_at(tmp_path) as fleet:
        await fleet.create(ModelCreated("m", 1, SETTINGS))
        live = await fleet.get("m")
        live.pins += 1  # by a prediction that waits for room
        await fleet.delete(ModelDeleted("m", 2))
        fleet.changed(live)  # the room was made by giving up one of its older predictions
        await fleet.summarise()
        assert list(fleet.changed_since(0)) == []
