"""Sequence numbers: none is ever given twice, whatever was trimmed, deleted or mended."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from service.journal.sqlite.records import BirthRecord, DeathRecord, EventRecord, SnapshotRecord
from service.journal.sqlite.schema import open_writer
from service.journal.sqlite.sealing import seal_outcomes, seal_snapshot
from service.journal.sqlite.writing import Writing
from tests.commands.running import novikoff
from tests.journal.sqlite.older_schema import make_schema_4
from tests.support.service_process import Service


@pytest.fixture
def connection(tmp_path: Path) -> sqlite3.Connection:
    return open_writer(tmp_path / "journal.sqlite", "process")


def writing(connection: sqlite3.Connection) -> Writing:
    return Writing(connection, events_kept_max=0, expired_remembered_max=10)


def learned(life: int, *ids: str) -> list[EventRecord]:
    return [EventRecord(life, one, False, None, b"round") for one in ids]


def saved(life: int, seq: int, version: int) -> SnapshotRecord:
    state, outcomes = seal_snapshot(b"state", life, seq), seal_outcomes(b"", life, seq, version)
    return SnapshotRecord(life, seq, version, state, outcomes)


@pytest.mark.parametrize("snapshot_every_events", [50, 1_000])
def test_rounds_count_after_a_restart_that_finds_no_events(
    start: Callable[..., Service], snapshot_every_events: int
) -> None:
    service = start(events_kept_max=0, snapshot_every_events=snapshot_every_events)
    for count in range(1, 4):
        for i in range(200):
            service.learn("m", [1.0, float(i % 7)], 1 if i % 2 else -1)
        assert service.stats("m")["rounds"]["revealed"] == count * 200
        service.restart()
    service.post("/models/m/reset", {})
    assert service.weights("m")[0] == [0.0, 0.0]
    assert service.stop() == 0
    assert novikoff("doctor", "--data", service.data).status == 0


def test_numbers_go_on_after_the_events_with_the_highest_are_trimmed(
    connection: sqlite3.Connection,
) -> None:
    before = writing(connection)
    before.commit([BirthRecord("m", 1, b"", b"birth"), *learned(1, "a", "b")])
    before.commit([saved(1, 3, 2)])
    before.commit([])
    assert connection.execute("SELECT count(*) FROM event").fetchone() == (0,)
    assert [seq for _, seq in writing(connection).commit([*learned(1, "c")])] == [4]


def test_numbers_go_on_after_the_newest_model_is_deleted(connection: sqlite3.Connection) -> None:
    before = writing(connection)
    before.commit([BirthRecord("m", 1, b"", b"birth"), *learned(1, "a")])
    (death,) = before.commit([DeathRecord(1)])
    (birth,) = writing(connection).commit([BirthRecord("m", 1, b"", b"birth")])
    assert birth[1] > death[1] > 2


def test_two_that_give_the_same_number_are_told(connection: sqlite3.Connection) -> None:
    first = writing(connection)
    first.commit([BirthRecord("m", 1, b"", b"birth")])
    second = writing(connection)
    first.commit([*learned(1, "a")])
    with pytest.raises(sqlite3.IntegrityError):
        second.commit([*learned(1, "b")])
    rows = connection.execute("SELECT seq, prediction_id FROM event ORDER BY seq").fetchall()
    assert rows == [(1, None), (2, "a")]


def test_a_directory_without_events_goes_on_after_its_largest_number_when_it_is_brought_up_to_date(
    tmp_path: Path, connection: sqlite3.Connection
) -> None:
    """Schema 3 kept no mark, and a service with `events_kept_max=0` has left files without events."""
    before = writing(connection)
    before.commit([BirthRecord("m", 1, b"", b"birth"), *learned(1, "a", "b")])
    before.commit([saved(1, 3, 2)])
    before.commit([])
    make_schema_4(connection)
    connection.executescript("DROP TABLE journal; PRAGMA user_version = 3")
    connection.close()
    with closing(open_writer(tmp_path / "journal.sqlite", "process")) as again:
        assert [seq for _, seq in writing(again).commit([*learned(1, "c")])] == [4]


@pytest.mark.parametrize("lost", ["UPDATE journal SET numbered = 0", "DELETE FROM event"])
def test_the_doctor_finds_numbers_that_would_be_given_again(
    start: Callable[..., Service], tmp_path: Path, lost: str
) -> None:
    service = start(events_kept_max=0)
    for i in range(20):
        service.learn("m", [1.0, float(i % 7)], 1 if i % 2 else -1)
    service.restart()
    assert service.stop() == 0
    with closing(sqlite3.connect(service.data / "journal.sqlite")) as connection:
        connection.execute(lost)
        connection.commit()
    looked = novikoff("doctor", "--data", service.data)
    assert looked.status == (1 if "numbered" in lost else 0), looked.out
    assert novikoff("doctor", "--data", service.data, "--repair").status == 0
    service.start()
    assert service.learn("m", [1.0, 1.0], 1)["rounds"] == 21
