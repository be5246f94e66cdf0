"""Repair of a file with damaged pages: all that can be read is copied into a new one.

Every model, event and waiting prediction has to be readable, since nothing else has them. Of snapshots and outcomes,
which are derived from events, those that can be read are copied; the rest is made again from the events.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from service.journal.sqlite.migrations import LARGEST_NUMBER
from service.journal.sqlite.schema import open_reader, open_writer

NEEDED = ("model", "event", "pending")
DERIVED = ("snapshot", "outcome")


def can_be_rebuilt(path: Path) -> bool:
    """Whether every row can be read that is not derived from others."""
    try:
        with closing(open_reader(path)) as connection:
            for table in NEEDED:
                for _ in _rows(connection, table):
                    pass
    except sqlite3.Error:
        return False
    return True


def rebuild(path: Path) -> None:
    """Replace the file by a copy of all that can be read; the old file stays, with the suffix `.damaged`."""
    new = path.with_name(f"{path.name}.new")
    _remove(new)
    with closing(open_reader(path)) as old, closing(open_writer(new, "power")) as copy:
        copy.execute("BEGIN")
        for table in (*NEEDED, *DERIVED):
            _copy(old, copy, table)
        _copy_what_it_is(old, copy)
        copy.execute("COMMIT")
    path.rename(path.with_name(f"{path.name}.damaged"))
    for beside in ("wal", "shm"):
        path.with_name(f"{path.name}-{beside}").unlink(missing_ok=True)
    new.rename(path)


def _copy(old: sqlite3.Connection, copy: sqlite3.Connection, table: str) -> None:
    with suppress(*() if table in NEEDED else (sqlite3.Error,)):
        for row in _rows(old, table):
            copy.execute(f"INSERT OR IGNORE INTO {table} VALUES ({','.join('?' * len(row))})", row)


def _copy_what_it_is(old: sqlite3.Connection, copy: sqlite3.Connection) -> None:
    """The copy has the identity of the journal, or takes it from the directory, and goes on with its numbers."""
    with suppress(sqlite3.Error):
        copy.execute("UPDATE journal SET identity = ?, numbered = ?", *_rows(old, "journal"))
    copy.execute(f"UPDATE journal SET numbered = max(numbered, ({LARGEST_NUMBER}))")


def _rows(connection: sqlite3.Connection, table: str) -> Iterator[tuple[object, ...]]:
    """The rows in the table's own order, whatever its indexes say."""
    yield from connection.execute(f"SELECT * FROM {table} NOT INDEXED")


def _remove(file: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)
