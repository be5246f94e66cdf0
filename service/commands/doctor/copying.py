"""The copy that --repair works on, and how it takes the place of the journal.

Killed at any moment, the next to open the directory has the old journal or the new one: see `replacing`. The old one
stays beside it, as `.damaged`.
"""

import os
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import chain, count
from pathlib import Path

from service.journal.sqlite.acknowledged import read_note
from service.journal.sqlite.lock import sync_directory
from service.journal.sqlite.log_file import read_log
from service.journal.sqlite.replacing import remove_beside, replace_with
from service.journal.sqlite.schema import open_reader


def copy_whole(path: Path, new: Path) -> None:
    """Copy a journal whose pages can all be read, to the byte."""
    new.touch(0o600)
    with closing(open_reader(path)) as old, closing(sqlite3.connect(new)) as copy:
        old.backup(copy)


def fold(path: Path, into: Path) -> None:
    """Copy the file with the transactions of its log in it, those behind a damaged frame, too.

    But not one that was cut off amid its writes: pages that it has not come to are those of an older log.
    """
    remove(into)
    into.touch(0o600)
    shutil.copyfile(path, into)
    log, note = read_log(path), read_note(path)
    if log is None:
        return
    if note is None or note.is_reliable:
        frames = log.frames_ended(note.frames if note is not None and note.salts == log.salts else 0)
    else:  # a power cut has left any parts of a log that was not synced
        frames = log.valid
    pages = log.database_pages(frames)
    if pages is None:
        return
    with into.open("rb+") as file:
        for page, content in log.committed(frames).items():
            if page <= pages:
                file.seek((page - 1) * log.page_bytes)
                file.write(content)
        file.truncate(pages * log.page_bytes)


def swap(new: Path, path: Path, given_up: Sequence[str] = ()) -> Path:
    """Put a new journal in the place of one, whose file and log stay beside it with the suffix `.damaged`; its path.

    What was given up is written beside that, for whoever comes later. A file of an earlier repair is never touched: it
    may be the only one that has what that repair could not read.
    """
    _settle(new)
    aside = _free_name(path)
    log = path.with_name(f"{path.name}-wal")
    _keep(path, aside)
    if given_up:
        aside.with_name(f"{aside.name}.txt").write_text("".join(f"{one}\n" for one in given_up))
    if log.exists():
        _keep(log, aside.with_name(f"{aside.name}-wal"))
    _own_alike(path, new)
    with new.open("rb+") as file:
        os.fsync(file.fileno())
    sync_directory(path.parent)
    replace_with(new, path)
    return aside


def _keep(file: Path, aside: Path) -> None:
    """Copy a file durably: it may soon be the only one that has what was damaged."""
    shutil.copy2(file, aside)
    with aside.open("rb+") as copied:
        os.fsync(copied.fileno())


def _settle(new: Path) -> None:
    """Fold the log of the copy into it: only the file itself is renamed."""
    with closing(sqlite3.connect(new)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    remove_beside(new)


def _free_name(path: Path) -> Path:
    names = (f"{path.name}.damaged{suffix}" for suffix in chain([""], (f"-{n}" for n in count(2))))
    return next(file for file in map(path.with_name, names) if not file.exists())


def _own_alike(path: Path, new: Path) -> None:
    """Whoever runs the service may use the new file as the old one, also if root has made it."""
    status = path.stat()
    shutil.copymode(path, new)
    if (status.st_uid, status.st_gid) != (new.stat().st_uid, new.stat().st_gid):
        os.chown(new, status.st_uid, status.st_gid)


def remove_leavings(new: Path) -> None:
    """Remove what a repair that was killed has left."""
    remove(new)
    remove(new.with_name(f"{new.name}-old"))


def remove(file: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)
