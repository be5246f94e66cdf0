"""Older versions and forgettings that are asked for at the same moment, of a real engine over a real file."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import structs

from service.engine.engine import Engine
from service.engine.fleet.large_models import ModelLock
from service.engine.models.sizes import bytes_in_memory
from service.engine.replay.playing import Playing, milestone_before
from service.engine.rounds.retries import IdLocks
from service.events import ModelRebuilt
from service.runtime.processes import JobLimits
from tests.engine.test_shared_totals import DEFAULTS, ENGINE_SETTINGS
from tests.journal.journals import sqlite_at
from tests.support.waiting import eventually_async


@asynccontextmanager
async def running(
    directory: Path, models_loaded_max: int = 10, events_kept_max: int = 1_000, **more: int
) -> AsyncIterator[Engine]:
    settings = structs.replace(
        ENGINE_SETTINGS, models_loaded_max=models_loaded_max, snapshot_every_events=5, **more
    )
    engine = Engine(sqlite_at(directory, events_kept_max=events_kept_max), settings, DEFAULTS)
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


async def test_older_versions_take_a_share_of_the_room_for_loaded_models(tmp_path: Path) -> None:
    room = 400_000
    async with running(tmp_path, models_loaded_bytes_max=room) as engine:
        for _ in range(12):
            await engine.rounds.learn("m", [1.0, 2.0], 1, None)
        for version in range(1, 11):
            assert (await engine.past.at("m", version)).version == version
        assert 0 < engine.past._kept_bytes <= room // 8
        assert len(engine.past._kept) < 10


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


@pytest.mark.slow
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


@pytest.mark.slow
async def test_a_rollback_that_waits_for_the_end_of_a_rebuild_goes_back_to_the_right_labels(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as engine, engine.rebuilds._turn:  # the background waits with its part
        for number in range(4):
            await engine.rounds.learn("m", [1.0], -1, f"p{number}")
        live = await engine.fleet.get("m")
        await engine.corrections.correct("p1", 1, None)
        milestone = await milestone_before(engine.past._journal, live.model, 1)
        assert milestone is not None
        replay = await Playing.start(engine.past._journal, milestone, JobLimits())
        async with ModelLock(live):
            rollback = asyncio.create_task(engine.going_back.rollback("m", 2))
            await eventually_async(lambda: bool(engine.past._kept))
            for _ in range(100):  # turns of the loop, in which it goes on until it waits
                await asyncio.sleep(0)
            state = await replay.state(live.seq, ())
            place = live.model.place[:1]
            await engine.fleet.submit(live, ModelRebuilt("m", engine.clock.now(), place, 1, 2, state))
        await replay.end()
        then = (await rollback).model.report(0)["confusion"]["matrix"]
        assert [sum(of_label) for of_label in then] == [1, 1]


@pytest.mark.slow
async def test_what_a_rebuild_needs_stays_until_it_has_its_turn(tmp_path: Path) -> None:
    async with running(tmp_path, events_kept_max=20) as engine:
        async with engine.rebuilds._turn:
            for number in range(80):
                await engine.rounds.learn("m", [1.0], -1, f"p{number}")
                if number == 52:
                    await engine.corrections.correct("p48", 1, None)
            live = await engine.fleet.get("m")
            assert live.model.amended is not None and live.model.amended.is_due
        await eventually_async(lambda: not (live.model.amended and live.model.amended.is_unfinished))
        matrix = live.model.report(0)["confusion"]["matrix"]
        assert [sum(of_label) for of_label in matrix] == [79, 1]
