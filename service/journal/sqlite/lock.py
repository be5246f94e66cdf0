"""A lock file, so that only one service uses a data directory."""

import fcntl
import os
import time
from pathlib import Path

from service.errors import DirectoryLocked, DirectoryUnusable

LAST_COMMIT_SECONDS = 10.0
"""How long the writing process of a service that was killed may take to finish what it was at."""


class DirectoryLock:
    """Held from acquire to release, and let go by the system when its processes die, however they die."""

    def __init__(self, directory: Path) -> None:
        self.path = directory.absolute() / "lock"
        self.file = -1

    def acquire(self) -> None:
        try:
            _make_durably(self.path.parent)
            self.file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DirectoryUnusable(f"{error.filename} cannot be written: {error.strerror}") from error
        patience_ends = time.monotonic() + LAST_COMMIT_SECONDS
        while not self._locked():
            holder = os.pread(self.file, 32, 0).decode("ascii", "replace").strip()
            if _is_running(holder) or time.monotonic() > patience_ends:
                os.close(self.file)
                raise DirectoryLocked(
                    f"{self.path.parent} is in use by process {holder or 'unknown'}:"
                    " stop it, or choose another directory with --data"
                )
            time.sleep(0.01)
        os.ftruncate(self.file, 0)
        os.pwrite(self.file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self.file)

    def _locked(self) -> bool:
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


def _make_durably(directory: Path) -> None:
    """Make a directory and those above it, which a power cut leaves where they are; for its owner only."""
    missing = [one for one in (directory, *directory.parents) if not one.exists()]
    directory.mkdir(0o700, parents=True, exist_ok=True)
    for one in missing:
        sync_directory(one.parent)


def sync_directory(directory: Path) -> None:
    """Make durable which files are in it."""
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _is_running(process: str) -> bool:
    """Whether the process that holds a lock is the service itself, and not only what it left behind."""
    try:
        os.kill(int(process), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True
