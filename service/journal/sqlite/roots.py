"""Where each table of a journal begins, noted beside it if that is not where a new journal has it.

Only the first page of the file tells it, and without that no table can be found. A journal of this version has them
where a new one has them. One that an older version has made got some of its tables later, wherever there was room.
They never move, so the note is written once. It is an aid to a repair: without it the service goes on as well.
"""

import sqlite3
from contextlib import suppress
from pathlib import Path

import msgspec

from service.journal.seals import Damaged, seal, unseal
from service.journal.sqlite.shape import Roots, roots_of, roots_of_new
from service.journal.sqlite.small_files import write_durably


def note_roots(connection: sqlite3.Connection, path: Path) -> None:
    """Let the note be right for the journal that is open. One that cannot be written is left out, as on a full disk."""
    roots = roots_of(connection)
    needed = roots if roots != roots_of_new() else None
    if read_roots(path) == needed:
        return
    with suppress(OSError):
        if needed is None:
            file_beside(path).unlink(missing_ok=True)
        else:
            write_durably(file_beside(path), seal(msgspec.json.encode(needed)))


def read_roots(path: Path) -> Roots | None:
    """What the note says; None if there is none, or it is damaged."""
    try:
        return msgspec.json.decode(unseal(file_beside(path).read_bytes()), type=Roots)
    except (OSError, Damaged, msgspec.MsgspecError):
        return None


def file_beside(path: Path) -> Path:
    return path.with_name("roots")
