"""The last steps of a repair: its copy takes the place of the journal, and a kill amid them is made good.

SQLite would fold the log of the old file into the new one, and two files cannot be replaced at once. So the copy is
first renamed to `journal.sqlite.repaired`, and from then on it is the journal: whoever opens the directory next, the
service or the doctor, takes the steps that are left. Until then the old file and its log are as they were.
"""

import logging
from pathlib import Path

from service.journal.sqlite.acknowledged import file_beside
from service.journal.sqlite.lock import sync_directory

log = logging.getLogger(__name__)


def replace_with(new: Path, path: Path) -> None:
    """Put a new file, which is durable and has no log, in the place of a journal. The directory is locked."""
    new.replace(_repaired(path))
    sync_directory(path.parent)
    _put_in_place(path)


def end_replacing(path: Path) -> None:
    """Take the steps that are left, if a repair was cut off amid them."""
    if is_replacing(path):
        log.warning("a repair of %s was cut off, and is ended now: the old file is beside it", path)
        _put_in_place(path)


def is_replacing(path: Path) -> bool:
    return _repaired(path).exists()


def _put_in_place(path: Path) -> None:
    remove_beside(path)
    sync_directory(path.parent)
    _repaired(path).replace(path)
    sync_directory(path.parent)
    file_beside(path).unlink(missing_ok=True)


def remove_beside(file: Path) -> None:
    """Remove what SQLite keeps beside a file while it is open."""
    for suffix in ("-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)


def _repaired(path: Path) -> Path:
    return path.with_name(f"{path.name}.repaired")
