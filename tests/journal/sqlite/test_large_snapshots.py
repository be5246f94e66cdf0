"""Large snapshots go to the file in parts; others' events are committed in between."""

import random
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from service.events import AnyEvent, ModelCreated, ModelDeleted, PredictionsExpired
from service.journal.protocol import Snapshot
from service.journal.sqlite.journal import SqliteJournal
from service.journal.sqlite.large_snapshots import PART_BYTES
from tests.journal.journals import sqlite_at
from tests.support.waiting import eventually_async

STATE = random.Random(1).randbytes(20 * PART_BYTES + 17)
LIFE = 1


@asynccontextmanager
async def journal_at(path: Path) -> AsyncIterator[SqliteJournal]:
    journal = sqlite_at(path)
    await journal.open(lambda seq, event: None)
    try:
        if await journal.summary("m") is None:
            await journal.append(ModelCreated("m", 1, {}))
        yield journal
    finally:
        await journal.close()


def event(at: int = 2) -> AnyEvent:
    return PredictionsExpired("m", at, 0, 0)


def snapshot(seq: int, state: bytes = STATE) -> Snapshot:
    return Snapshot("m", LIFE, seq, seq, state, b"outcomes")


def count(path: Path, table: str) -> int:
    with closing(sqlite3.connect(f"file:{path / 'journal.sqlite'}?mode=ro", uri=True)) as file:
        (found,) = file.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(found)


async def test_a_large_snapshot_is_what_was_saved(tmp_path: Path) -> None:
    async with journal_at(tmp_path) as journal:
        await journal.append(event(), LIFE)
        journal.save_snapshot(snapshot(2))
        stored = await journal.load("m")
        assert stored is not None and stored.state == STATE and stored.seq == 2 and not stored.tail
    assert count(tmp_path, "snapshot_part") == 21
    async with journal_at(tmp_path) as journal:
        again = await journal.load("m")
        assert again is not None and again.state == STATE


async def test_others_are_committed_while_it_is_being_saved(tmp_path: Path) -> None:
    async with journal_at(tmp_path) as journal:
        journal.save_snapshot(snapshot(1))
        for number in range(3):
            assert (await journal.append(event(), LIFE)).seq == 2 + number
        assert count(tmp_path, "snapshot") == 0
        await journal.settle()
        assert count(tmp_path, "snapshot") == 1


async def test_parts_of_old_snapshots_go_in_time(tmp_path: Path) -> None:
    async with journal_at(tmp_path) as journal:
        for seq in range(2, 6):
            await journal.append(event(), LIFE)
            journal.save_snapshot(snapshot(seq))
            await journal.settle()
        assert count(tmp_path, "snapshot") == 2
        await eventually_async(lambda: count(tmp_path, "snapshot_part") == 42)
        stored = await journal.load("m")
        assert stored is not None and stored.seq == 5


async def test_parts_without_an_end_do_not_count_and_go_with_the_next_snapshot(tmp_path: Path) -> None:
    """A kill leaves them so."""
    async with journal_at(tmp_path) as journal:
        for seq in (2, 3):
            await journal.append(event(), LIFE)
            journal.save_snapshot(snapshot(seq))
        await journal.settle()
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as file:
        file.execute("DELETE FROM snapshot WHERE seq = 3")
        file.execute("DELETE FROM snapshot_part WHERE seq = 3 AND part > 7")
        file.commit()
    async with journal_at(tmp_path) as journal:
        stored = await journal.load("m")
        assert stored is not None and stored.seq == 2 and stored.state == STATE
        for seq in (4, 5):
            await journal.append(event(), LIFE)
            journal.save_snapshot(snapshot(seq, b"small"))
            await journal.settle()
        await eventually_async(lambda: count(tmp_path, "snapshot_part") == 0)


DAMAGES = {
    "a part is lost": "DELETE FROM snapshot_part WHERE seq = 3 AND part = 7",
    "all are lost": "DELETE FROM snapshot_part WHERE seq = 3",
    "one is longer": "UPDATE snapshot_part SET body = CAST(body || body AS BLOB) WHERE seq = 3 AND part = 7",
    "one is text": "UPDATE snapshot_part SET body = 'text' WHERE seq = 3 AND part = 7",
    "one is a number": "UPDATE snapshot_part SET body = 7 WHERE seq = 3 AND part = 7",
    "one is shorter": "UPDATE snapshot_part SET body = substr(body, 2) WHERE seq = 3 AND part = 20",
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_snapshot_with_a_damaged_part_is_passed_over(tmp_path: Path, damage: str) -> None:
    async with journal_at(tmp_path) as journal:
        for seq in (2, 3):
            await journal.append(event(), LIFE)
            journal.save_snapshot(snapshot(seq))
        await journal.settle()
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as file:
        file.execute(DAMAGES[damage])
        file.commit()
    async with journal_at(tmp_path) as journal:
        stored = await journal.load("m")
        assert stored is not None and stored.seq == 2 and [one.seq for one in stored.tail] == [3]


async def test_a_model_that_is_deleted_while_it_is_saved_leaves_nothing(tmp_path: Path) -> None:
    async with journal_at(tmp_path) as journal:
        journal.save_snapshot(snapshot(1))
        await journal.append(event(), LIFE)
        await journal.append(ModelDeleted("m", 3), LIFE)
        await journal.settle()
        tables = ("snapshot", "snapshot_part", "event", "ended")
        await eventually_async(lambda: not any(count(tmp_path, table) for table in tables))
