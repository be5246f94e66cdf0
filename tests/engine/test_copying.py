"""A large model is copied beside the event loop, and the copy is of exactly one version."""

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from msgspec import structs

from service.engine.engine import Engine
from service.engine.fleet.large_models import read_in_thread
from service.engine.fleet.live import Live
from service.engine.fleet.loading import restored_at_once
from service.engine.models.model import Model
from service.errors import UnknownLabel, UnknownModel
from service.web.routes.model_settings import ModelLimits, ModelSettings
from tests.engine.test_shared_totals import ENGINE_SETTINGS
from tests.journal.journals import sqlite_at
from tests.support.waiting import PATIENCE_SECONDS, eventually_async

T = TypeVar("T")

LIMITS = ModelLimits(100_000, 1_000, 512, 33_554_432)
WIDE = 65_536
WIDE_SETTINGS = structs.replace(ENGINE_SETTINGS, features_max=WIDE)
EAGER = {"algorithm": "perceptron", "rule": "margin", "delta": 1.0}
"""All classes learn from the first example, so that no weight is 0."""


@asynccontextmanager
async def running(path: Path, **rules: Any) -> AsyncIterator[Engine]:
    engine = Engine(sqlite_at(path, events_kept_max=1_000), structs.replace(WIDE_SETTINGS, **rules))
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


async def make(engine: Engine, name: str, **settings: Any) -> Live:
    return await engine.models.create(name, ModelSettings(**settings).complete(LIMITS))


def example(live: Live, seed: int) -> Any:
    if live.model.settings["features"]["kind"] == "hashed":
        return {"said": " ".join(f"word{seed * 50 + at}" for at in range(50))}
    return np.random.default_rng(seed).normal(size=live.model.features.dimension).round(3).tolist()


async def learn(engine: Engine, live: Live, count: int, first: int = 0) -> None:
    labels = live.model.labels.values
    for seed in range(first, first + count):
        await engine.rounds.learn(live.model.name, example(live, seed), labels[seed % len(labels)], None)


SMALLER: dict[str, Any] = {"labels": [1, 2, 3, 4], "features": {"dimension": WIDE}, "learner": EAGER}
"""2 MB, which is large."""


def digest_of(model: Model) -> str:
    return hashlib.blake2b(model.to_bytes()).hexdigest()


class Reader:
    """Reads a model in a thread until it is told to end."""

    def __init__(self) -> None:
        self.reads, self.may_end = threading.Event(), threading.Event()

    def __call__(self, model: Model) -> tuple[int, str]:
        first = model.version, digest_of(model)
        self.reads.set()
        assert self.may_end.wait(PATIENCE_SECONDS)
        assert (model.version, digest_of(model)) == first, "it was changed meanwhile"
        return first

    async def begun(self) -> None:
        await eventually_async(self.reads.is_set)


def read(engine: Engine, live: Live, reader: Callable[[Model], T]) -> Coroutine[Any, Any, T]:
    return read_in_thread(live, engine.past._journal, reader)


async def turns_pass() -> None:
    for _ in range(200):
        await asyncio.sleep(0)


@pytest.mark.slow
async def test_copies_of_a_model_that_learns_are_each_of_one_version(tmp_path: Path) -> None:
    async with running(tmp_path, snapshot_every_events=7) as engine:
        live = await make(engine, "m", **SMALLER)
        copies: list[tuple[int, str]] = []

        async def copy() -> None:
            while not learned.done():
                copies.append(await read(engine, live, lambda model: (model.version, digest_of(model))))

        learned = asyncio.gather(*(learn(engine, live, 10, first=10 * client) for client in range(4)))
        await asyncio.gather(copy(), learned)
        assert len({version for version, _ in copies}) > 3
        for version, state in copies:
            assert digest_of(await engine.past.at("m", version)) == state
        snapshots = 0
        for version in range(41):
            milestone = await engine.past._journal.milestone("m", version)
            if milestone is not None and milestone.state is not None:
                then = Model.from_bytes(milestone.state)
                assert digest_of(await engine.past.at("m", then.version)) == digest_of(then)
                snapshots += 1
        assert snapshots > 3
        stored = await engine.past._journal.load("m")
        assert stored is not None
        assert digest_of(restored_at_once(stored).model) == digest_of(live.model)


async def test_while_a_model_is_copied_its_events_wait_and_nothing_else(tmp_path: Path) -> None:
    async with running(tmp_path) as engine:
        live, other = await make(engine, "m", **SMALLER), await make(engine, "other", **SMALLER)
        await learn(engine, live, 2)
        reader = Reader()
        copy = asyncio.create_task(read(engine, live, reader))
        await reader.begun()
        later = asyncio.create_task(learn(engine, live, 3, first=5))
        await learn(engine, other, 3)
        assert (await engine.rounds.predict("m", example(live, 9), None)).prediction.version == 2
        await turns_pass()
        assert not later.done() and live.model.version == 2
        reader.may_end.set()
        assert (await copy)[0] == 2
        await later
        assert live.model.version == 5 and live.held is None and not live.pins


