"""One process a data directory."""

import fcntl
import os
from pathlib import Path

from service.errors import DirectoryLocked, DirectoryUnusable


class DirectoryLock:
    """Held from acquire to release, and let go by the system when the process dies, however it dies."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "lock"
        self._file = -1

    def acquire(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise DirectoryUnusable(f"{self._path.parent} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._file, 32).decode("ascii", "replace").strip()
            os.close(self._file)
            raise DirectoryLocked(
                f"{self._path.parent} is in use by process {holder or 'unknown'}:"
                " stop it, or choose another directory with --data"
            ) from error
        os.ftruncate(self._file, 0)
        os.write(self._file, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        os.close(self._file)
