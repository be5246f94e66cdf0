"""Snapshots for older versions take no room in the file once they are of no use."""

from contextlib import closing
from pathlib import Path

from service.events import ModelCreated, RoundLearned
from service.journal.protocol import Snapshot
from service.journal.sqlite.large_snapshots import PART_BYTES
from service.journal.sqlite.schema import open_reader
from tests.journal.journals import sqlite_at

EVERY = 4


async def filled(directory: Path, *, events: int, kept: int, state_bytes: int, room: int) -> None:
    journal = sqlite_at(directory, events_kept_max=kept, history_bytes_max=room * (state_bytes + 64))
    await journal.open(lambda seq, event: None)
    life = (await journal.append(ModelCreated("m", 1, {}))).seq
    for version in range(1, events + 1):
        seq = (await journal.append(RoundLearned("m", version, None, 1, b"x"), life)).seq
        if version % EVERY == 0:
            journal.save_snapshot(Snapshot("m", life, seq, version, bytes(state_bytes), b""))
            await journal.settle()
    await journal.close()


def numbers(directory: Path, question: str) -> list[int]:
    with closing(open_reader(directory / "journal.sqlite")) as connection:
        return [number for (number,) in connection.execute(question)]


async def test_none_stays_that_the_events_no_longer_reach(tmp_path: Path) -> None:
    await filled(tmp_path, events=100, kept=30, state_bytes=100, room=32)
    (oldest,) = numbers(tmp_path, "SELECT min(seq) FROM event")
    snapshots = numbers(tmp_path, "SELECT seq FROM snapshot ORDER BY seq")
    assert len(snapshots) > 4 and snapshots[0] >= oldest - 1


async def test_the_parts_of_large_ones_go_with_them(tmp_path: Path) -> None:
    await filled(tmp_path, events=100, kept=1_000, state_bytes=3 * PART_BYTES, room=5)
    snapshots = numbers(tmp_path, "SELECT seq FROM snapshot ORDER BY seq")
    assert 3 <= len(snapshots) <= 5
    with closing(open_reader(tmp_path / "journal.sqlite")) as connection:
        (parts,) = connection.execute("SELECT count(*) FROM snapshot_part").fetchone()
    assert parts <= 4 * (len(snapshots) + 1), (
        "those of one that was dropped last may still be on their way out"
    )
    assert set(snapshots) <= set(numbers(tmp_path, "SELECT DISTINCT seq FROM snapshot_part"))