async def test_whoever_asked_for_a_copy_may_go_away(tmp_path: Path) -> None:
    async with running(tmp_path) as engine:
        live = await make(engine, "m", **SMALLER)
        reader = Reader()
        copy = asyncio.create_task(read(engine, live, reader))
        await reader.begun()
        copy.cancel()
        later = asyncio.create_task(learn(engine, live, 1))
        await turns_pass()
        assert copy.cancelled() and not later.done(), "the thread still reads"
        reader.may_end.set()
        await later
        assert live.held is None and not live.pins


async def test_a_model_that_is_copied_is_neither_unloaded_nor_deleted_before_it_is_done(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, models_loaded_max=1) as engine:
        live = await make(engine, "m", **SMALLER)
        await learn(engine, live, 2)
        reader = Reader()
        copy = asyncio.create_task(read(engine, live, reader))
        await reader.begun()
        await learn(engine, await make(engine, "other", **SMALLER), 2)
        assert engine.fleet.loaded["m"] is live
        second = asyncio.create_task(read(engine, live, Reader()))
        saved = asyncio.create_task(engine.fleet.save(live))
        deleted = asyncio.create_task(engine.models.delete("m"))
        learned = asyncio.create_task(learn(engine, live, 1))
        second.cancel()
        await turns_pass()
        assert not deleted.done()
        reader.may_end.set()
        assert (await copy)[0] == 2
        await asyncio.gather(deleted, saved)
        await asyncio.gather(learned, return_exceptions=True)
        assert engine.fleet.loaded.get("m") is not live


async def test_a_deleted_model_is_not_copied(tmp_path: Path) -> None:
    async with running(tmp_path) as engine:
        live = await make(engine, "m", **SMALLER)
        await learn(engine, live, 2)
        deleted = asyncio.create_task(engine.models.delete("m"))
        await asyncio.sleep(0)
        with pytest.raises(UnknownModel):
            await read(engine, live, digest_of)
        await deleted
        await engine.fleet.save(live)
        assert engine.fleet.memory.outcomes.bytes == 0


async def test_a_stop_waits_for_a_copy_and_saves_what_came_after_it(tmp_path: Path) -> None:
    async with running(tmp_path) as engine:
        live = await make(engine, "m", **SMALLER)
        reader = Reader()
        copy = asyncio.create_task(read(engine, live, reader))
        await reader.begun()
        later = asyncio.create_task(learn(engine, live, 1))
        await turns_pass()
        stopped = asyncio.create_task(engine.fleet.save_all())
        reader.may_end.set()
        await asyncio.gather(copy, later, stopped)
        state = live.model.to_bytes()
    async with running(tmp_path) as engine:
        stored = await engine.past._journal.load("m")
        assert stored is not None and stored.state == state and not stored.tail


async def test_labels_that_wait_for_a_copy_do_not_become_too_many_classes(tmp_path: Path) -> None:
    async with running(tmp_path) as engine:
        settings = ModelSettings(labels=None, features={"dimension": WIDE}, learner=EAGER)
        live = await engine.models.create("m", settings.complete(structs.replace(LIMITS, classes_max=3)))
        for label in ("a", "b"):
            await engine.rounds.learn("m", example(live, 1), label, None)
        reader = Reader()
        copy = asyncio.create_task(read(engine, live, reader))
        await reader.begun()
        rounds = [
            asyncio.create_task(engine.rounds.learn("m", example(live, 2), label, None))
            for label in ("c", "d")
        ]
        await turns_pass()
        reader.may_end.set()
        await copy
        came = await asyncio.gather(*rounds, return_exceptions=True)
        assert sum(isinstance(each, UnknownLabel) for each in came) == 1
        assert len(live.model.labels.values) == 3


async def test_a_version_that_is_asked_for_is_read_even_if_the_model_learns_before_that(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as engine:
        live = await make(engine, "m", **SMALLER)
        await learn(engine, live, 2)
        then = digest_of(live.model)
        reader = Reader()
        copy = asyncio.create_task(read(engine, live, reader))
        await reader.begun()
        later = asyncio.create_task(learn(engine, live, 1, first=5))
        await turns_pass()
        asked = asyncio.create_task(engine.past.read("m", 2, digest_of))
        fork = asyncio.create_task(engine.going_back.fork("m", "fork", 2))
        await turns_pass()
        reader.may_end.set()
        await asyncio.gather(copy, later)
        assert await asked == then != digest_of(live.model)
        forked = (await fork).model
        assert [row.tolist() for _, row in forked.weights()] != [
            row.tolist() for _, row in live.model.weights()
        ]
        assert forked.revealed == 2
