"""Bits that turn over in the files of a real service: told at the start, or by 503, and mended without harm."""

import os
import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from service.journal.sqlite.acknowledged import has_log, read_note
from tests.commands.running import novikoff
from tests.support.forkserver import run
from tests.support.service_process import Service, problem_of
from tests.support.waiting import eventually

pytestmark = pytest.mark.thorough

Start = Callable[..., Service]

PAGE_BYTES = 8192
ROUNDS = 60


def fill(service: Service, rounds: int = ROUNDS) -> None:
    for i in range(rounds):
        service.learn("m", [float(i % 7), 1.0], 1 if i % 2 else -1, id=f"round-{i:03}")
        service.learn("other", [float(i % 5), 1.0], 1)
    service.predict("m", [1.0, 2.0], id="waits")


def killed(service: Service) -> Path:
    """The directory of a service that was killed before it could fold its log into its file."""
    os.kill(service.writer_pid, signal.SIGKILL)
    service.kill()
    assert has_log(service.data / "journal.sqlite")
    return service.data


def flip(file: Path, at: int, bit: int = 4) -> None:
    with file.open("rb+") as opened:
        opened.seek(at)
        before = opened.read(1)[0]
        opened.seek(at)
        opened.write(bytes([before ^ bit]))


def refusal(data: Path) -> str:
    ended = run("serve", "--data", str(data), "--port", "0")
    assert ended.returncode == 2, ended.stderr
    assert "is damaged: " in ended.stderr and f"novikoff doctor --data {data}" in ended.stderr
    return ended.stderr


@pytest.mark.parametrize("where", ["middle", "last transaction", "header", "salt"])
def test_one_bit_in_the_log_is_told_and_no_repair_gives_up_what_follows_it_unasked(
    start: Start, where: str
) -> None:
    service = start()
    fill(service)
    data = killed(service)
    note = read_note(data / "journal.sqlite")
    assert note is not None and note.frames > 50
    frame = note.frames // 2 if where != "last transaction" else note.frames - 1
    frame_at = 32 + frame * (24 + PAGE_BYTES)
    flip(data / "journal.sqlite-wal", {"header": 17, "salt": frame_at + 9}.get(where, frame_at + 24 + 5_000))
    before = (data / "journal.sqlite").read_bytes(), (data / "journal.sqlite-wal").read_bytes()
    assert "log is damaged" in refusal(data)
    looked = novikoff("doctor", "--data", data)
    assert looked.status == 1 and "log is damaged" in looked.out
    refused = novikoff("doctor", "--data", data, "--repair")
    assert (
        refused.status == 1 and "nothing was changed: " in refused.err and "Restore a backup" in refused.err
    )
    assert before == ((data / "journal.sqlite").read_bytes(), (data / "journal.sqlite-wal").read_bytes())
    given_up = novikoff("doctor", "--data", data, "--repair", "--give-up")
    assert given_up.status == 1 and "discarded: the rest of the log" in given_up.out, given_up
    kept = [data / "journal.sqlite.damaged", data / "journal.sqlite.damaged-wal"]
    assert tuple(file.read_bytes() for file in kept) == before
    service.start()
    assert service.stop() == 0
    assert novikoff("doctor", "--data", data).status == 0


def test_a_log_that_ends_in_the_middle_of_a_transaction_is_no_damage(start: Start) -> None:
    service = start()
    fill(service, 10)
    data = killed(service)
    (data / "acknowledged").unlink()  # as a power cut may leave it: what follows was acknowledged to nobody
    log = data / "journal.sqlite-wal"
    with log.open("rb+") as file:
        file.truncate(log.stat().st_size - PAGE_BYTES - 100)
    service.start()
    assert service.stats("m")["rounds"]["revealed"] <= 10
    assert service.stop() == 0
    assert novikoff("doctor", "--data", data).status == 0


def test_a_log_that_was_removed_is_missed(start: Start) -> None:
    service = start()
    fill(service, 10)
    data = killed(service)
    shutil.move(data / "journal.sqlite-wal", data / "elsewhere")
    assert "put back journal.sqlite-wal" in refusal(data)
    shutil.move(data / "elsewhere", data / "journal.sqlite-wal")
    service.start()
    assert service.stats("m")["rounds"]["revealed"] == 10


