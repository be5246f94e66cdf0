"""A data directory knows its journal: a used one is never taken for a new one, nor another journal for its own."""

import os
import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.commands.running import failed, novikoff
from tests.golden.archives import FILES, unpack
from tests.support.forkserver import run
from tests.support.service_process import Service


@pytest.fixture
def used(start: Callable[..., Service]) -> Service:
    """Stopped, with ten rounds."""
    service = start()
    for i in range(10):
        service.learn("m", [1.0, float(i)], 1)
    assert service.stop() == 0
    return service


def journal_of(service: Service) -> Path:
    return service.data / "journal.sqlite"


def contents(data: Path) -> dict[str, bytes]:
    """All that matters: SQLite may leave its index of the log, and a log in which there is nothing."""
    files = (path for path in data.iterdir() if path.name not in ("lock", "journal.sqlite-shm"))
    return {
        path.name: content for path in files if (content := path.read_bytes()) or path.suffix == ".sqlite"
    }


def assert_start_is_refused(data: Path, *words: str) -> None:
    """With one line that says what to do, and without a change."""
    before = contents(data)
    ended = run("serve", "--data", str(data), "--port", "0")
    assert ended.returncode == 2 and ended.stderr.count("\n") == 1, ended.stderr
    for word in (f"{data}", "identity", *words):
        assert word in ended.stderr
    assert contents(data) == before


def take_away(journal: Path) -> None:
    journal.rename(journal.with_name("elsewhere"))


def empty(journal: Path) -> None:
    journal.write_bytes(b"")


def make_blank(journal: Path) -> None:
    """A database without tables."""
    journal.unlink()
    with closing(sqlite3.connect(journal)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")


@pytest.mark.parametrize("lose", [take_away, empty, make_blank])
def test_a_used_directory_without_its_journal_is_refused(
    used: Service, lose: Callable[[Path], None], tmp_path: Path
) -> None:
    shutil.copy(journal_of(used), tmp_path / "backup")
    lose(journal_of(used))
    assert_start_is_refused(used.data, "has been used", "backup")
    assert "has been used" in failed("doctor", "--data", used.data)
    shutil.copy(tmp_path / "backup", journal_of(used))
    used.start()
    assert used.stats("m")["rounds"]["revealed"] == 10


def test_a_log_beside_no_journal_is_not_thrown_away(start: Callable[..., Service]) -> None:
    """As 0.1.0 leaves it behind when it is killed and its journal is lost: there is no identity."""
    service = start()
    service.learn("m", [1.0], 1)
    os.kill(service.writer_pid, signal.SIGKILL)
    service.kill()
    assert (service.data / "journal.sqlite-wal").stat().st_size
    (service.data / "identity").unlink()
    for lose in (take_away, empty):
        lose(journal_of(service))
        before = contents(service.data)
        ended = run("serve", "--data", str(service.data), "--port", "0")
        assert ended.returncode == 2 and "journal.sqlite-wal" in ended.stderr
        assert contents(service.data) == before
        shutil.copy(service.data / "elsewhere", journal_of(service))
    service.start()
    assert service.stats("m")["rounds"]["revealed"] == 1


def test_the_journal_of_another_directory_is_refused(
    used: Service, start: Callable[..., Service], tmp_path: Path
) -> None:
    other = start(tmp_path / "other")
    other.learn("theirs", [1.0], 1)
    assert other.stop() == 0
    shutil.copy(journal_of(other), journal_of(used))
    assert_start_is_refused(used.data, "another")
    looked = novikoff("doctor", "--data", used.data)
    assert looked.status == 1 and "another" in looked.out
    (used.data / "identity").unlink()  # it was meant so
    used.start()
    assert used.stats("theirs")["rounds"]["revealed"] == 1


def test_without_its_identity_a_directory_begins_anew(used: Service) -> None:
    journal_of(used).unlink()
    (used.data / "identity").unlink()
    used.start()
    assert used.get("/models")["models"] == []


@pytest.mark.parametrize("files", [["journal.sqlite"], ["journal.sqlite", "identity"]])
def test_a_copy_in_a_directory_of_its_own_is_served(
    used: Service, start: Callable[..., Service], tmp_path: Path, files: list[str]
) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in files:
        shutil.copy(used.data / file, copy)
    assert start(copy).stats("m")["rounds"]["revealed"] == 10
    assert (copy / "identity").read_bytes() == (used.data / "identity").read_bytes()


def test_a_directory_can_be_moved_and_its_journal_put_back_from_a_backup(
    used: Service, start: Callable[..., Service], tmp_path: Path
) -> None:
    shutil.copy(journal_of(used), tmp_path / "backup")
    used.start()
    used.learn("m", [1.0, 1.0], 1)
    assert used.stop() == 0
    moved = used.data.rename(tmp_path / "moved")
    shutil.copy(tmp_path / "backup", moved / "journal.sqlite")
    assert start(moved).stats("m")["rounds"]["revealed"] == 10


def test_a_start_that_was_killed_before_the_identity_was_written_is_repeated(used: Service) -> None:
    (used.data / "identity").unlink()
    used.start()
    assert used.stats("m")["rounds"]["revealed"] == 10
    assert (used.data / "identity").exists()


def test_a_directory_of_0_1_0_gets_its_identity_when_it_is_first_opened(
    start: Callable[..., Service], tmp_path: Path
) -> None:
    data = unpack(FILES / "stopped.tar.xz", tmp_path / "data")
    assert not (data / "identity").exists()
    assert start(data).stop() == 0
    (data / "journal.sqlite").unlink()
    assert_start_is_refused(data, "has been used")


def test_a_backup_from_before_there_were_identities_can_be_put_back(
    start: Callable[..., Service], tmp_path: Path
) -> None:
    data = unpack(FILES / "stopped.tar.xz", tmp_path / "data")
    shutil.copy(data / "journal.sqlite", tmp_path / "backup")
    service = start(data)
    names = service.get("/models")["models"]
    assert service.stop() == 0
    shutil.copy(tmp_path / "backup", data / "journal.sqlite")
    service.start()
    assert service.get("/models")["models"] == names


@pytest.mark.parametrize("torn", ["event_of_model", "journal"])
def test_a_mended_journal_keeps_its_identity(used: Service, torn: str) -> None:
    with closing(sqlite3.connect(journal_of(used))) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        (page,) = connection.execute(query, (torn,)).fetchone()
    with journal_of(used).open("rb+") as file:
        file.seek((page - 1) * 8192)
        file.write(b"\xff" * 200)
    assert novikoff("doctor", "--data", used.data, "--repair").status == 0
    used.start()
    assert used.stats("m")["rounds"]["revealed"] == 10


@pytest.mark.parametrize("name", ["identity", "journal.sqlite", "journal.sqlite-wal", "acknowledged"])
@pytest.mark.parametrize("as_what", ["directory", "loop"])
def test_a_file_that_is_none_is_told_in_a_line(tmp_path: Path, name: str, as_what: str) -> None:
    odd = tmp_path / name
    if as_what == "directory":
        odd.mkdir()
    else:
        odd.symlink_to(odd)
    ended = run("serve", "--data", str(tmp_path), "--port", "0")
    assert ended.returncode == 2 and ended.stderr.count("\n") == 1, ended.stderr
    assert name in ended.stderr
    assert novikoff("doctor", "--data", tmp_path).status == 1
