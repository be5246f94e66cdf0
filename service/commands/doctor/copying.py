"""The copy that --repair works on, and how it takes the place of the journal.

Killed at any moment, there is either the old journal or the new one. The old one stays beside it, as `.damaged`.
"""

import os
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import chain, count
from pathlib import Path

from service.journal.sqlite.acknowledged import file_beside
from service.journal.sqlite.lock import sync_directory
from service.journal.sqlite.log_file import read_log
from service.journal.sqlite.schema import open_reader


def copy_whole(path: Path, new: Path) -> None:
    """Copy a journal whose pages can all be read, to the byte."""
    new.touch(0o600)
    with closing(open_reader(path)) as old, closing(sqlite3.connect(new)) as copy:
        old.backup(copy)


def fold(path: Path, into: Path, *, with_what_follows_damage: bool = False) -> None:
    """Copy the file with the transactions of its log in it."""
    remove(into)
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


def swap(new: Path, path: Path, given_up: Sequence[str] = ()) -> Path:
    """Put a new journal in the place of one, whose file and log stay beside it with the suffix `.damaged`; its path.

    What was given up is written beside that, for whoever comes later. A file of an earlier repair is never touched: it
    may be the only one that has what that repair could not read.

    A new file must not meet the log of the old one. So that is folded into the old file first, which changes nothing
    in it: a log that is gone through twice gives the same. Then the log can go, and then the file be replaced.
    """
    _settle(new)
    aside = _free_name(path)
    log = path.with_name(f"{path.name}-wal")
    _keep(path, aside)
    if given_up:
        aside.with_name(f"{aside.name}.txt").write_text("".join(f"{one}\n" for one in given_up))
    if log.exists():
        _keep(log, aside.with_name(f"{aside.name}-wal"))
        sync_directory(path.parent)
        folded = new.with_name(f"{new.name}-old")
        fold(path, folded)
        _own_alike(path, folded)
        folded.replace(path)
        sync_directory(path.parent)
    remove_beside(path)
    sync_directory(path.parent)
    _own_alike(path, new)
    with new.open("rb+") as file:
        os.fsync(file.fileno())
    new.replace(path)
    sync_directory(path.parent)
    file_beside(path).unlink(missing_ok=True)
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


def remove_beside(file: Path) -> None:
    """Remove what SQLite keeps beside a file while it is open."""
    for suffix in ("-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)
