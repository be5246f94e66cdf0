"""The log that SQLite keeps beside its file (`-wal`): damage in it is told from what a crash leaves behind.

SQLite goes through the log up to the first frame whose checksum does not fit and forgets the rest without a word. That
is right after a power cut, when the last transaction was written in part. It is wrong when a bit has turned over in the
middle: then what comes after it was acknowledged. How far SQLite goes is asked of SQLite itself; the rest is in the
heads of the frames. The format is described at sqlite.org/fileformat2.html#walformat.
"""

import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from service.journal.sqlite.acknowledged import (
    FRAME_HEADER_BYTES,
    LOG_HEADER_BYTES,
    read_index,
    read_note,
)
from service.journal.sqlite.schema import PAGE_BYTES, open_reader

MAGIC = 0x377F0682  # plus one if checksums are over big-endian words

_HEAD = struct.Struct(
    ">II8s"
)  # of a frame: its page, the pages of the file if it ends a transaction, the log's salts


def why_log_damaged(path: Path, durability: str) -> str | None:
    """In words, if a part of the log that was acknowledged cannot be read."""
    try:
        content = path.with_name(f"{path.name}-wal").read_bytes()
    except FileNotFoundError:
        return None
    frames = list(_frames(content))
    if not frames:
        return None
    if not _is_header_valid(content):
        return "the beginning of its log is damaged, and what came after it was acknowledged"
    try:
        with closing(open_reader(path)) as connection:
            connection.execute("PRAGMA schema_version").fetchone()  # so that SQLite goes through the log
            valid, checksum = read_index(path)
    except sqlite3.Error:  # the file itself is damaged, which other checks tell
        return None
    note, salts = read_note(path), content[16:24]
    if note is not None and note.is_reliable and note.salts == salts and note.frames:
        is_other = valid == note.frames and checksum != note.checksum
        if valid < note.frames or is_other:
            return f"frame {valid + 1} of its log is damaged, and {note.frames} frames were acknowledged"
    # Without a sync for each transaction a power cut may leave anything.
    is_synced = note.survives_power_cut if note is not None else durability == "power"
    followed = frames_followed(content)
    if is_synced and valid < followed:
        return (
            f"frame {valid + 1} of its log is damaged, and {followed} frames were acknowledged,"
            " since others come after them"
        )
    return None


def frames_followed(content: bytes) -> int:
    """How many frames of a log belong to transactions that others come after.

    These were durable if each transaction is synced before the next one is written. A frame before one of this log is
    of this log as well, whatever its own head says.
    """
    heads, salts = list(_frames(content)), content[16:24]
    last = max((i for i, (_, _, own) in enumerate(heads) if own == salts), default=0)
    return max((i + 1 for i, (_, ends, _) in enumerate(heads[:last]) if ends), default=0)


def _frames(content: bytes) -> Iterator[tuple[int, int, bytes]]:
    frame_bytes = FRAME_HEADER_BYTES + PAGE_BYTES
    for at in range(LOG_HEADER_BYTES, len(content) - frame_bytes + 1, frame_bytes):
        yield _HEAD.unpack_from(content, at)


def _is_header_valid(content: bytes) -> bool:
    (magic,) = struct.unpack(">I", content[:4])
    a = b = 0
    for x, y in struct.iter_unpack(">II" if magic & 1 else "<II", content[:24]):
        a = (a + x + b) & 0xFFFFFFFF
        b = (b + y + a) & 0xFFFFFFFF
    return magic | 1 == MAGIC | 1 and struct.unpack(">II", content[24:LOG_HEADER_BYTES]) == (a, b)
