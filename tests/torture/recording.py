"""Records what this process does to a data directory, by SQLite and by Python, and lets chosen calls fail."""

import atexit
import mmap
import os
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from errno import EIO, ENOSPC
from pathlib import Path
from typing import Any

from tests.torture import vfs
from tests.torture.operations import (
    Create,
    Delete,
    Log,
    Note,
    Present,
    Rename,
    Sync,
    SyncDirectory,
    Truncate,
    Write,
)

CALLS = "calls"
"""A note of the process that writes the journal."""

UNRECORDED = ("-shm", "lock")
"""Endings of files that a power cut may do anything to: SQLite makes the one anew, and nobody reads the other."""


ERRORS = {"io": EIO, "full": ENOSPC}


@dataclass(frozen=True, slots=True)
class Fault:
    """From the `first` call of this kind on, `count` calls fail in the process that writes the journal."""

    call: str
    """`write`, `sync` or `truncate`."""
    first: int
    count: int
    error: str
    """One of ERRORS."""


def take_stock(directory: Path, log: Path) -> None:
    """Begin a log with what is in the directory already."""
    begun = Log(log)
    for file in sorted(directory.iterdir()):
        if not file.name.endswith(UNRECORDED):
            begun.append(Present(file.name, file.read_bytes()))


class Recorder:
    """Keeps the log. What SQLite does is told by `vfs`; what Python does, by the functions of `os` that it wraps."""

    def __init__(self, directory: str, log: Log, fault: Fault | None) -> None:
        self._directory = directory
        self._log = log
        self.log_file = log.file
        self._fault = fault
        self.is_writer = False
        """Whether this is the process that writes the journal: only there, calls fail."""
        self._calls: Counter[str] = Counter()
        self._by_python: dict[str, bytes | None] = {}
        """Files that Python has opened to write, and their content as far as it was recorded."""

    def note(self, kind: str, content: Any) -> None:
        self._log.append(Note(kind, content))

    # Told by SQLite

    def opening(self, path: str, *, is_new: bool) -> None:
        name = self._name(path)
        if name:
            self.catch_up()
            self._by_python.pop(name, None)
            if is_new and not os.path.exists(path):  # noqa: PTH110
                self._log.append(Create(name))

    def written(self, path: str, offset: int, data: bytes) -> None:
        if name := self._name(path):
            self._log.append(Write(name, offset, data))

    def truncated(self, path: str, size: int) -> None:
        if name := self._name(path):
            self._log.append(Truncate(name, size))

    def synced(self, path: str, *, failed: bool = False) -> None:
        if name := self._name(path):
            self._log.append(Sync(name, failed))

    def deleted(self, path: str) -> None:
        if name := self._name(path):
            self._log.append(Delete(name))

    def directory_synced(self, path: str) -> None:
        if path == self._directory:
            self._log.append(SyncDirectory())

    def failure_of(self, call: str, path: str) -> str | None:
        """Whether this call is to fail, and how; counted are those for files of the directory."""
        if not self.is_writer or not self._name(path):
            return None
        self._calls[call] += 1
        fault = self._fault
        if fault is None or fault.call != call or not 0 <= self._calls[call] - fault.first < fault.count:
            return None
        return fault.error

    def note_calls(self) -> None:
        """How many calls there were that could have failed."""
        self.note(CALLS, dict(self._calls))

    # Done by Python

    def watch_python(self) -> None:
        """Wrap the functions by which Python changes a directory; what it writes is looked up before each of them."""
        catch_up = self.catch_up

        class Mapped(mmap.mmap):
            """A file that is written by writing to memory."""

            def __setitem__(self, where: Any, content: Any) -> None:
                super().__setitem__(where, content)
                catch_up()

        mmap.mmap = Mapped  # type: ignore[misc]
        sys.addaudithook(self._opened)
        atexit.register(self.catch_up)
        self._wrap("fsync", self._synced_by_python, self._fail_to_sync)
        for name in ("pwrite", "ftruncate"):
            self._wrap(name, lambda *_: self.catch_up())
        self._wrap("truncate", lambda path, size: self.truncated(path, size), self._fail_to_truncate)
        for name in ("rename", "replace"):
            self._wrap(name, self._renamed)
        for name in ("unlink", "remove"):
            self._wrap(name, self._deleted_by_python)

    def _wrap(
        self, function: str, done: Callable[..., None], before: Callable[..., None] = lambda *_: None
    ) -> None:
        real = getattr(os, function)

        def wrapped(*args: Any, **more: Any) -> Any:
            self.catch_up()
            before(*args)
            result = real(*args, **more)
            done(*args)
            return result

        setattr(os, function, wrapped)

    def _opened(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[0], str | os.PathLike):
            path, _, flags = args
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and (name := self._name(os.fspath(path))):
                self._by_python.setdefault(name, _content(str(path)))

    def _fail_to_sync(self, descriptor: int) -> None:
        path = _path_of(descriptor)
        if (failure := self.failure_of("sync", path)) is not None:
            self.synced(path, failed=True)
            raise OSError(ERRORS[failure], "made to fail")

    def _fail_to_truncate(self, path: str, size: int) -> None:
        if (failure := self.failure_of("truncate", path)) is not None:
            raise OSError(ERRORS[failure], "made to fail")

    def _synced_by_python(self, descriptor: int) -> None:
        path = _path_of(descriptor)
        self.synced(path)
        self.directory_synced(path)

    def _deleted_by_python(self, path: Any) -> None:
        self.deleted(os.fspath(path))
        self._by_python.pop(self._name(os.fspath(path)) or "", None)

    def _renamed(self, path: Any, to: Any) -> None:
        old, new = self._name(os.fspath(path)), self._name(os.fspath(to))
        if old and new:
            self._by_python.pop(old, None)
            self._by_python.pop(new, None)
            self._log.append(Rename(old, new))

    def catch_up(self) -> None:
        """Record what Python has written since the last time, of each file as one write."""
        for name, known in list(self._by_python.items()):
            now = _content(f"{self._directory}/{name}")
            if now == known or now is None:
                continue
            if known is None:
                self._log.append(Create(name))
            self._by_python[name] = now
            first, end = _difference(known or b"", now)
            if first < end:
                self._log.append(Write(name, first, now[first:end]))
            if len(now) < len(known or b""):
                self._log.append(Truncate(name, len(now)))

    def _name(self, path: str) -> str | None:
        """The name of a file that is recorded."""
        folder, _, name = os.path.abspath(path).rpartition("/")  # noqa: PTH100
        return name if folder == self._directory and not name.endswith(UNRECORDED) else None


def _path_of(descriptor: int) -> str:
    return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115


def _content(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except OSError:
        return None


def _difference(before: bytes, now: bytes) -> tuple[int, int]:
    """Where what is there now differs from what was there before.

    >>> _difference(b"abcd", b"axyd"), _difference(b"", b"ab"), _difference(b"abc", b"a")
    ((1, 3), (0, 2), (1, 1))
    """
    first = next(
        (at for at, (a, b) in enumerate(zip(before, now, strict=False)) if a != b), min(len(before), len(now))
    )
    end = len(now)
    while end > first and len(before) == len(now) and before[end - 1] == now[end - 1]:
        end -= 1
    return first, end


recorder: Recorder | None = None
"""That of this process."""


def install(directory: Path, log: Path, fault: Fault | None = None) -> None:
    """Record what this process does to a directory from now on, and processes forked from it."""
    global recorder
    recorder = Recorder(str(directory), Log(log), fault)
    vfs.install(recorder)
    recorder.watch_python()
