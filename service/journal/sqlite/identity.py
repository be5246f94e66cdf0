"""Which journal belongs to a data directory.

A random identity is in the journal and in the file `identity` beside it. A directory that has one has been used: if
its journal is missing, empty or another's, beginning anew would hide all that was learned, so that is refused.
"""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from secrets import token_hex

from service.errors import DirectoryUnusable, JournalMissing
from service.journal.sqlite.acknowledged import has_log
from service.journal.sqlite.lock import sync_directory
from service.journal.sqlite.permissions import check_writable, keep_private
from service.journal.sqlite.replacing import end_replacing
from service.journal.sqlite.schema import PAGE_BYTES, open_reader, open_writer
from service.journal.sqlite.small_files import write_durably
from service.journal.sqlite.soundness import check_log, check_soundness, fold_log


def open_directory(path: Path, durability: str) -> None:
    """Make the journal or check it, and see that it belongs here. The directory is locked by the caller.

    A journal without an identity, one that is new or from before there were any, takes that of the directory. It is
    written to the journal first, so that a start that is killed on the way can be repeated. DirectoryUnusable if one of
    the files is none: a directory, a link to itself.
    """
    try:
        _open_directory(path, durability)
    except OSError as error:
        where, why = error.filename or path, error.strerror or error
        raise DirectoryUnusable(f"{where} cannot be used: {why}") from error


def _open_directory(path: Path, durability: str) -> None:
    check_writable(path)
    end_replacing(path)
    check_not_lost(path)
    check_log(path, durability)
    try:
        keep_private(path)
    except OSError as error:
        raise DirectoryUnusable(f"{path} cannot be written: {error.strerror}") from error
    open_writer(path, durability).close()
    check_soundness(path)
    known = identity_beside(path)
    try:
        identity = _identified(path, known or token_hex(16))
    except sqlite3.Error as error:
        raise DirectoryUnusable(f"{path} cannot be written: {error}") from error
    if known is None:
        _write(_file(path), identity)
    elif known != identity:
        raise JournalMissing(why_not_its_own(path))


def _identified(path: Path, own: str) -> str:
    """The identity in the journal, which takes this one if it has none. What a crash has left is folded in."""
    with closing(open_writer(path, "power")) as connection:
        fold_log(connection, path)
        connection.execute(
            "UPDATE journal SET identity = ?1, digest = journal_digest(?1, numbered) WHERE identity = ''",
            (own,),
        )
        identity = identity_in(connection)
    path.with_name("roots").unlink(missing_ok=True)  # a note that versions before 0.2.0 wrote
    assert identity is not None  # or it would not be sound
    return identity


def check_not_lost(path: Path) -> None:
    """JournalMissing if the directory has been used and its journal is not there, or is without content.

    To be asked before SQLite opens the file, since it removes a log whose file is empty.
    """
    if not _is_blank(path):
        return
    if identity_beside(path) is not None:
        raise JournalMissing(
            f"{path.parent} has been used, and its {path.name} is missing or empty: put it back or restore a"
            f" backup; to begin anew, remove {_file(path)}"
        )
    if has_log(path):
        raise JournalMissing(
            f"{path} is missing or empty, and its newest events are in {path.name}-wal: put back the file that"
            f" belongs to it or restore a backup; to begin anew, remove {path}-wal"
        )


def has_been_used(path: Path) -> bool:
    """Whether there is a journal, or what one leaves behind."""
    return identity_beside(path) is not None or has_log(path) or not _is_blank(path)


def take_over(new: Path, path: Path) -> None:
    """Make a checked file the journal of a directory that has none, and let the directory have its identity.

    The files get the owner of the directory, also if root restores them.
    """
    with closing(open_reader(new)) as connection:
        identity = identity_in(connection)
    with new.open("rb+") as opened:
        os.fsync(opened.fileno())
    new.rename(path)
    if identity:  # a journal of 0.1.0 gets one when it is first opened
        _write(_file(path), identity)
    sync_directory(path.parent)
    owner = path.parent.stat()
    for file in (path, _file(path), path.with_name("lock")):
        if file.exists() and file.stat().st_uid != owner.st_uid:
            os.chown(file, owner.st_uid, owner.st_gid)


def why_not_its_own(path: Path) -> str:
    return (
        f"{path} is the journal of another directory than {path.parent}: put the right one back;"
        f" if this one is meant to be here, remove {_file(path)}"
    )


def identity_in(connection: sqlite3.Connection) -> str | None:
    """That of a journal; None if it is damaged so that it has none."""
    row = connection.execute("SELECT identity FROM journal").fetchone()
    return str(row[0]) if row else None


def identity_beside(path: Path) -> str | None:
    """That of the directory of a journal; None if it has not been used."""
    try:
        return _file(path).read_text("ascii", "replace").strip() or None
    except (FileNotFoundError, NotADirectoryError):
        return None


def _file(path: Path) -> Path:
    return path.with_name("identity")


def _write(file: Path, identity: str) -> None:
    try:
        write_durably(file, f"{identity}\n".encode())
    except OSError as error:
        raise DirectoryUnusable(f"{file} cannot be written: {error.strerror}") from error


def _is_blank(path: Path) -> bool:
    """Whether there is no file, an empty one, or a database of one page, which has no table.

    A file of one page may have all else in the log beside it, but an empty one may not. One whose first page is lost
    is damaged, and not blank: SQLite refuses to open it.
    """
    try:
        with path.open("rb") as opened:
            head = opened.read(32)
            size = os.fstat(opened.fileno()).st_size
    except FileNotFoundError:
        return True
    is_lost = size > PAGE_BYTES and not head.startswith(b"SQLite format 3\0")
    pages = int.from_bytes(head[28:], "big")
    return not head or (pages <= 1 and not has_log(path) and not is_lost)
