"""An event that is in the journal and cannot be applied sets its model aside, and stops no other."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from service.engine.clock import Clock
from service.engine.engine_settings import EngineSettings
from service.engine.fleet.fleet import Fleet
from service.engine.fleet.loading import salvage
from service.errors import ModelDamaged, UnknownModel
from service.events import DimensionFixed, ModelCreated, ModelDeleted, ModelImported, RoundLearned
from service.journal.protocol import Appended, Journal
from service.web.routes.model_settings import ModelLimits, ModelSettings
from tests.journal.journals import JOURNALS
from tests.support.waiting import eventually_async

SETTINGS = ModelSettings().complete(ModelLimits(100, 100, 100, 10**8))


@pytest.fixture(params=JOURNALS)
def make_journal(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Journal]:
    return JOURNALS[request.param](request, tmp_path)


@asynccontextmanager
async def fleet_over(make_journal: Callable[[], Journal]) -> AsyncIterator[tuple[Fleet, Journal]]:
    journal = make_journal()
    fleet = Fleet(
        journal,
        Clock(),
        EngineSettings(models_loaded_max=10, snapshot_every_events=1000),
    )
    await journal.open(fleet.apply)
    try:
        yield fleet, journal
    finally:
        await journal.close()


def round_of(model: str, at: int, numbers: int = 2) -> RoundLearned:
    return RoundLearned(model, at, None, 1, np.ones(numbers).tobytes())


async def test_only_the_model_of_the_event_is_set_aside(make_journal: Callable[[], Journal]) -> None:
    async with fleet_over(make_journal) as (fleet, journal):
        for name in ("well", "ill"):
            await fleet.create(ModelCreated(name, 1, SETTINGS))
            await fleet.append(await fleet.get(name), DimensionFixed(name, 2, 2))
            await fleet.append(await fleet.get(name), round_of(name, 3))
        well, ill = await fleet.get("well"), await fleet.get("ill")
        of_one_group = [
            fleet.submit(well, round_of("well", 4)),
            fleet.submit(ill, round_of("ill", 5, numbers=7)),
            fleet.submit(ill, round_of("ill", 6)),
            fleet.submit(well, round_of("well", 7)),
        ]
        first, bad, after, last = await asyncio.gather(*of_one_group, return_exceptions=True)
        assert isinstance(first, Appended) and isinstance(last, Appended)
        assert last.applied.rounds == 3
        assert isinstance(bad, ModelDamaged) and "in the journal" in bad.detail
        assert isinstance(after, ModelDamaged)
        with pytest.raises(ModelDamaged):
            await fleet.append(ill, round_of("ill", 8))
        with pytest.raises(ModelDamaged):
            await fleet.get("ill")
        assert len(fleet.set_aside) == 1

    async with fleet_over(make_journal) as (fleet, journal):
        with pytest.raises(ModelDamaged):
            await fleet.get("ill")
        well = await fleet.get("well")
        assert well.model.revealed == 3
        stored = await journal.load("ill")
        assert stored is not None
        left, _, missing = salvage("ill", stored)
        assert (left.revealed, missing) == (1, 2)
        await fleet.delete(ModelDeleted("ill", 9))
        await eventually_async(lambda: _is_gone(fleet))
        await fleet.create(ModelCreated("ill", 10, SETTINGS))
        assert (await fleet.get("ill")).model.revealed == 0


async def _is_gone(fleet: Fleet) -> bool:
    try:
        await fleet.get("ill")
    except UnknownModel:
        return True
    except ModelDamaged:
        return False
    return False


async def test_a_first_event_that_makes_no_model_stops_no_other(make_journal: Callable[[], Journal]) -> None:
    async with fleet_over(make_journal) as (fleet, journal):
        with pytest.raises(ModelDamaged):
            await fleet.create(ModelImported("ill", 1, SETTINGS, b"\x02no state"))
        await fleet.create(ModelCreated("well", 2, SETTINGS))
        assert (await fleet.get("well")).model.version == 0
        with pytest.raises(ModelDamaged):
            await fleet.get("ill")
    async with fleet_over(make_journal) as (fleet, journal):
        with pytest.raises(ModelDamaged):
            await fleet.get("ill")
        stored = await journal.load("ill")
        assert stored is not None
        with pytest.raises(ModelDamaged, match="nothing of the model"):
            salvage("ill", stored)
        await fleet.delete(ModelDeleted("ill", 3))
        assert (await fleet.get("well")).model.version == 0
