"""The copy that --repair works on, and how it takes the place of the journal.

Killed at any moment, there is either the old journal or the new one. The old one stays beside it, as `.damaged`.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

from service.journal.sqlite.acknowledged import file_beside
from service.journal.sqlite.lock import sync_directory
from service.journal.sqlite.log_file import read_log
from service.journal.sqlite.migrations import LARGEST_NUMBER
from service.journal.sqlite.schema import open_reader, open_writer
from service.journal.sqlite.sealing import SEAL_JOURNAL

KEYS = {"model": "id", "event": "seq", "pending": "prediction_id", "snapshot": "rowid",
        "snapshot_part": "rowid", "ended": "life"}  # fmt: skip

ORDERS = {
    "model": {"NOT INDEXED": "id", "INDEXED BY sqlite_autoindex_model_1": "name"},
    "event": {"NOT INDEXED": "seq", "INDEXED BY event_of_model": "model, seq",
              "INDEXED BY sqlite_autoindex_event_1": "prediction_id"},
    "pending": {"NOT INDEXED": "prediction_id", "INDEXED BY pending_of_model": "model, at",
                "INDEXED BY pending_by_time": "at"},
    "snapshot": {"NOT INDEXED": "rowid", "INDEXED BY sqlite_autoindex_snapshot_1": "model, seq"},
    "snapshot_part": {"NOT INDEXED": "rowid",
                      "INDEXED BY sqlite_autoindex_snapshot_part_1": "model, seq, part"},
    "ended": {"NOT INDEXED": "life"},
}  # fmt: skip
"""Where the keys of each table can be read, in the table itself and in its indexes, and the order of each."""


def copy_whole(path: Path, new: Path) -> None:
    """Copy a journal whose pages can all be read, to the byte."""
    new.touch(0o600)
    with closing(open_reader(path)) as old, closing(sqlite3.connect(new)) as copy:
        old.backup(copy)


def salvage(path: Path, new: Path) -> list[str]:
    """Copy each row that can be read; in words, what is known to be lost.

    Rows around a torn page are found by the other indexes of their table. The frames of the log behind a damaged one
    are used, too: each row says by its digest whether it is what was written.
    """
    unfolded = new.with_name(f"{new.name}-old")
    new.touch(0o600)
    fold(path, unfolded, with_what_follows_damage=True)
    lost: dict[str, int] = {}
    with closing(open_reader(unfolded)) as old, closing(open_writer(new, "power")) as copy:
        copy.execute("BEGIN")
        for table in KEYS:
            lost[table] = _copy_rows(old, copy, table)
        lost["outcome"] = _copy_run(old, copy, "SELECT * FROM outcome")
        with suppress(sqlite3.Error):
            for row in old.execute("SELECT identity, numbered, digest FROM journal"):
                copy.execute("UPDATE journal SET identity = ?, numbered = ?, digest = ?", row)
        copy.execute(f"UPDATE journal SET numbered = max(numbered, ({LARGEST_NUMBER}))")
        copy.execute(SEAL_JOURNAL)
        copy.execute("COMMIT")
    _remove(unfolded)
    # Whether snapshots and outcomes can be made anew is told by looking at the copy.
    words = {"model": "models", "event": "events", "pending": "waiting predictions"}
    return [f"{lost[table]} {name} that cannot be read" for table, name in words.items() if lost[table]]


def _copy_rows(old: sqlite3.Connection, copy: sqlite3.Connection, table: str) -> int:
    """Copy the rows of a table one by one, by all keys that can be found; how many of these have no readable row."""
    keys: dict[object, None] = {}
    for where, order in ORDERS[table].items():
        backwards = ", ".join(f"{column} DESC" for column in order.split(", "))
        for direction in (order, backwards):  # from both ends, up to where a page is torn
            select = f"SELECT {KEYS[table]} FROM {table} {where} ORDER BY {direction}"
            keys |= dict.fromkeys(_readable(old, select))
    lost = 0
    for key in keys:
        try:
            row = old.execute(f"SELECT * FROM {table} NOT INDEXED WHERE {KEYS[table]} = ?", (key,)).fetchone()
        except sqlite3.Error:
            row = None
        if row is None or not _insert(copy, table, row):
            lost += 1
    return lost


def _copy_run(old: sqlite3.Connection, copy: sqlite3.Connection, select: str) -> int:
    """Copy what can be read of a table without another index; 1 if it is not all."""
    try:
        for row in old.execute(select):
            _insert(copy, "outcome", row)
    except sqlite3.Error:
        return 1
    return 0


def _readable(connection: sqlite3.Connection, select: str) -> Iterator[object]:
    with suppress(sqlite3.Error):
        for (key,) in connection.execute(select):
            yield key


def _insert(copy: sqlite3.Connection, table: str, row: Iterable[object]) -> bool:
    values = tuple(row)
    try:
        copy.execute(f"INSERT OR IGNORE INTO {table} VALUES ({','.join('?' * len(values))})", values)
    except sqlite3.Error:  # a column without a value
        return False
    return True


def fold(path: Path, into: Path, *, with_what_follows_damage: bool = False) -> None:
    """Copy the file with the transactions of its log in it."""
    _remove(into)
    into.touch(0o600)
    shutil.copyfile(path, into)
    log = read_log(path)
    with into.open("rb+") as file:
        if log is not None:
            frames = len(log.frames) if with_what_follows_damage else log.valid
            pages = log.database_pages(frames)
            for page, content in log.committed(frames).items():
                if pages is not None and page <= pages:
                    file.seek((page - 1) * log.page_bytes)
                    file.write(content)
            if pages is not None:
                file.truncate(pages * log.page_bytes)
        file.flush()
        os.fsync(file.fileno())


def swap(new: Path, path: Path) -> None:
    """Put a new journal in the place of one, whose file and log stay beside it with the suffix `.damaged`.

    A new file must not meet the log of the old one. So that is folded into the old file first, which changes nothing
    in it: a log that is gone through twice gives the same. Then the log can go, and then the file be replaced.
    """
    aside = path.with_name(f"{path.name}.damaged")
    log = path.with_name(f"{path.name}-wal")
    _remove(aside)
    shutil.copy2(path, aside)
    if log.exists():
        shutil.copy2(log, aside.with_name(f"{aside.name}-wal"))
        folded = new.with_name(f"{new.name}-old")
        fold(path, folded)
        _own_alike(path, folded)
        folded.replace(path)
        sync_directory(path.parent)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    sync_directory(path.parent)
    _own_alike(path, new)
    with new.open("rb+") as file:
        os.fsync(file.fileno())
    new.replace(path)
    sync_directory(path.parent)
    file_beside(path).unlink(missing_ok=True)


def _own_alike(path: Path, new: Path) -> None:
    """Whoever runs the service may use the new file as the old one, also if root has made it."""
    status = path.stat()
    shutil.copymode(path, new)
    if (status.st_uid, status.st_gid) != (new.stat().st_uid, new.stat().st_gid):
        os.chown(new, status.st_uid, status.st_gid)


def remove_leavings(new: Path) -> None:
    """Remove what a repair that was killed has left."""
    _remove(new)
    _remove(new.with_name(f"{new.name}-old"))


def _remove(file: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)
