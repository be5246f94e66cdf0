"""12a and b: what the statistics add to the cost of a reveal, in the engine."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np

from bench import examples
from bench.figures import Bench, Figure, ratio_under
from bench.samples import Thing, in_turn
from service.engine.engine import Engine
from service.engine.engine_settings import EngineSettings
from service.engine.models.model import Model
from service.events import ModelCreated, RoundRevealed
from service.journal.sqlite.journal import SqliteJournal
from service.learning.statistics import STATISTICS
from service.web.routes.model_settings import ModelLimits, ModelSettings

SETTINGS = ModelSettings().complete(ModelLimits(1000, 1000, 512, 10**8))
AT_ONCE = 32
UNIT = "µs of CPU"


class Counts:
    """The statistics that a reveal cannot do without; the others are there, but observe nothing."""

    def __init__(self) -> None:
        self.revealed = self.mistakes = self.updates = 0
        for name, statistic in STATISTICS.items():
            setattr(self, name, statistic())

    def observe(self, truth: int, served: int, *, updated: bool, **_: object) -> bool:
        self.revealed += 1
        self.mistakes += truth != served
        self.updates += updated
        return False


def strip(model: Model) -> None:
    """Leave the counts alone."""
    model.statistics = Counts()  # type: ignore[assignment]
    model.bound = None


def measure(bench: Bench) -> Iterator[Figure]:
    scale = bench.scale
    reveals = _reveals(scale.reveals_applied)
    taken = in_turn(
        {
            "fold, with": lambda _: _apply_us(reveals, bare=False),
            "fold, without": lambda _: _apply_us(reveals, bare=True),
            "engine, with": _through_the_engine(bench, bare=False),
            "engine, without": _through_the_engine(bench, bare=True),
        },
        scale,
    )
    for name, how, what in (
        ("12a", "fold", "applying the event alone"),
        ("12b", "engine", "with its journal"),
    ):
        with_them, without = taken[f"{how}, with"], taken[f"{how}, without"]
        what = f"reveal with statistics and bound ÷ without, in the engine, {what}"
        yield ratio_under(name, what, with_them, without, 1.5, UNIT)


def _reveals(count: int) -> list[RoundRevealed]:
    """What the journal has after so many rounds, each revealed a millisecond after its prediction."""
    model = _model()
    reveals = []
    for i in range(count):
        example = examples.examples()[i % examples.EXAMPLES]
        row = np.array(example.features)
        chosen, score, certainty = model.serve(model.features.vector(row))
        at = 1_700_000_000_000_000 + 2_000 * i
        reveal = RoundRevealed(
            "cost", at + 1_000, f"p{i}", example.label, at, row.tobytes(), model.labels.label(chosen), score,
            model.version, model.updates, certainty,
        )  # fmt: skip
        model.apply(reveal)
        reveals.append(reveal)
    return reveals


def _model() -> Model:
    model = Model(ModelCreated("cost", 1, SETTINGS))
    model.fix_dimension(examples.FEATURES)
    return model


def _apply_us(reveals: list[RoundRevealed], *, bare: bool) -> float:
    """Microseconds of CPU that applying a reveal takes."""
    model = _model()
    if bare:
        strip(model)
    began = time.process_time_ns()
    for reveal in reveals:
        model.apply(reveal)
    return (time.process_time_ns() - began) / 1000 / len(reveals)


def _through_the_engine(bench: Bench, *, bare: bool) -> Thing:
    """Microseconds of CPU of this process for a reveal: found, journaled, applied, answered; 32 at a time."""

    def thing(_: float) -> float:
        with bench.data("reveals") as data:
            return asyncio.run(_engine_us(data, bench.scale.reveals_applied // 4, bare=bare))

    return thing


async def _engine_us(data: Path, rounds: int, *, bare: bool) -> float:
    async with _engine(data) as engine:
        live = await engine.models.create("cost", SETTINGS)
        known = examples.examples()
        await engine.rounds.learn("cost", known[0].features, known[0].label, None)
        if bare:
            strip(live.model)
        spent_ns = 0
        for start in range(0, rounds, AT_ONCE):
            batch = [known[i % examples.EXAMPLES] for i in range(start, start + AT_ONCE)]
            served = [(await engine.rounds.predict("cost", each.features, None)).prediction for each in batch]
            began = time.process_time_ns()
            await asyncio.gather(
                *(
                    engine.rounds.reveal(prediction.prediction_id, example.label)
                    for prediction, example in zip(served, batch, strict=True)
                )
            )
            spent_ns += time.process_time_ns() - began
        return spent_ns / 1000 / (len(range(0, rounds, AT_ONCE)) * AT_ONCE)


@asynccontextmanager
async def _engine(data: Path) -> AsyncIterator[Engine]:
    """With the defaults of the service, but no snapshots: those would want statistics that are not there."""
    journal = SqliteJournal(
        data,
        durability="power",
        queue_events_max=20_000,
        queue_seconds_max=60,
        events_kept_max=100_000,
        expired_remembered_max=10_000,
    )
    settings = EngineSettings(models_max=10, models_loaded_max=10, snapshot_every_events=1_000_000)
    engine = Engine(journal, settings)
    await engine.open()
    try:
        yield engine
    finally:
        await journal.close()