def test_an_id_that_has_changed_in_an_index_is_no_false_404_and_nothing_is_learned_twice(
    start: Start,
) -> None:
    """The file is too large to be checked whole at the start."""
    service = start(scrub_rows_per_second=0)
    fill(service)
    for _ in range(600):
        service.learn("large", [1.0] * 1_000, 1)
    weights = service.get("/models/m/weights")
    assert service.stop() == 0
    file = service.data / "journal.sqlite"
    assert file.stat().st_size > 4_000_000
    with closing(sqlite3.connect(file)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_event_1'"
        ).fetchone()
    index = file.read_bytes()[(root - 1) * PAGE_BYTES : root * PAGE_BYTES]
    at = index.index(b"round-031")  # the index fits into one page
    flip(file, (root - 1) * PAGE_BYTES + at + 8, 8)
    service.start()
    for request in (
        ("/learn", {"model": "m", "features": [3.0, 1.0], "label": 1, "id": "round-031"}),
        ("/predict", {"model": "m", "features": [3.0, 1.0], "id": "round-031"}),
        ("/feedback", {"prediction_id": "round-031", "label": 1}),
    ):
        assert service.refused(*request) == (503, "journal-unavailable"), request
    assert service.get("/models/m/weights") == weights
    assert "novikoff_journal_damage_found_total 3" in service.client.get("/metrics").text
    assert service.stop() == 0
    assert novikoff("doctor", "--data", service.data, "--repair").status == 0, "the table has it"
    service.start()
    assert service.learn("m", [3.0, 1.0], 1, id="round-031")["rounds"] == 32, "its first answer again"


def test_damage_that_nobody_asks_for_is_found(start: Start) -> None:
    service = start(scrub_rows_per_second=0)
    fill(service)
    assert service.stop() == 0
    with closing(sqlite3.connect(service.data / "journal.sqlite")) as connection:
        (seq,) = connection.execute(
            "UPDATE event SET body = x'00' WHERE prediction_id = 'round-007' RETURNING seq"
        ).fetchone()
        connection.execute("DELETE FROM event WHERE prediction_id = 'round-030'")
        connection.execute("UPDATE pending SET body = x'00'")
        connection.execute("UPDATE model SET mistakes = mistakes + 1 WHERE name = 'other'")
        connection.commit()
    looking = Service(service.data, scrub_rows_per_second=10_000).start()
    expected = (
        f"event {seq} is damaged",
        "is missing",
        "prediction 'waits' is damaged",
        "model 'other' is damaged",
    )
    looking.wait_for_log("the journal is damaged", times=4)
    assert all(one in "".join(looking.log) for one in expected), looking.log
    eventually(lambda: "novikoff_journal_damage_found_total 4" in looking.client.get("/metrics").text)
    assert looking.stop() == 0
    looking.close()


def test_a_bit_in_an_event_never_makes_a_repair_change_the_weights(start: Start) -> None:
    service = start(snapshot_every_events=20)
    fill(service)
    weights = service.get("/models/m/weights")
    assert service.stop() == 0
    file = service.data / "journal.sqlite"
    with closing(sqlite3.connect(file)) as connection:
        seq, body = connection.execute(
            "SELECT seq, body FROM event WHERE prediction_id = 'round-013'"
        ).fetchone()
    flip(file, file.read_bytes().index(body) + len(body) // 2)
    service.start()
    assert service.get("/models/m/weights") == weights, "the snapshots are sound"
    assert problem_of(service.client.get("/models/m/events")) == (503, "journal-unavailable")
    assert service.stop() == 0
    mended = novikoff("doctor", "--data", service.data, "--repair")
    assert mended.status == 1 and f"discarded: the events of m up to {seq}," in mended.out, mended.out
    assert novikoff("doctor", "--data", service.data).status == 0
    service.start()
    assert service.get("/models/m/weights") == weights
    assert service.learn("m", [0.0, 1.0], 1)["rounds"] == ROUNDS + 1


@pytest.mark.parametrize("longer_by", [-1, -PAGE_BYTES, 1, PAGE_BYTES])
def test_service_and_doctor_agree_on_a_file_of_another_length(start: Start, longer_by: int) -> None:
    service = start(snapshot_every_events=20)
    fill(service)
    weights = service.get("/models/m/weights")
    assert service.stop() == 0
    file = service.data / "journal.sqlite"
    os.truncate(file, file.stat().st_size + longer_by)
    refusal(service.data)
    assert novikoff("doctor", "--data", service.data).status == 1
    novikoff("doctor", "--data", service.data, "--repair")
    service.start()
    if longer_by > 0:
        assert service.get("/models/m/weights") == weights
