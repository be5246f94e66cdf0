"""A quick check of the SQLite file at the start: its size, and both ends of every table and index."""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from service.journal.sqlite.reading import newest_time
from service.journal.sqlite.schema import damaged, open_reader

ENDS = {
    "journal": ("rowid",),
    "model": ("id", "name"),
    "event": ("seq", "model, seq", "prediction_id"),
    "pending": ("prediction_id", "model, at", "at"),
    "snapshot": ("rowid", "model, seq"),
    "outcome": ("model, through",),
}
"""Each table and index by its order: both ends of each are looked at, however large it is."""


def check_soundness(path: Path) -> None:
    """JournalDamaged if the file is cut off or torn. Nobody else may have it open."""
    try:
        with closing(open_reader(path)) as connection:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
            if not has_log(path) and path.stat().st_size != pages * page_bytes:
                raise damaged(
                    path, f"it has {path.stat().st_size} bytes and ought to have {pages * page_bytes}"
                )
            for table, orders in ENDS.items():
                for order in orders:
                    backwards = ", ".join(f"{column} DESC" for column in order.split(", "))
                    connection.execute(f"SELECT * FROM {table} ORDER BY {order} LIMIT 1").fetchall()
                    connection.execute(f"SELECT * FROM {table} ORDER BY {backwards} LIMIT 1").fetchall()
            newest_time(connection)
    except (sqlite3.Error, msgspec.MsgspecError) as error:
        raise damaged(path, str(error)) from error


def has_log(path: Path) -> bool:
    """Whether pages wait beside the file because they could not be folded in, as on a full disk."""
    log = path.with_name(f"{path.name}-wal")
    return log.exists() and log.stat().st_size > 0
