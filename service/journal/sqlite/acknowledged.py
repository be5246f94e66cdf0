"""Up to where the journal was acknowledged: a small file beside it that tells if the newest part of it has gone.

The writing process notes after each commit how far the log has come, before any client gets a response. That is
not synced,
since that would cost as much as the commit. So the note is exact after the end of the process, and after a power cut it
may be some seconds old; but it never says more than what was durable. A service that is stopped removes it.
"""

import mmap
import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from service.journal.seals import SEAL_BYTES, Damaged, seal, unseal

_LAYOUT = struct.Struct(">8sIIIQ?36s")
_BYTES = _LAYOUT.size + SEAL_BYTES
_INDEX = struct.Struct("=14xHI4xII8s")  # of SQLite's `-shm`: page size, frames, checksum of the last, salts

LOG_HEADER_BYTES, FRAME_HEADER_BYTES = 32, 24


class Acknowledged(NamedTuple):
    """What was acknowledged last."""

    salts: bytes
    """Which log it is: they change when the log is begun anew."""
    frames: int
    """How many frames of the log are acknowledged."""
    checksum: tuple[int, int]
    """That of the last of these."""
    seq: int
    """The largest sequence number that was given to an event."""
    survives_power_cut: bool
    boot: bytes
    """Which start of the machine it was."""

    @property
    def is_reliable(self) -> bool:
        """Whether what it says was durable must be there still."""
        return self.survives_power_cut or self.boot == _boot()


class Note:
    """The file, open for writing."""

    def __init__(self, path: Path, durability: str) -> None:
        self._path = file_beside(path)
        self._note: mmap.mmap | None = None
        with suppress(OSError):  # a full disk: then there is none
            self._note = _mapped(self._path)
        self._tail = (durability == "power", _boot())
        # Open as long as SQLite has the file open: to close it lets go of all locks that this process has on it.
        self._index_file = os.open(f"{path}-shm", os.O_RDONLY | os.O_CLOEXEC)
        self._index = mmap.mmap(self._index_file, 48, mmap.MAP_SHARED, mmap.PROT_READ)
        self._seq = 0

    @property
    def log_bytes(self) -> int:
        """How long the log is up to the last commit that counts: exact within a transaction, or if no other process
        writes."""
        page_bytes, frames = map(int, _INDEX.unpack_from(self._index)[:2])
        return LOG_HEADER_BYTES + frames * (FRAME_HEADER_BYTES + page_bytes)

    def write(self, seq: int) -> None:
        """Note what is in the log now, with the largest number that was given to an event of the last commit."""
        self._seq = max(self._seq, seq)
        _, frames, *checksum, salts = _INDEX.unpack_from(self._index)
        if self._note is not None:
            self._note[:_BYTES] = seal(_LAYOUT.pack(salts, frames, *checksum, self._seq, *self._tail))

    def remove(self) -> None:
        """A clean stop folds the log into the journal: there is nothing to look for."""
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """To be called after SQLite has closed the journal."""
        self._index.close()
        os.close(self._index_file)
        if self._note is not None:
            self._note.close()


def _mapped(path: Path) -> mmap.mmap:
    """The file as memory: a write to it takes a fifth of the time that a call to the system takes."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(file, 0, _BYTES)  # so that there is room for it when it is written
        return mmap.mmap(file, _BYTES)
    finally:
        os.close(file)


def read_note(path: Path) -> Acknowledged | None:
    """What was acknowledged last, as far as it is known; None after a clean stop."""
    try:
        content = file_beside(path).read_bytes()
        salts, frames, first, second, *rest = _LAYOUT.unpack(unseal(content))
    except (FileNotFoundError, Damaged):
        return None
    return Acknowledged(salts, frames, (first, second), *rest)


def read_index(path: Path) -> tuple[int, tuple[int, int]]:
    """How many frames of the log SQLite goes through, and the checksum of the last of them.

    To be asked while SQLite has the file open.
    """
    with path.with_name(f"{path.name}-shm").open("rb") as index:
        _, frames, first, second, _ = _INDEX.unpack_from(index.read(_INDEX.size))
    return frames, (first, second)


def file_beside(path: Path) -> Path:
    return path.with_name("acknowledged")


def has_log(path: Path) -> bool:
    """Whether pages wait beside the file because they could not be folded in, as on a full disk."""
    log = path.with_name(f"{path.name}-wal")
    return log.exists() and log.stat().st_size > 0


def _boot() -> bytes:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_bytes()[:36]
    return bytes(36)
