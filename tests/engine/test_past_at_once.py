"""Older versions and forgettings that are asked for at the same moment, of a real engine over a real file."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from service.engine.engine import Engine
from service.engine.model.checks import bytes_in_memory
from service.engine.rounds.id_locks import IdLocks
from tests.engine.test_shared_totals import RULES
from tests.journal.journals import sqlite_at


@asynccontextmanager
async def running(directory: Path, models_loaded_max: int = 10) -> AsyncIterator[Engine]:
    rules = replace(RULES, models_loaded_max=models_loaded_max)
    engine = Engine(sqlite_at(directory, events_kept_max=1_000), rules)
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


async def test_a_version_that_two_ask_for_at_once_is_counted_once(tmp_path: Path) -> None:
    async with running(tmp_path) as engine:
        for _ in range(8):
            await engine.rounds.learn("m", [1.0], 1, None)
        for version in range(1, 7):
            both = await asyncio.gather(*[engine.past.at("m", version) for _ in range(2)])
            assert [model.version for model in both] == [version, version]
        kept = engine.past._kept.values()
        assert engine.past._kept_bytes == sum(map(bytes_in_memory, kept))


async def test_who_waits_to_forget_finds_the_model_though_it_was_unloaded(tmp_path: Path) -> None:
    async with running(tmp_path, models_loaded_max=1) as engine:
        await engine.rounds.learn("m", [1.0], 1, None, tag="t")
        locks: IdLocks = engine.forgetting._locks
        await locks.acquire("m")  # another forgetting is under way
        second = asyncio.create_task(engine.forgetting.forget("m", "t"))
        while not locks._waiting["m"]:
            await asyncio.sleep(0)
        await engine.rounds.learn("other", [1.0], 1, None)
        assert "m" not in engine.fleet.loaded
        locks.release("m")
        assert (await second).rounds == 1


async def test_what_is_forgotten_is_in_no_older_version_before_it_is_erased(tmp_path: Path) -> None:
    async with running(tmp_path) as engine:
        for number in range(6):
            await engine.rounds.learn("m", [1.0], number % 2 or -1, None, tag="t" if number == 1 else None)
        async with engine.rebuilds._turn:  # so that the background waits with its part
            await engine.forgetting.forget("m", "t")
            live = await engine.fleet.get("m")
            await engine.rebuilds._once(live)
            assert live.model.amended is not None and live.model.amended.erasing
            assert (await engine.past.at("m", 4)).revealed == 3
