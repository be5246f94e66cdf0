"""What deleted models leave in the file goes in slices, and counts for nothing meanwhile."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from service.events import Prediction, RoundLearned
from service.journal.codec import encode
from service.journal.sqlite import reading
from service.journal.sqlite.deferred_deletes import REMOVED_MIN
from service.journal.sqlite.records import (
    NEW,
    REPEATED,
    BirthRecord,
    DeathRecord,
    EventRecord,
    PendingRecord,
    Record,
    SnapshotRecord,
)
from service.journal.sqlite.schema import open_reader, open_writer
from service.journal.sqlite.sealing import seal_outcomes, seal_snapshot
from service.journal.sqlite.writing import REMOVED_AT_ONCE, Writing
from tests.commands.running import worked
from tests.support.service_process import Service, problem_of
from tests.support.waiting import eventually

TABLES = ("event", "pending", "snapshot", "snapshot_part", "outcome", "ended")
ROUNDS = 1_000


class Journal:
    """A file with a model `m` of so many rounds, a waiting prediction, a snapshot and a page of outcomes."""

    def __init__(self, path: Path) -> None:
        self.path = path / "journal.sqlite"
        self.open()
        rounds = [event(f"p{number}") for number in range(ROUNDS)]
        self.writing.commit([BirthRecord("m", 1, b"", b"birth"), *rounds, waiting("w")])
        seq = ROUNDS + 1
        state, outcomes = seal_snapshot(b"state", 1, seq), seal_outcomes(b"outcomes", 1, seq, ROUNDS)
        self.writing.commit([SnapshotRecord(1, seq, ROUNDS, state, outcomes)])

    def open(self) -> None:
        self.connection = open_writer(self.path, "process")
        self.writing = Writing(self.connection, events_kept_max=10**6, expired_remembered_max=10)

    def rows(self) -> dict[str, int]:
        counts = {
            table: self.connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES
        }
        return {table: count for table, count in counts.items() if count}


def event(prediction_id: str, life: int = 1) -> Record:
    body = encode(RoundLearned("m", 2, prediction_id, 1, b""))
    return EventRecord(life, prediction_id, False, None, body)


def waiting(prediction_id: str, life: int = 1) -> Record:
    body = encode(Prediction(prediction_id, "m", 3, b"", 1, 0.5, 0, 0))
    return PendingRecord(prediction_id, life, 3, body)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path)


def test_the_commit_that_deletes_a_model_removes_few_of_its_rows(journal: Journal) -> None:
    before = journal.rows()
    assert journal.writing.commit([DeathRecord(1)]) == [(NEW, ROUNDS + 2)]
    gone = sum(before.values()) - sum(journal.rows().values()) + 1  # and one row came
    assert gone == REMOVED_MIN
    assert journal.rows()["ended"] == 1


def test_the_rest_goes_with_later_commits_or_while_there_is_nothing_to_write(journal: Journal) -> None:
    journal.writing.commit([DeathRecord(1), BirthRecord("other", 2, b"", b"birth")])
    journal.writing.commit([event("q", ROUNDS + 3)])
    slices = 0
    while journal.writing.deferred:
        before = sum(journal.rows().values())
        journal.writing.delete_deferred()
        assert before - sum(journal.rows().values()) <= REMOVED_AT_ONCE + 1
        slices += 1
    assert slices > 1
    assert journal.rows() == {"event": 2}  # of the other model


def test_what_a_kill_has_left_is_found_at_the_next_start(journal: Journal) -> None:
    journal.writing.commit([DeathRecord(1)])
    journal.connection.close()
    journal.open()
    assert journal.writing.deferred
    while journal.writing.deferred:
        journal.writing.delete_deferred()
    assert journal.rows() == {}


@pytest.mark.parametrize("budget", [1, 33, 40, 70, 400])
def test_every_snapshot_of_a_deleted_model_goes_however_large_the_slices(
    journal: Journal, budget: int
) -> None:
    rows = [(1, seq, b"state") for seq in range(2, 22)]
    journal.connection.executemany("INSERT INTO snapshot VALUES (?,?,?)", rows)
    journal.writing.commit([DeathRecord(1)])
    while journal.writing.deferred:
        journal.writing.deferred.remove(budget)
    assert journal.rows() == {}


def test_nothing_of_a_deleted_model_is_found(journal: Journal) -> None:
    with closing(open_reader(journal.path)) as reader:
        assert reading.find(reader, "p999") and reading.find(reader, "w")
        journal.writing.commit([DeathRecord(1)])
        assert journal.rows()["event"] > 900
        assert reading.find(reader, "p999") is None and reading.find(reader, "w") is None
        assert reading.overdue(reader, 0, 100, 100)[0] == []


def test_ids_of_a_deleted_model_can_be_used_again_at_once(journal: Journal) -> None:
    journal.writing.commit([DeathRecord(1), BirthRecord("m", 5, b"", b"birth")])
    life = ROUNDS + 3
    left = journal.rows()["event"]
    results = journal.writing.commit([event("p998", life), event("p999", life), waiting("w", life)])
    assert [status for status, _ in results] == [NEW, NEW, NEW]
    again = journal.writing.commit([event("p999", life)])
    assert again == [(REPEATED, results[1][1])]
    with closing(open_reader(journal.path)) as reader:
        found = reading.find(reader, "w")
        assert isinstance(found, reading.WaitingPrediction) and found.life == life
    assert journal.rows()["event"] < left
    while journal.writing.deferred:
        journal.writing.delete_deferred()
    assert journal.rows() == {"event": 3, "pending": 1}


def test_a_service_removes_all_of_a_large_deleted_model_by_itself(start: Callable[..., Service]) -> None:
    service = start()
    for first in range(0, 3_000, 1_000):
        items = [
            {"model": "m", "features": [1.0], "label": 1, "id": f"{number}"}
            for number in range(first, first + 1_000)
        ]
        service.post("/learn", {"items": items})
    waiting = service.predict("m", [2.0])["prediction_id"]
    assert service.client.delete("/models/m").status_code == 204
    assert problem_of(service.client.get("/models/m")) == (404, "unknown-model")
    assert service.refused("/feedback", {"prediction_id": waiting, "label": 1})[1] == "unknown-prediction"
    again = service.learn("m", [3.0], 1, id="2999")
    assert again["rounds"] == 1

    def rows() -> int:
        with closing(sqlite3.connect(f"file:{service.data / 'journal.sqlite'}?mode=ro", uri=True)) as file:
            return sum(file.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES)

    eventually(lambda: rows() <= 4)  # of the new model: its birth, its dimension, its round
    service.kill()
    worked("doctor", "--data", service.data)
