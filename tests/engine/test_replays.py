"""Retries of rounds whose model is deleted, and made again, while the first answer is looked for."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from service.engine.clock import Clock
from service.engine.engine_settings import EngineSettings
from service.engine.fleet.fleet import Fleet
from service.engine.rounds.retries import Replays
from service.errors import UnknownPrediction
from service.events import DimensionFixed, ModelCreated, ModelDeleted, RoundLearned
from service.journal.protocol import Journal, Recorded
from service.web.routes.model_settings import ModelLimits, ModelSettings
from tests.journal.journals import JOURNALS

SETTINGS = ModelSettings().complete(ModelLimits(100, 100, 100, 10**8))


@pytest.fixture(params=JOURNALS)
def make_journal(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Journal]:
    return JOURNALS[request.param](request, tmp_path)


async def test_a_round_of_an_ended_life_is_unknown(make_journal: Callable[[], Journal]) -> None:
    journal = make_journal()
    fleet = Fleet(journal, Clock(), EngineSettings(models_loaded_max=10))
    await journal.open(fleet.apply)
    try:
        await fleet.create(ModelCreated("m", 1, SETTINGS))
        await fleet.append(await fleet.get("m"), DimensionFixed("m", 2, 2))
        await fleet.append(await fleet.get("m"), RoundLearned("m", 3, "retried", 1, np.ones(2).tobytes()))
        found = await journal.find("retried")
        assert isinstance(found, Recorded)
        replays = Replays(journal, fleet)
        assert (await replays.answer_again(found, 1, 1.0)).outcome.rounds == 1
        await fleet.delete(ModelDeleted("m", 4))
        await fleet.create(ModelCreated("m", 5, SETTINGS))
        with pytest.raises(UnknownPrediction):
            await replays.answer_again(found, 1, 1.0)
    finally:
        await journal.close()
