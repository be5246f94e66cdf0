"""The check of the SQLite file at the start: its log, its schema, its size, and both ends of every table and index.

SQLite believes whatever the first page says of its schema: after one turned bit a column has another name, or no table
can be read at all. It goes through its log (`-wal`) up to the first frame whose checksum does not fit and forgets the
rest without a word. That is right after a power cut, when the last transaction was written in part; what was
acknowledged must be there, and `acknowledged` tells how far that was.
"""

import sqlite3
import struct
from contextlib import closing
from functools import cache
from pathlib import Path

import msgspec

from service.errors import DirectoryUnusable
from service.journal.seals import Damaged
from service.journal.sqlite.acknowledged import (
    FRAME_HEADER_BYTES,
    LOG_HEADER_BYTES,
    file_beside,
    has_log,
    read_index,
    read_note,
)
from service.journal.sqlite.reading import newest_time
from service.journal.sqlite.schema import PAGE_BYTES, damaged, legible_errors, open_reader
from service.journal.sqlite.schema import TABLES as SCHEMA
from service.journal.sqlite.sealing import add_functions, journal_digest
from service.journal.sqlite.tables import TABLES

FORMAT = 2
"""Of a SQLite file with a log. With a later one SQLite reads a file and does not write it."""

CHECKED_WHOLE_BYTES_MAX = 4_000_000
"""A file up to this size is checked whole at the start, which takes some milliseconds. A larger one is checked while
the service runs."""

LOG_MAGIC = 0x377F0682  # plus one if checksums are over big-endian words
FRAME_BYTES = FRAME_HEADER_BYTES + PAGE_BYTES
FRAME_HEAD = struct.Struct(
    ">4xI8s"
)  # the pages of the file if the frame ends a transaction, the salts of the log

Shape = dict[str, list[tuple[object, ...]]]


def check_log(path: Path, durability: str) -> None:
    """JournalDamaged if a part of the log that was acknowledged cannot be read.

    To be asked before SQLite opens the file, since it drops what comes after the damage without a word.
    """
    if (why := why_log_damaged(path, durability)) is not None:
        raise damaged(path, why)


def why_log_damaged(path: Path, durability: str) -> str | None:
    """In words, if a part of the log that was acknowledged cannot be read.

    How far SQLite goes is asked of SQLite itself; how far it ought to, of the note and of the heads of the frames.
    """
    try:
        content = path.with_name(f"{path.name}-wal").read_bytes()
    except FileNotFoundError:
        return None
    if len(content) < LOG_HEADER_BYTES + FRAME_BYTES:
        return None
    if not _is_log_header_valid(content[:LOG_HEADER_BYTES]):
        return "the beginning of its log is damaged, and later frames were acknowledged"
    try:
        with closing(open_reader(path)) as connection:
            connection.execute("PRAGMA schema_version").fetchone()  # so that SQLite goes through the log
            valid, checksum = read_index(path)
    except sqlite3.Error:  # the file itself is damaged, which other checks tell
        return None
    note = read_note(path)
    expected = 0
    if note is not None and note.is_reliable and note.frames and note.salts == content[16:24]:
        expected = note.frames
        if valid == expected and checksum != note.checksum:
            valid -= 1
    # Without a sync for each transaction a power cut may leave anything.
    if note.survives_power_cut if note is not None else durability == "power":
        expected = max(expected, frames_followed(content))
    if valid < expected:
        return f"frame {valid + 1} of its log is damaged, and {expected} frames were acknowledged"
    return None


def frames_followed(content: bytes) -> int:
    """How many frames of a log belong to transactions that others come after.

    These were durable if each transaction is synced before the next one is written. A frame before one of this log is
    of this log as well, whatever its own head says. See sqlite.org/fileformat2.html#walformat.
    """
    places = range(LOG_HEADER_BYTES, len(content) - FRAME_BYTES + 1, FRAME_BYTES)
    heads = [FRAME_HEAD.unpack_from(content, at) for at in places]
    last = max((i for i, (_, salts) in enumerate(heads) if salts == content[16:24]), default=0)
    return max((i + 1 for i, (ends, _) in enumerate(heads[:last]) if ends), default=0)


