"""A snapshot that cannot be written takes its page of outcomes along: retries get their first answers all the same."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from service.journal.protocol import Snapshot
from tests.torture.engines import Plan, Watched, engine_over, journal_at

ROUNDS = 25


@pytest.mark.parametrize("lost", [{0}, {1}, {0, 1, 2}])
async def test_a_round_before_a_snapshot_that_was_lost_gets_its_first_answer_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: set[int]
) -> None:
    plan = Plan(events_kept_max=10_000)
    journal = journal_at(tmp_path, plan)
    snapshots: list[int] = []

    def save_some(self: Watched, snapshot: Snapshot) -> None:
        if len(snapshots) not in lost:
            super(Watched, self).save_snapshot(snapshot)
        snapshots.append(snapshot.seq)

    monkeypatch.setattr(Watched, "save_snapshot", save_some)
    engine = engine_over(journal, plan)
    await engine.open()
    rounds = [
        await engine.rounds.learn("m", [1.0, float(number % 3)], 1 if number % 2 else -1, f"round-{number}")
        for number in range(ROUNDS)
    ]
    assert len(snapshots) > max(lost) + 1
    await journal.settle()
    for number, first in enumerate(rounds):
        again = await engine.rounds.learn(
            "m", [1.0, float(number % 3)], 1 if number % 2 else -1, f"round-{number}"
        )
        assert again == replace(first, replayed=True)
    await engine.close()
