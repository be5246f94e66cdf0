"""Each event names the one of its model before it, whatever is committed together."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from service.journal.seals import Damaged
from service.journal.sqlite.records import NEW, REPEATED, BirthRecord, EventRecord
from service.journal.sqlite.schema import SCHEMA_VERSION, open_writer
from service.journal.sqlite.sealing import unseal_event
from service.journal.sqlite.writing import Writing
from tests.journal.sqlite.older_schema import make_schema_4


@pytest.fixture
def connection(tmp_path: Path) -> sqlite3.Connection:
    return open_writer(tmp_path / "journal.sqlite", "process")


def writing(connection: sqlite3.Connection) -> Writing:
    return Writing(connection, events_kept_max=100, expired_remembered_max=10)


def learned(life: int, *ids: str | None) -> list[EventRecord]:
    return [EventRecord(life, one, False, None, b"round") for one in ids]


def links(connection: sqlite3.Connection, life: int) -> list[tuple[int, int]]:
    """Each event and the one before it; all of them are sealed."""
    rows = connection.execute(
        "SELECT body, seq, model, prediction_id, previous FROM event WHERE model = ? ORDER BY seq", (life,)
    ).fetchall()
    for row in rows:
        unseal_event(*row)
    return [(row[1], row[4]) for row in rows]


def test_an_event_that_is_a_repetition_leaves_no_gap(connection: sqlite3.Connection) -> None:
    journal = writing(connection)
    journal.commit([BirthRecord("m", 1, b"", b"birth"), BirthRecord("n", 1, b"", b"birth")])
    journal.commit([*learned(1, "a"), *learned(2, "x")])
    results = journal.commit([*learned(1, "b", "a", None, "b", "c"), *learned(2, "x", "y")])
    assert [status for status, _ in results] == [NEW, REPEATED, NEW, REPEATED, NEW, REPEATED, NEW]
    for life in (1, 2):
        found = links(connection, life)
        assert [before for _, before in found] == [0, *(seq for seq, _ in found[:-1])]
    assert [seq for status, seq in results if status == NEW] == [
        seq for seq in sorted(seq for life in (1, 2) for seq, _ in links(connection, life)) if seq > 4
    ]
    journal.commit([*learned(1, "d")])
    seqs = [seq for seq, _ in links(connection, 1)]
    assert links(connection, 1)[-1] == (seqs[-1], seqs[-2])


def test_a_file_of_schema_4_is_sealed_and_linked(tmp_path: Path, connection: sqlite3.Connection) -> None:
    journal = writing(connection)
    journal.commit([BirthRecord("m", 1, b"", b"birth"), BirthRecord("n", 1, b"", b"birth")])
    journal.commit([*learned(1, "a", "b"), *learned(2, "c"), *learned(1, None)])
    before = links(connection, 1), links(connection, 2)
    make_schema_4(connection)
    with pytest.raises((Damaged, sqlite3.Error)):
        links(connection, 1)
    connection.close()
    with closing(open_writer(tmp_path / "journal.sqlite", "process")) as again:
        assert again.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        assert (links(again, 1), links(again, 2)) == before