def _is_log_header_valid(header: bytes) -> bool:
    (magic,) = struct.unpack(">I", header[:4])
    a = b = 0
    for x, y in struct.iter_unpack(">II" if magic & 1 else "<II", header[:24]):
        a = (a + x + b) & 0xFFFFFFFF
        b = (b + y + a) & 0xFFFFFFFF
    return magic | 1 == LOG_MAGIC | 1 and struct.unpack(">II", header[24:]) == (a, b)


def why_misshapen(connection: sqlite3.Connection) -> str | None:
    """In words, if a table or an index is missing or is not as this version makes it."""
    try:
        with legible_errors():
            found = _shape(connection)
    except sqlite3.DatabaseError as error:
        return f"its schema cannot be read: {error}"
    wrong = [name for name, columns in _ours().items() if found.get(name) != columns]
    return f"its schema is damaged: {', '.join(wrong)} was changed" if wrong else None


@cache
def _ours() -> Shape:
    with closing(_sample()) as sample:
        return _shape(sample)


def _sample() -> sqlite3.Connection:
    sample = sqlite3.connect(":memory:", isolation_level=None)
    add_functions(sample)
    sample.executescript(SCHEMA)
    return sample


def _shape(connection: sqlite3.Connection) -> Shape:
    """Columns by the name of their table or index. Types and keys count: they decide how a row is read."""
    shape: Shape = {}
    for kind, name in connection.execute("SELECT type, name FROM sqlite_master").fetchall():
        if kind == "table":
            info = connection.execute('SELECT name, type, "notnull", pk FROM pragma_table_info(?)', (name,))
        else:
            info = connection.execute("SELECT name FROM pragma_index_info(?)", (name,))
        shape[name] = info.fetchall()
    return shape


def why_newest_missing(connection: sqlite3.Connection, path: Path) -> str | None:
    """In words, if an event was acknowledged that is not there."""
    (newest,) = connection.execute(
        "SELECT max(numbered, coalesce((SELECT max(seq) FROM event), 0)) FROM journal"
    ).fetchone()
    note = read_note(path)
    if note is None or note.seq <= newest or not note.is_reliable:
        return None
    return (
        f"event {note.seq} was acknowledged, but the newest is {newest}; put back {path.name}-wal if it was"
        f" removed, or remove {file_beside(path)} if this is a backup that was put in its place"
    )


def why_wrong_size(connection: sqlite3.Connection, path: Path) -> str | None:
    """In words, if the file has another length than SQLite knows of. While there is a log, it may have any."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    if has_log(path) or path.stat().st_size == pages * page_bytes:
        return None
    return f"it has {path.stat().st_size} bytes instead of {pages * page_bytes}"


def why_read_only(path: Path) -> str | None:
    """In words, if the first page says that a later SQLite is needed to write the file. While there is a log, that may
    have another first page."""
    with path.open("rb") as file:
        head = file.read(19)
    if has_log(path) or head[18:] <= bytes([FORMAT]):
        return None
    return f"its first page has write format {head[18]}; the highest is {FORMAT}"


def why_numbering_damaged(connection: sqlite3.Connection) -> str | None:
    row = connection.execute("SELECT identity, numbered, digest FROM journal").fetchone()
    if row is None:
        return "its identity is missing"
    identity, numbered, digest = row
    if digest != journal_digest(identity, numbered):
        return "its identity or its numbering is damaged: the digest does not match"
    return None


def check_soundness(path: Path) -> None:
    """JournalDamaged if the file is cut off or torn. No other process may have it open."""
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
            for table in TABLES:
                for columns in (table.key, *table.indexes.values()):
                    for direction in ("ASC", "DESC"):
                        order = ", ".join(f"{column} {direction}" for column in columns)
                        connection.execute(f"SELECT * FROM {table.name} ORDER BY {order} LIMIT 1").fetchall()
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
