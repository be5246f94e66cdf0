"""Old events are forgotten some at a time, so that no commit has much more to do than another."""

import sqlite3
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from service.journal.sqlite.deferred_deletes import REMOVED_MIN
from service.journal.sqlite.records import BirthRecord, EventRecord, SnapshotRecord
from service.journal.sqlite.schema import open_writer
from service.journal.sqlite.sealing import seal_outcomes, seal_snapshot
from service.journal.sqlite.writing import Writing
from tests.commands.running import worked
from tests.support.service_process import Service

KEPT = 500


class Journal:
    """A file and what writes it; a round a record, and a snapshot when it is told."""

    def __init__(self, path: Path, kept: int = KEPT) -> None:
        self.path = path / "journal.sqlite"
        self.kept = kept
        self.open()
        self.writing.commit([BirthRecord("m", 1, b"", b"birth")])
        self.rounds = 0

    def open(self) -> None:
        self.connection = open_writer(self.path, "process")
        self.writing = Writing(self.connection, events_kept_max=self.kept, expired_remembered_max=10)

    def reopen(self) -> None:
        self.connection.close()
        self.open()

    def commit(self, rounds: int, *, snapshot: bool = False) -> None:
        first, self.rounds = self.rounds, self.rounds + rounds
        ids = (f"p{number}" for number in range(first, self.rounds))
        group = [EventRecord(1, one, False, None, b"round") for one in ids]
        seq, version = self.rounds + 1, self.rounds
        state, outcomes = seal_snapshot(b"state", 1, seq), seal_outcomes(b"outcomes", 1, seq, version)
        saved = [SnapshotRecord(1, seq, version, state, outcomes)]
        self.writing.commit([*group, *saved] if snapshot else [*group])

    def events(self) -> list[int]:
        return [seq for (seq,) in self.connection.execute("SELECT seq FROM event ORDER BY seq")]

    def pages(self) -> list[int]:
        return [
            through for (through,) in self.connection.execute("SELECT through FROM outcome ORDER BY through")
        ]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """With 999 rounds, of which 500 may go once there is one more and a snapshot."""
    journal = Journal(tmp_path)
    journal.commit(500, snapshot=True)
    journal.commit(499)
    return journal


def test_no_commit_forgets_many_and_all_is_forgotten_in_the_end(journal: Journal) -> None:
    journal.commit(1, snapshot=True)
    counts = [len(journal.events())]
    while len(counts) < 2 or counts[-1] < counts[-2] + 1:
        journal.commit(1)
        counts.append(len(journal.events()))
    forgotten = [before + 1 - after for before, after in pairwise(counts)]
    assert max(forgotten) == REMOVED_MIN
    assert counts[-1] == journal.rounds - KEPT  # and the birth has gone with the first rounds
    assert journal.events() == list(range(502, journal.rounds + 2))


def test_a_large_commit_forgets_twice_what_it_brings(journal: Journal) -> None:
    journal.commit(1, snapshot=True)
    before = len(journal.events())
    journal.commit(100)
    assert len(journal.events()) == before + 100 - 200


def test_outcomes_stay_as_long_as_one_of_their_events(journal: Journal) -> None:
    journal.commit(1, snapshot=True)
    while journal.events()[0] <= 501:
        assert journal.pages()[0] == 501
        journal.commit(1)
    journal.commit(1)
    assert journal.pages() == [1001]


def test_what_was_begun_before_a_restart_or_a_failure_ends_after_the_next_snapshot(journal: Journal) -> None:
    journal.commit(1, snapshot=True)
    journal.reopen()
    journal.commit(1, snapshot=True)
    journal.connection.execute(
        "CREATE TRIGGER full BEFORE INSERT ON event BEGIN SELECT RAISE(FAIL, 'full'); END"
    )
    with pytest.raises(sqlite3.Error):
        journal.commit(1)
    journal.reopen()  # as the process that writes does after every failure
    journal.connection.execute("DROP TRIGGER full")
    journal.rounds -= 1
    assert journal.events()[0] < 500
    journal.commit(1, snapshot=True)
    for _ in range(20):
        journal.commit(1)
    assert journal.events()[0] == 502


def test_events_that_go_after_the_older_snapshot_go_at_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path, kept=0)
    for _ in range(2):
        journal.commit(200)
        journal.commit(1, snapshot=True)
    assert (journal.events(), journal.pages()) == ([], [])


def test_a_kill_amid_it_leaves_nothing_that_looks_like_damage(start: Callable[..., Service]) -> None:
    service = start(snapshot_every_events=400, events_kept_max=450)
    rounds = [
        {"model": "m", "id": f"p{i}", "features": [1.0, float(i % 7)], "label": 1 if i % 2 else -1}
        for i in range(1_250)
    ]
    answers = []
    for at in range(0, len(rounds), 50):
        answers += service.post("/learn", {"items": rounds[at : at + 50]})["items"]
    before = service.stats("m")["rounds"]
    service.kill()
    connection = sqlite3.connect(service.data / "journal.sqlite")
    (oldest,) = connection.execute("SELECT prediction_id FROM event ORDER BY seq LIMIT 1").fetchone()
    (first_page,) = connection.execute("SELECT min(through) FROM outcome").fetchone()
    connection.close()
    assert 1 <= int(oldest[1:]) < first_page, "the kill came too late"
    assert "no problems found" in worked("doctor", "--data", service.data)
    service.start()
    again = service.post("/learn", rounds[int(oldest[1:])])
    assert again == answers[int(oldest[1:])]
    assert service.stats("m")["rounds"] == before
