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

from service.journal.sqlite.lock import sync_directory
from service.journal.sqlite.replacing import remove_beside, replace_with
from service.journal.sqlite.schema import open_reader


def copy_whole(path: Path, new: Path) -> None:
    """Copy a journal whose pages can all be read, to the byte."""
    new.touch(0o600)
    with closing(open_reader(path)) as old, closing(sqlite3.connect(new)) as copy:
        old.backup(copy)


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


def remove(file: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)
