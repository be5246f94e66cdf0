"""Damage to SQLite's log is told from what a kill leaves of a commit."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from service.journal.seals import seal
from service.journal.sqlite.acknowledged import (
    _LAYOUT,
    FRAME_HEADER_BYTES,
    LOG_HEADER_BYTES,
    Acknowledged,
    file_beside,
)
from service.journal.sqlite.soundness import frames_followed, why_log_damaged
from tests.support.tiers import slow

PAGE_BYTES = 8192
COMMITS = 6


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """A file with commits in its log, each with a row of a page or so; nobody has noted what was acknowledged."""
    open_file, copy = tmp_path / "open.sqlite", tmp_path / "journal.sqlite"
    with closing(sqlite3.connect(open_file, isolation_level=None)) as connection:
        connection.executescript(f"PRAGMA page_size={PAGE_BYTES}; PRAGMA journal_mode=WAL;")
        connection.execute("CREATE TABLE t (content)")
        for number in range(1, COMMITS):
            connection.execute("INSERT INTO t VALUES (?)", (bytes([number]) * 6_000,))
        shutil.copyfile(open_file, copy)
        shutil.copyfile(f"{open_file}-wal", f"{copy}-wal")
    yield copy


def log_of(path: Path) -> bytes:
    return path.with_name(f"{path.name}-wal").read_bytes()


def overwrite(path: Path, at: int, content: bytes) -> None:
    with path.with_name(f"{path.name}-wal").open("rb+") as file:
        file.seek(at)
        file.write(content)


def turn(path: Path, at: int, bit: int = 1) -> None:
    overwrite(path, at, bytes([log_of(path)[at] ^ bit]))


def start_of(frame: int) -> int:
    """Where a frame begins; they are counted from 0."""
    return LOG_HEADER_BYTES + frame * (FRAME_HEADER_BYTES + PAGE_BYTES)


def frames(path: Path) -> int:
    return (len(log_of(path)) - LOG_HEADER_BYTES) // (FRAME_HEADER_BYTES + PAGE_BYTES)


def test_a_log_without_damage_is_sound(path: Path) -> None:
    assert why_log_damaged(path, "power") is None
    assert frames_followed(log_of(path)) < frames(path)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_commit_that_was_cut_off_before_its_last_page_is_no_damage(path: Path, is_damaged: bool) -> None:
    """Its head says that the commit ends there, and the page is what an older log has left at that place."""
    overwrite(path, start_of(frames(path) - 1) + FRAME_HEADER_BYTES, b"\xee" * PAGE_BYTES)
    if is_damaged:
        turn(path, start_of(2) + 20)
    assert (why_log_damaged(path, "power") is not None) == is_damaged


@pytest.mark.parametrize("at", [8, 16, 20], ids=["salt", "checksum", "other half"])
def test_a_bit_in_the_head_of_the_last_commit_but_one_is_told(path: Path, at: int) -> None:
    turn(path, start_of(frames_followed(log_of(path)) - 1) + at)
    assert "frames were acknowledged" in str(why_log_damaged(path, "power"))


@pytest.mark.parametrize("at", [each if each % 5 == 0 else slow(each) for each in range(LOG_HEADER_BYTES)])
def test_a_bit_in_the_head_of_the_log_is_told(path: Path, at: int) -> None:
    for bit in (1 << number for number in range(8)):
        turn(path, at, bit)
        assert "of its log is damaged" in str(why_log_damaged(path, "power")), bit
        turn(path, at, bit)


def test_of_a_log_that_was_never_synced_a_power_cut_may_leave_anything(path: Path) -> None:
    """Where parts were not written, those of an older log are there still."""
    salts = log_of(path)[16:24]
    overwrite(path, start_of(3) + 8, bytes(8) + b"\xff" * (FRAME_HEADER_BYTES - 16 + PAGE_BYTES))
    assert why_log_damaged(path, "power") is not None
    unsynced = Acknowledged(salts, frames(path), (0, 0), 9, False, b"another start".ljust(36))
    head, checksum, rest = unsynced[:2], unsynced[2], unsynced[3:]
    file_beside(path).write_bytes(seal(_LAYOUT.pack(*head, *checksum, *rest)))
    assert why_log_damaged(path, "process") is None


def test_a_first_commit_that_was_cut_off_is_no_damage_if_none_of_its_log_was_acknowledged(path: Path) -> None:
    """The note is of a commit that changed nothing, right after the log was emptied."""
    salts = log_of(path)[16:24]
    file_beside(path).write_bytes(seal(_LAYOUT.pack(salts, 0, 1, 2, 3, True, bytes(36))))
    log = path.with_name(f"{path.name}-wal")
    log.write_bytes(log_of(path)[: start_of(1)])
    overwrite(path, start_of(0) + FRAME_HEADER_BYTES, b"\xee" * PAGE_BYTES)
    assert why_log_damaged(path, "power") is None
