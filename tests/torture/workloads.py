"""What the recorded service is made to do: rounds of every sort, with snapshots and trims after few events."""

import asyncio
import json
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.engine.engine import Engine
from service.engine.jobs.fit_process import UnreadFit
from service.engine.transfer.json_export import import_model
from service.errors import RequestError, Unavailable
from service.events import AnyEvent
from service.journal.codec import encode
from tests.support.exporting import export_model
from tests.torture import recording
from tests.torture.engines import LIMITS, Plan, engine_over, journal_at
from tests.torture.truth import APPLIED, SERVED

MODELS = ("a", "b", "c")
CLIENTS = 3


def note(seq: int, event: AnyEvent) -> None:
    assert recording.recorder is not None
    recording.recorder.note(APPLIED, (seq, encode(event)))


class Client:
    """Does one thing after another, as chance has it. Its predictions are revealed late, or never."""

    def __init__(self, engine: Engine, name: str, chance: random.Random) -> None:
        self._engine = engine
        self._chance = chance
        self._name = name
        self._count = 0
        self._waiting: list[str] = []
        self._learned: list[tuple[str, list[float], int, str]] = []

    async def run(self, steps: int) -> None:
        kinds = {
            self._learn: 8,
            self._learn_without_id: 4,
            self._predict: 8,
            self._reveal: 8,
            self._block: 3,
            self._again: 3,
            self._reset: 1,
            self._new_life: 1,
            self._import: 1,
            self._expire: 1,
        }
        for _ in range(steps):
            step = self._chance.choices(list(kinds), list(kinds.values()))[0]
            with suppress(RequestError):  # somebody else has reset or deleted the model meanwhile
                await step(self._chance.choice(MODELS))

    def _example(self) -> tuple[list[float], int]:
        features = [self._chance.uniform(-1, 1) for _ in range(3)]
        return features, 1 if sum(features) > 0 else -1

    def _id(self) -> str:
        self._count += 1
        return f"{self._name}-{self._count}"

    async def _learn(self, model: str) -> None:
        (features, label), identity = self._example(), self._id()
        await self._engine.rounds.learn(model, features, label, identity)
        self._learned.append((model, features, label, identity))

    async def _learn_without_id(self, model: str) -> None:
        features, label = self._example()
        await self._engine.rounds.learn(model, features, label, None)

    async def _predict(self, model: str) -> None:
        identity = self._id() if self._chance.random() < 0.5 else None
        prediction = (await self._engine.rounds.predict(model, self._example()[0], identity)).prediction
        assert recording.recorder is not None
        recording.recorder.note(SERVED, encode(prediction))
        self._waiting.append(prediction.prediction_id)

    async def _reveal(self, model: str) -> None:
        if self._waiting:
            identity = self._waiting.pop(self._chance.randrange(len(self._waiting)))
            await self._engine.rounds.reveal(identity, self._example()[1])

    async def _block(self, model: str) -> None:
        rounds = [self._example() for _ in range(self._chance.randrange(2, 9))]
        await self._engine.blocks.learn(model, [x for x, _ in rounds], [y for _, y in rounds])

    async def _again(self, model: str) -> None:
        if self._learned:
            name, features, label, identity = self._chance.choice(self._learned[-5:])
            with suppress(Unavailable):  # its event is just being trimmed
                await self._engine.rounds.learn(name, features, label, identity)

    async def _reset(self, model: str) -> None:
        await self._engine.models.reset(model)

    async def _new_life(self, model: str) -> None:
        await self._engine.models.delete(model)
        await self._learn(model)

    async def _import(self, model: str) -> None:
        other = f"{model}-copy"
        export = export_model((await self._engine.models.get(model)).model)
        with suppress(RequestError):
            await self._engine.models.delete(other)
        imported = import_model(export, LIMITS, self._engine.clock.now())
        await self._engine.models.adopt(other, *imported)
        await self._engine.rounds.learn(other, *self._example(), self._id())

    async def _expire(self, model: str) -> None:
        await self._engine.rounds.expiry.sweep()


async def session(directory: Path, plan: Plan, chance: random.Random, *, steps: int, name: str = "") -> None:
    """A service from its start to a clean stop."""
    engine = engine_over(journal_at(directory, plan, note), plan)
    await engine.open()
    clients = [Client(engine, f"{name}{number}", random.Random(chance.random())) for number in range(CLIENTS)]
    await asyncio.gather(*(client.run(steps) for client in clients))
    await engine.close()


async def fit(directory: Path, plan: Plan) -> None:
    """A model that is trained by a job, between rounds."""
    engine = engine_over(journal_at(directory, plan, note), plan)
    await engine.open()
    examples = [{"features": [x, 1.0, -x], "label": 1 if x > 0 else -1} for x in (-2.0, -1.0, 1.0, 2.0)]
    await engine.rounds.learn("fitted", [1.0, 2.0, 3.0], 1, "before")
    job = await engine.fits.fit("fitted", UnreadFit(json.dumps({"examples": examples}).encode(), False, {}))
    while job.state == "running":
        await asyncio.sleep(0.01)
    assert job.state == "done", job.error
    for number in range(12):
        await engine.rounds.learn("fitted", [1.0, -2.0, float(number)], -1, f"after-{number}")
    await engine.close()


async def rounds(directory: Path, plan: Plan, chance: random.Random, steps: int) -> None:
    """A first start, a stop, a second start; a fit in between."""
    await session(directory, plan, chance, steps=steps, name="first-")
    await fit(directory, plan)
    await session(directory, plan, chance, steps=steps, name="second-")


async def one_session(directory: Path, plan: Plan, chance: random.Random, steps: int) -> None:
    await session(directory, plan, chance, steps=steps)


async def first_start(directory: Path, plan: Plan, chance: random.Random, steps: int) -> None:
    await session(directory, plan, chance, steps=1)


async def only_open(directory: Path, plan: Plan, chance: random.Random, steps: int) -> None:
    """What an older version has left is brought up to date."""
    engine = engine_over(journal_at(directory, plan, note), plan)
    await engine.open()
    await engine.close()


@dataclass(frozen=True, slots=True)
class Workload:
    plan: Plan
    run: Callable[[Path, Plan, random.Random, int], Coroutine[Any, Any, None]]


WORKLOADS = {
    "rounds": Workload(Plan(), rounds),
    "nothing-kept": Workload(Plan(snapshot_every_events=4, events_kept_max=0), one_session),
    "all-kept": Workload(Plan(events_kept_max=10_000), one_session),
    "first-start": Workload(Plan(), first_start),
    "migration": Workload(Plan(events_kept_max=1_000, models_loaded_max=1_000), only_open),
}
