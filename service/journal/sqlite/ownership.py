"""Whether the files that a service has open are still the files at their paths.

A file that was deleted or replaced can be written to as before, and all that is written is lost with the last process
that has it open. So each commit looks first, and nothing more is taken.
"""

import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class OpenedFile(NamedTuple):
    """A file that is open, by what the system knows it by."""

    path: str
    device: int
    inode: int


def opened_file(path: Path, descriptor: int | None = None) -> OpenedFile:
    """The file that was opened with this descriptor at a path; without one, the file that is there now."""
    found = path.stat() if descriptor is None else os.fstat(descriptor)
    return OpenedFile(str(path), found.st_dev, found.st_ino)


def check_in_place(files: Iterable[OpenedFile]) -> None:
    """OperationalError, as of a journal that cannot be used just now, if one is no longer the file at its path."""
    if (why := why_lost(files)) is not None:
        raise sqlite3.OperationalError(why)


def why_lost(files: Iterable[OpenedFile]) -> str | None:
    """Which of the files is no longer the one at its path, in words; None if they all are."""
    for path, device, inode in files:
        try:
            found = os.stat(path)  # noqa: PTH116  (with every commit: a Path takes twice as long)
        except OSError as error:
            return f"{path} is not there any more: {error.strerror}"
        if found.st_ino != inode or found.st_dev != device:
            return f"{path} is another file than the one that this service has open"
    return None
