"""Content that has to go from the file for good: rows are replaced, and then the file is written anew.

SQLite leaves what was deleted or replaced in the free parts of its pages and in its log. So the file is written anew,
page by page, from the rows that there are (VACUUM), and the log is folded into it and cut off.
"""

import os
import sqlite3
from pathlib import Path

from service.journal.sqlite.records import EraseRecord
from service.journal.sqlite.sealing import seal_event

CUT_OFF_TRIES = 100
READERS_MS = 100
"""A reader in the middle of an answer keeps the log: it is waited for, so often and so long."""


def erase(connection: sqlite3.Connection, record: EraseRecord) -> None:
    """Replace and remove rows, within a transaction."""
    execute, life = connection.execute, record.life
    for seq, prediction_id, body in record.events:
        row = execute("SELECT previous FROM event WHERE seq = ? AND model = ?", (seq, life)).fetchone()
        if row is not None:  # else it was trimmed
            sealed = seal_event(body, seq, life, prediction_id, row[0])
            execute(
                "UPDATE event SET prediction_id = ?, body = ? WHERE seq = ?", (prediction_id, sealed, seq)
            )
    for through, version, body in record.pages:
        execute(
            "UPDATE outcome SET body = ? WHERE model = ? AND through = ? AND version = ?",
            (body, life, through, version),
        )
    for table in ("snapshot", "snapshot_part"):
        execute(f"DELETE FROM {table} WHERE model = ? AND seq >= ? AND seq < ?", (life, *record.snapshots))
    for prediction_id, body in record.waiting:
        execute(
            "UPDATE pending SET body = ? WHERE prediction_id = ? AND model = ?", (body, prediction_id, life)
        )
    for prediction_id in record.predictions:
        execute("DELETE FROM pending WHERE prediction_id = ? AND model = ?", (prediction_id, life))


def write_anew(connection: sqlite3.Connection, directory: Path) -> None:
    """Write the file anew, so that it has only what is in its rows, and empty the log; sqlite3.Error if that fails.

    `directory`: on whose disk there is room for another copy, which is as large as the file.
    """
    os.environ["SQLITE_TMPDIR"] = str(directory)
    connection.execute("PRAGMA temp_store=FILE")
    try:
        connection.execute("VACUUM")
    finally:
        connection.execute("PRAGMA temp_store=MEMORY")
    (before,) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute(f"PRAGMA busy_timeout={READERS_MS}")
    try:
        for _ in range(CUT_OFF_TRIES):
            is_busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not is_busy:
                return
    finally:
        connection.execute(f"PRAGMA busy_timeout={before}")
    raise sqlite3.OperationalError("readers hold the log")
