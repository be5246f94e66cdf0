"""Whether the files that a service has open are still the files at their paths.

A file that was deleted or replaced can be written to as before, and all that is written is lost with the last process
that has it open. So each commit looks first, and nothing more is taken.
"""

import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from time import monotonic, time_ns
from typing import NamedTuple

CLOCK_STEP_NS = 3_000_000_000
"""File systems have change times in steps of up to 2 s: changes within one step look the same."""

LOOK_AGAIN_SECONDS = 1.0
"""A file system that was mounted over a file does not change the directory."""


class OpenedFile(NamedTuple):
    """A file that is open, by what the system knows it by."""

    path: str
    device: int
    inode: int


def opened_file(path: Path, descriptor: int | None = None) -> OpenedFile:
    """The file that was opened with this descriptor at a path; without one, the file that is there now."""
    found = path.stat() if descriptor is None else os.fstat(descriptor)
    return OpenedFile(str(path), found.st_dev, found.st_ino)


class FilesInPlace:
    """Looks with every commit whether files of one directory are still the ones that were opened.

    The directory's change time changes when an entry of it does, and unlike its modification time it cannot be set: cp,
    tar and rsync put that back. So while the directory is as it was, the files are looked at one by one only once in a
    while.
    """

    def __init__(self, files: Iterable[OpenedFile]) -> None:
        self._files = tuple(files)
        self._directory = os.path.dirname(self._files[0].path)  # noqa: PTH120
        self._seen: tuple[int, int, int] | None = None
        """The directory when all files were in place, if another change of it cannot have the same time."""
        self._look_again_at = 0.0

    def check(self) -> None:
        """OperationalError, as of a journal that is unavailable, if one is no longer the file at its path."""
        try:
            found = os.stat(self._directory)  # noqa: PTH116  (with every commit: a Path takes twice as long)
        except OSError as error:
            raise sqlite3.OperationalError(f"{self._directory} no longer exists: {error.strerror}") from error
        seen = found.st_dev, found.st_ino, found.st_ctime_ns
        now = monotonic()
        if seen == self._seen and now < self._look_again_at:
            return
        self._seen = None
        if (why := why_lost(self._files)) is not None:
            raise sqlite3.OperationalError(why)
        if abs(time_ns() - found.st_ctime_ns) > CLOCK_STEP_NS:
            self._seen, self._look_again_at = seen, now + LOOK_AGAIN_SECONDS


def check_in_place(files: Iterable[OpenedFile]) -> None:
    """The same, once."""
    if (why := why_lost(files)) is not None:
        raise sqlite3.OperationalError(why)


def why_lost(files: Iterable[OpenedFile]) -> str | None:
    """Which of the files is no longer the one at its path, in words; None if they all are."""
    for path, device, inode in files:
        try:
            found = os.stat(path)  # noqa: PTH116
        except OSError as error:
            return f"{path} no longer exists: {error.strerror}"
        if found.st_ino != inode or found.st_dev != device:
            return f"{path} was replaced by another file while the service had it open"
    return None
