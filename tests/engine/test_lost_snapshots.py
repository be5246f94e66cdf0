"""A snapshot that cannot be written takes its page of outcomes along: retries get their first answers all the same."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from service.engine.engine import Engine
from service.engine.models.outcomes import Round
from service.errors import JournalUnavailable
from tests.support.waiting import eventually_async
from tests.torture.engines import Plan, engine_over, journal_at

ROUNDS = 25


PLAN = Plan(events_kept_max=10_000)


@asynccontextmanager
async def running(path: Path) -> AsyncIterator[Engine]:
    engine = engine_over(journal_at(path, PLAN), PLAN)
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


def lose_snapshots(path: Path, numbers: set[int]) -> None:
    """Remove snapshots and their pages from the file, as if they had not been written: counted from the oldest."""
    with closing(sqlite3.connect(path / "journal.sqlite")) as file:
        pages = [through for (through,) in file.execute("SELECT through FROM outcome ORDER BY through")]
        assert len(pages) > max(numbers) + 1
        for number in numbers:
            file.execute("DELETE FROM outcome WHERE through = ?", (pages[number],))
            file.execute("DELETE FROM snapshot WHERE seq = ?", (pages[number],))
        file.commit()


async def learn(engine: Engine, number: int, tag: str | None = None) -> Round:
    features, label = [1.0, float(number % 3)], 1 if number % 2 else -1
    return await engine.rounds.learn("m", features, label, f"round-{number}", tag=tag)


@pytest.mark.parametrize("lost", [{0}, {1}, {0, 1, 2}])
async def test_a_round_before_a_snapshot_that_was_lost_gets_its_first_answer_again(
    tmp_path: Path, lost: set[int]
) -> None:
    async with running(tmp_path) as engine:
        rounds = [await learn(engine, number) for number in range(ROUNDS)]
    lose_snapshots(tmp_path, lost)
    async with running(tmp_path) as engine:
        for number, first in enumerate(rounds):
            assert await learn(engine, number) == replace(first, replayed=True)


@pytest.mark.slow
async def test_after_rounds_were_forgotten_no_other_answer_is_given_than_the_first(tmp_path: Path) -> None:
    """What came of those before the rebuild cannot be replayed without the forgotten ones."""
    tags = {1: "ann", 2: "ann"}
    async with running(tmp_path) as engine:
        rounds = [await learn(engine, number, tags.get(number)) for number in range(ROUNDS)]
    lose_snapshots(tmp_path, {1})
    async with running(tmp_path) as engine:
        await engine.forgetting.forget("m", "ann")
        live = await engine.fleet.get("m")
        await eventually_async(
            lambda: live.model.amended is not None and not live.model.amended.is_unfinished
        )
        refused = []
        for number in sorted({*range(ROUNDS)} - {*tags}):
            try:
                assert await learn(engine, number) == replace(rounds[number], replayed=True)
            except JournalUnavailable:
                refused.append(number)
        assert refused == [*range(refused[0], refused[0] + 5)], "those of the lost page"
