"""A quick check of the SQLite file at the start: its size, and both ends of every table and index."""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from service.errors import DirectoryUnusable
from service.journal.seals import Damaged
from service.journal.sqlite.acknowledged import file_beside, has_log, read_note
from service.journal.sqlite.log_file import why_log_damaged
from service.journal.sqlite.reading import newest_time
from service.journal.sqlite.schema import damaged, open_reader
from service.journal.sqlite.sealing import journal_digest
from service.journal.sqlite.shape import why_misshapen

ENDS = {
    "journal": ("rowid",),
    "model": ("id", "name"),
    "event": ("seq", "model, seq", "prediction_id"),
    "pending": ("prediction_id", "model, at", "at"),
    "snapshot": ("rowid", "model, seq"),
    "outcome": ("model, through",),
}
"""Each table and index by its order: both ends of each are looked at, however large it is."""


FORMAT = 2
"""Of a SQLite file with a log. With a later one SQLite reads a file and does not write it."""

CHECKED_WHOLE_BYTES_MAX = 4_000_000
"""A file up to this size is checked whole at the start, which takes some milliseconds. A larger one is checked while
the service runs."""


def check_log(path: Path, durability: str) -> None:
    """JournalDamaged if a part of the log that was acknowledged cannot be read.

    To be asked before SQLite opens the file, since it drops what comes after the damage without a word.
    """
    if (why := why_log_damaged(path, durability)) is not None:
        raise damaged(path, why)


def why_newest_missing(connection: sqlite3.Connection, path: Path) -> str | None:
    """In words, if an event was acknowledged that is not there."""
    (newest,) = connection.execute(
        "SELECT max(numbered, coalesce((SELECT max(seq) FROM event), 0)) FROM journal"
    ).fetchone()
    note = read_note(path)
    if note is None or note.seq <= newest or not note.is_reliable:
        return None
    return (
        f"event {note.seq} was acknowledged, and the newest one is {newest}; put back {path.name}-wal if it was"
        f" removed, or remove {file_beside(path)} if this is a backup that was put in its place"
    )


def why_wrong_size(connection: sqlite3.Connection, path: Path) -> str | None:
    """In words, if the file has another length than SQLite knows of. While there is a log, it may have any."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    if has_log(path) or path.stat().st_size == pages * page_bytes:
        return None
    return f"it has {path.stat().st_size} bytes and ought to have {pages * page_bytes}"


def why_read_only(path: Path) -> str | None:
    """In words, if the first page says that a later SQLite is needed to write the file. While there is a log, that may
    have another first page."""
    with path.open("rb") as file:
        head = file.read(19)
    if has_log(path) or head[18:] <= bytes([FORMAT]):
        return None
    return f"its first page says that it must not be written: format {head[18]}, and there is none after {FORMAT}"


def why_numbering_damaged(connection: sqlite3.Connection) -> str | None:
    row = connection.execute("SELECT identity, numbered, digest FROM journal").fetchone()
    if row is None:
        return "it does not say which journal it is"
    identity, numbered, digest = row
    if digest != journal_digest(identity, numbered):
        return "its identity or its numbering is damaged: the digest does not fit"
    return None


def check_soundness(path: Path) -> None:
    """JournalDamaged if the file is cut off or torn. Nobody else may have it open."""
    try:
        with closing(open_reader(path)) as connection:
            for why in (
                why_misshapen(connection),
                why_wrong_size(connection, path),
                why_read_only(path),
                why_numbering_damaged(connection),
                why_newest_missing(connection, path),
            ):
                if why is not None:
                    raise damaged(path, why)
            if path.stat().st_size <= CHECKED_WHOLE_BYTES_MAX:
                for (complaint,) in connection.execute("PRAGMA integrity_check(1)"):
                    if complaint != "ok":
                        raise damaged(path, complaint.replace("\n", " "))
            for table, orders in ENDS.items():
                for order in orders:
                    backwards = ", ".join(f"{column} DESC" for column in order.split(", "))
                    connection.execute(f"SELECT * FROM {table} ORDER BY {order} LIMIT 1").fetchall()
                    connection.execute(f"SELECT * FROM {table} ORDER BY {backwards} LIMIT 1").fetchall()
            newest_time(connection)
    except (sqlite3.Error, msgspec.MsgspecError, Damaged) as error:
        raise damaged(path, str(error)) from error


def fold_log(connection: sqlite3.Connection, path: Path) -> None:
    """Fold into the file what a crash has left in the log; DirectoryUnusable if that cannot be synced.

    A round in the log whose sync had failed is known from now on, so a power cut must not take it away. On a full disk
    the log stays: it can be read, and what was synced stays so.
    """
    try:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    except sqlite3.Error as error:
        if error.sqlite_errorname == "SQLITE_IOERR_FSYNC":
            raise DirectoryUnusable(f"{path} cannot be synced: {error}") from error
