"""A snapshot that cannot be written takes its page of outcomes along: retries get their first answers all the same."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from service.engine.engine import Engine
from service.engine.model.outcomes import Round
from service.errors import JournalUnavailable
from service.journal.protocol import Snapshot
from tests.torture.engines import Plan, Watched, engine_over, journal_at
from tests.waiting import eventually_async

ROUNDS = 25


@asynccontextmanager
async def without_snapshots(
    path: Path, monkeypatch: pytest.MonkeyPatch, lost: set[int]
) -> AsyncIterator[Engine]:
    """A service whose snapshots with these numbers are not written."""
    plan = Plan(events_kept_max=10_000)
    journal = journal_at(path, plan)
    snapshots: list[int] = []

    def save_some(self: Watched, snapshot: Snapshot) -> None:
        if len(snapshots) not in lost:
            super(Watched, self).save_snapshot(snapshot)
        snapshots.append(snapshot.seq)

    monkeypatch.setattr(Watched, "save_snapshot", save_some)
    engine = engine_over(journal, plan)
    await engine.open()
    yield engine
    assert len(snapshots) > max(lost) + 1
    await engine.close()


async def learn(engine: Engine, number: int, tag: str | None = None) -> Round:
    features, label = [1.0, float(number % 3)], 1 if number % 2 else -1
    return await engine.rounds.learn("m", features, label, f"round-{number}", tag=tag)


@pytest.mark.parametrize("lost", [{0}, {1}, {0, 1, 2}])
async def test_a_round_before_a_snapshot_that_was_lost_gets_its_first_answer_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: set[int]
) -> None:
    async with without_snapshots(tmp_path, monkeypatch, lost) as engine:
        rounds = [await learn(engine, number) for number in range(ROUNDS)]
        for number, first in enumerate(rounds):
            assert await learn(engine, number) == replace(first, replayed=True)


async def test_after_rounds_were_forgotten_no_other_answer_is_given_than_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came of those before the rebuild cannot be replayed without the forgotten ones."""
    async with without_snapshots(tmp_path, monkeypatch, {1}) as engine:
        tags = {1: "ann", 2: "ann"}
        rounds = [await learn(engine, number, tags.get(number)) for number in range(ROUNDS)]
        await engine.forgetting.forget("m", "ann")
        live = await engine.fleet.get("m")
        await eventually_async(
            lambda: live.model.amended is not None and not live.model.amended.is_unfinished
        )
        answered = []
        for number in sorted({*range(ROUNDS)} - {*tags}):
            with suppress(JournalUnavailable):
                assert await learn(engine, number) == replace(rounds[number], replayed=True)
                answered.append(number)
        assert answered == [0, 3, *range(9, ROUNDS)]
