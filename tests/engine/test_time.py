"""A machine's clock that is set ahead or back: order, expiry and windows of a real engine over a real file."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from msgspec import structs

from service.engine.clock import Clock
from service.engine.engine import Engine
from service.errors import PredictionExpired, UnknownPrediction
from service.journal.sqlite.schema import open_reader
from tests.engine.test_shared_totals import DEFAULTS, ENGINE_SETTINGS
from tests.journal.journals import sqlite_at

HOUR_US = 3_600_000_000
YEAR_US = 8_766 * HOUR_US
SECOND_US = 1_000_000
TTL_SECONDS = 3_600
SETTINGS_HERE = structs.replace(ENGINE_SETTINGS, pending_ttl_seconds=TTL_SECONDS, pending_max=3)


class Machine:
    """Has a clock that can be set, and one that cannot; both are moved by hand."""

    def __init__(self) -> None:
        self.wall = 1_800_000_000 * SECOND_US
        self.steady = 0

    def wait(self, seconds: float) -> None:
        self.wall += round(seconds * SECOND_US)
        self.steady += round(seconds * SECOND_US)

    def clock(self) -> Clock:
        return Clock(wall=lambda: self.wall, steady=lambda: self.steady)


@asynccontextmanager
async def running(directory: Path, machine: Machine, *, events_kept_max: int = 100) -> AsyncIterator[Engine]:
    journal = sqlite_at(directory, events_kept_max=events_kept_max)
    engine = Engine(journal, SETTINGS_HERE, DEFAULTS, clock=machine.clock())
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


async def predict(engine: Engine, prediction_id: str) -> None:
    await engine.rounds.predict("m", [1.0], prediction_id)


async def test_a_reset_voids_what_was_predicted_while_the_clock_was_ahead(tmp_path: Path) -> None:
    machine = Machine()
    async with running(tmp_path, machine) as engine:
        await engine.rounds.learn("m", [1.0], 1, None)  # the newest event is of before the jump
        machine.wall += 5 * HOUR_US
        await predict(engine, "early")
    machine.wall -= 5 * HOUR_US
    async with running(tmp_path, machine) as engine:
        await engine.models.reset("m")
    async with running(tmp_path, machine) as engine:
        with pytest.raises(PredictionExpired):
            await engine.rounds.reveal("early", 1)
        await predict(engine, "late")
        assert (await engine.rounds.reveal("late", 1)).prediction_id == "late"


async def test_the_oldest_are_pushed_out_by_the_order_in_which_they_were_made(tmp_path: Path) -> None:
    machine = Machine()
    async with running(tmp_path, machine) as engine:
        await engine.rounds.learn("m", [1.0], 1, None)  # the newest event is of before the jump
        machine.wall += 5 * HOUR_US
        await predict(engine, "p0")
    machine.wall -= 5 * HOUR_US
    async with running(tmp_path, machine) as engine:
        for number in (1, 2, 3):
            await predict(engine, f"p{number}")
        await engine.rounds.expiry.sweep()  # which records that p0 was pushed out
    async with running(tmp_path, machine) as engine:
        with pytest.raises(PredictionExpired):
            await engine.rounds.reveal("p0", 1)
        for number in (1, 2, 3):
            assert (await engine.rounds.reveal(f"p{number}", 1)).prediction_id == f"p{number}"


@pytest.mark.parametrize("back_us", [5 * HOUR_US, 10 * YEAR_US])
@pytest.mark.parametrize("when", ["while it runs", "between two runs", "between two runs, without events"])
async def test_a_clock_that_is_set_back_freezes_neither_expiry_nor_windows(
    tmp_path: Path, back_us: int, when: str
) -> None:
    machine = Machine()
    machine.wall += back_us
    kept = 0 if when.endswith("without events") else 100
    async with running(tmp_path, machine, events_kept_max=kept) as engine:
        await engine.rounds.learn("m", [1.0], 1, None)
        if when == "while it runs":
            machine.wall -= back_us
            await leads_on(engine, machine)
            return
    machine.wall -= back_us
    async with running(tmp_path, machine, events_kept_max=kept) as engine:
        await leads_on(engine, machine)


async def leads_on(engine: Engine, machine: Machine) -> None:
    """Predictions expire in their time and windows move on, within the tenth that the clock may be slow."""
    await predict(engine, "waits")
    live = await engine.models.get("m")
    machine.wait(0.8 * TTL_SECONDS)
    await engine.rounds.expiry.sweep()
    assert "waits" in live.pending and live.expired == 0
    assert live.model.report(engine.clock.now())["windows"]["minute"]["rounds"] == 0
    assert live.model.report(engine.clock.now())["windows"]["hour"]["rounds"] == 1
    machine.wait(0.3 * TTL_SECONDS)
    await asyncio.gather(engine.rounds.expiry.sweep(), engine.rounds.expiry.sweep())  # a stop may cut one off
    assert not live.pending and live.expired == 1
    assert live.model.report(engine.clock.now())["windows"]["hour"]["rounds"] == 0
    with pytest.raises(PredictionExpired):
        await engine.rounds.reveal("waits", 1)


async def test_a_clock_that_is_set_ahead_takes_no_time_from_what_waits(tmp_path: Path) -> None:
    machine = Machine()
    async with running(tmp_path, machine) as engine:
        await predict(engine, "one")
        await predict(engine, "two")
        machine.wait(60)
        machine.wall += 5 * HOUR_US
        await engine.rounds.expiry.sweep()
        assert (await engine.rounds.reveal("one", 1)).prediction_id == "one"
        assert engine.clock.now() >= machine.wall, "its times are right"
        machine.wait(TTL_SECONDS)
        await engine.rounds.expiry.sweep()
        with pytest.raises(PredictionExpired):
            await engine.rounds.reveal("two", 1)


async def test_expired_predictions_are_told_from_unknown_ones_for_a_while_and_then_forgotten(
    tmp_path: Path,
) -> None:
    machine = Machine()
    async with running(tmp_path, machine) as engine:
        for number in range(2):
            await predict(engine, f"p{number}")
        machine.wait(1.1 * TTL_SECONDS)
        await engine.rounds.expiry.sweep()
        with pytest.raises(PredictionExpired):
            await engine.rounds.reveal("p0", 1)
        await predict(engine, "waits")
        assert ids_on_disk(tmp_path) >= {"p0", "p1"}
        machine.wait(0.95 * TTL_SECONDS)
        await engine.rounds.expiry.sweep()
        await engine.fleet.summarise()  # which is written after it
        assert ids_on_disk(tmp_path) <= {"waits"}, "which may not be there yet"
        with pytest.raises(UnknownPrediction):
            await engine.rounds.reveal("p0", 1)
        assert (await engine.rounds.reveal("waits", 1)).prediction_id == "waits"
        assert (await engine.models.get("m")).expired == 2


def ids_on_disk(directory: Path) -> set[str]:
    with closing(open_reader(directory / "journal.sqlite")) as connection:
        return {name for (name,) in connection.execute("SELECT prediction_id FROM pending")}
