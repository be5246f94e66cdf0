"""The files under a running service are deleted, replaced or taken by another: no more is acknowledged."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.support.service_process import Service, problem_of

ROUND = {"model": "m", "features": [1.0, 2.0], "label": 1}


def assert_nothing_is_taken(service: Service, *words: str) -> None:
    """Reveals are refused, and the probe tells why."""
    waiting = {"prediction_id": "waits", "label": 1}
    for path, body in (("/learn", ROUND), ("/feedback", waiting), ("/models", {"model": "new"})):
        assert service.refused(path, body) == (503, "journal-unavailable")
    unready = service.client.get("/readyz")
    assert problem_of(unready) == (503, "not-ready")
    for word in words:
        assert word in unready.json()["detail"]
    assert "novikoff_journal_connected 0" in service.client.get("/metrics").text
    service.wait_for_log("the journal cannot be written: ")


@pytest.fixture
def running(start: Callable[..., Service]) -> Service:
    service = start(loop_pause_seconds_max=3600)  # or one that has stood still is not ready
    service.predict("m", [1.0, 1.0], id="waits")
    for _ in range(5):
        service.learn("m", [1.0, 2.0], 1)
    assert service.get("/readyz") == {"status": "ready"}
    return service


def delete_directory(data: Path) -> None:
    shutil.rmtree(data)


def delete_journal(data: Path) -> None:
    (data / "journal.sqlite").unlink()


def delete_log(data: Path) -> None:
    (data / "journal.sqlite-wal").unlink()


def delete_lock(data: Path) -> None:
    (data / "lock").unlink()


def replace_journal(data: Path) -> None:
    with (
        closing(sqlite3.connect(data / "journal.sqlite")) as live,
        closing(sqlite3.connect(data / "copy")) as copy,
    ):
        live.backup(copy)
    (data / "copy").rename(data / "journal.sqlite")


@pytest.mark.parametrize("take", [delete_directory, delete_journal, delete_log, delete_lock, replace_journal])
def test_nothing_is_taken_once_a_file_is_not_the_one_at_its_path(
    running: Service, take: Callable[[Path], None]
) -> None:
    take(running.data)
    assert_nothing_is_taken(running, str(running.data))
    assert running.stats("m")["rounds"]["revealed"] == 5, "what is known is still told"


@pytest.mark.parametrize("take", [delete_log, delete_lock])
def test_a_restart_takes_up_what_was_acknowledged(running: Service, take: Callable[[Path], None]) -> None:
    take(running.data)
    assert_nothing_is_taken(running)
    assert running.stop() == 0
    running.start()
    assert running.stats("m")["rounds"]["revealed"] == 5
    running.reveal("waits", 1)


def test_a_directory_that_comes_back_is_used_again(running: Service) -> None:
    away = running.data.rename(running.data.with_name("away"))
    assert_nothing_is_taken(running, "no longer exists")
    away.rename(running.data)
    assert running.get("/readyz") == {"status": "ready"}
    assert running.learn(**ROUND)["rounds"] == 6
    assert running.reveal("waits", 1)["rounds"] == 7
    running.assert_replay_equals_live("m")


def test_of_two_services_the_one_that_has_the_lock_goes_on(
    running: Service, start: Callable[..., Service]
) -> None:
    """Both have the same file open, and every acknowledged round is in it."""
    delete_lock(running.data)
    second = start(running.data)
    assert second.learn(**ROUND)["rounds"] == 6
    assert_nothing_is_taken(running, "lock")
    assert running.stop() == 0
    assert second.learn(**ROUND)["rounds"] == 7
    second.assert_replay_equals_live("m")
    second.restart()
    assert second.stats("m")["rounds"]["revealed"] == 7


def test_a_number_that_somebody_else_has_given_ends_the_service(running: Service) -> None:
    """What it has learned is not what the journal says: only a fresh start can tell."""
    with closing(sqlite3.connect(running.data / "journal.sqlite")) as connection:
        connection.execute("INSERT INTO event SELECT max(seq) + 1, max(model), NULL, x'00', 0 FROM event")
        connection.commit()
    with pytest.raises(httpx.TransportError):
        running.learn(**ROUND)
    assert running.wait_for_end() == 1
    assert "another process has written to the journal" in "".join(running.log)
    with closing(sqlite3.connect(running.data / "journal.sqlite")) as connection:
        connection.execute("DELETE FROM event WHERE body = x'00'")
        connection.commit()
    running.start()
    assert running.stats("m")["rounds"]["revealed"] == 5


def test_a_model_is_not_read_from_a_file_that_has_taken_the_place(start: Callable[..., Service]) -> None:
    """Not even by a thread that has nothing open yet."""
    service = start()
    service.learn("m", [1.0], 1)
    other = start(service.data.with_name("other"))
    other.learn("theirs", [1.0], 1)
    assert other.stop() == 0
    (other.data / "journal.sqlite").rename(service.data / "journal.sqlite")
    for _ in range(8):
        assert service.client.get("/stats/theirs").status_code in (404, 503)


def test_the_process_that_writes_has_its_locks_as_long_as_it_runs(start: Callable[..., Service]) -> None:
    """SQLite's shared memory is made anew by whoever finds it without a lock, while others use it."""
    service = start()
    service.learn("m", [1.0], 1)
    inode = (service.data / "journal.sqlite-shm").stat().st_ino
    locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    holders = {words[4] for words in locks if words[1] == "POSIX" and words[5].endswith(f":{inode}")}
    assert str(service.writer_pid) in holders
