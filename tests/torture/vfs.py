"""Makes the SQLite library of this process tell what it writes, syncs, truncates, creates and deletes.

SQLite reaches the disk through a table of functions, its VFS. A copy of the table becomes the default, in which a few
functions call the recorder before or after the real ones. That needs no compiler, and whatever this process opens with
Python's `sqlite3` goes through it. The shared-memory file of the log is not recorded: after a power cut SQLite makes
it anew.
"""

import _sqlite3
import ctypes
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p
from typing import Any, Protocol

SQLITE_OPEN_CREATE = 0x4
SQLITE_IOERR_WRITE, SQLITE_IOERR_FSYNC, SQLITE_IOERR_TRUNCATE = 778, 1034, 1546
SQLITE_FULL = 13

CLOSE = CFUNCTYPE(c_int, c_void_p)
WRITE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
TRUNCATE = CFUNCTYPE(c_int, c_void_p, c_int64)
SYNC = CFUNCTYPE(c_int, c_void_p, c_int)


class Methods(Structure):
    """`sqlite3_io_methods`: what can be done with an open file."""

    _fields_ = (
        ("iVersion", c_int),
        ("xClose", CLOSE),
        ("xRead", c_void_p),
        ("xWrite", WRITE),
        ("xTruncate", TRUNCATE),
        ("xSync", SYNC),
        *((f"other{number}", c_void_p) for number in range(13)),
    )


class File(Structure):
    """`sqlite3_file`."""

    _fields_ = (("methods", POINTER(Methods)),)


OPEN = CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(File), c_int, POINTER(c_int))
DELETE = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)
SET_CALL = CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p)
GET_CALL = CFUNCTYPE(c_void_p, c_void_p, c_char_p)
OPEN_DIRECTORY = CFUNCTYPE(c_int, c_char_p, POINTER(c_int))


class Vfs(Structure):
    """`sqlite3_vfs`."""

    _fields_ = (
        ("iVersion", c_int),
        ("szOsFile", c_int),
        ("mxPathname", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("xOpen", OPEN),
        ("xDelete", DELETE),
        *((f"other{number}", c_void_p) for number in range(10)),
        ("xCurrentTimeInt64", c_void_p),
        ("xSetSystemCall", SET_CALL),
        ("xGetSystemCall", GET_CALL),
        ("xNextSystemCall", c_void_p),
    )


class Recorder(Protocol):
    """Who is told. The functions for what may fail return whether it should: then it is not done."""

    def opening(self, path: str, *, is_new: bool) -> None: ...

    def written(self, path: str, offset: int, data: bytes) -> None: ...

    def truncated(self, path: str, size: int) -> None: ...

    def synced(self, path: str, *, failed: bool = False) -> None: ...

    def deleted(self, path: str) -> None: ...

    def directory_synced(self, path: str) -> None: ...

    def failure_of(self, call: str, path: str) -> str | None: ...


FAILURES = {
    ("write", "io"): SQLITE_IOERR_WRITE,
    ("write", "full"): SQLITE_FULL,
    ("truncate", "io"): SQLITE_IOERR_TRUNCATE,
    ("truncate", "full"): SQLITE_IOERR_TRUNCATE,
    ("sync", "io"): SQLITE_IOERR_FSYNC,
    ("sync", "full"): SQLITE_IOERR_FSYNC,
}

_kept: list[Any] = []
"""What the library has pointers to."""

_directories: list[str] = []
"""Those synced within the call under way."""


def install(recorder: Recorder) -> None:
    """Let the recorder know of everything that SQLite does in this process from now on."""
    library = ctypes.CDLL(_sqlite3.__file__)
    find = library.sqlite3_vfs_find
    find.restype = POINTER(Vfs)
    real: Vfs = find(None).contents
    ours = Vfs.from_buffer_copy(real)
    ours.name = b"recorded"
    paths: dict[int, str] = {}
    real_methods: dict[int, Methods] = {}
    our_methods: dict[int, Methods] = {}

    def open_file(vfs: int, name: int | None, file: Any, flags: int, out_flags: Any) -> int:
        # The very pointer is passed on: SQLite keeps it, and looks for options behind the end of the name.
        path = ctypes.string_at(name).decode() if name else ""
        is_new = bool(flags & SQLITE_OPEN_CREATE)
        if path:
            recorder.opening(path, is_new=is_new)
        status: int = real.xOpen(vfs, name, file, flags, out_flags)
        if status == 0 and path:
            paths[_address(file)] = path
            table = ctypes.addressof(file.contents.methods.contents)
            if table not in our_methods:
                real_methods[table] = file.contents.methods.contents
                our_methods[table] = _recording(real_methods[table], paths, recorder)
            file.contents.methods = ctypes.pointer(our_methods[table])
        return status

    def delete(vfs: int, name: bytes, sync_directory: int) -> int:
        status: int = real.xDelete(vfs, name, sync_directory)
        if status == 0:
            recorder.deleted(name.decode())
        _tell_of_directories(recorder)
        return status

    ours.xOpen, ours.xDelete = OPEN(open_file), DELETE(delete)
    _kept.extend((real, ours, our_methods, real_methods))
    _watch_directories(real)
    assert library.sqlite3_vfs_register(ctypes.byref(ours), 1) == 0


def _recording(real: Methods, paths: dict[int, str], recorder: Recorder) -> Methods:
    """The same methods, but for those that change a file."""
    ours = Methods.from_buffer_copy(real)

    def close(file: int) -> int:
        paths.pop(file, None)
        status: int = real.xClose(file)
        return status

    def write(file: int, data: int, size: int, offset: int) -> int:
        path = paths[file]
        if (failure := recorder.failure_of("write", path)) is not None:
            real.xWrite(file, data, size // 2, offset)  # as when the disk is full
            recorder.written(path, offset, ctypes.string_at(data, size // 2))
            return FAILURES["write", failure]
        status: int = real.xWrite(file, data, size, offset)
        recorder.written(path, offset, ctypes.string_at(data, size))
        return status

    def truncate(file: int, size: int) -> int:
        path = paths[file]
        if (failure := recorder.failure_of("truncate", path)) is not None:
            return FAILURES["truncate", failure]
        status: int = real.xTruncate(file, size)
        recorder.truncated(path, size)
        return status

    def sync(file: int, flags: int) -> int:
        path = paths[file]
        if (failure := recorder.failure_of("sync", path)) is not None:
            recorder.synced(path, failed=True)
            return FAILURES["sync", failure]
        status: int = real.xSync(file, flags)
        recorder.synced(path)
        _tell_of_directories(recorder)
        return status

    ours.xClose, ours.xWrite, ours.xTruncate, ours.xSync = (
        CLOSE(close),
        WRITE(write),
        TRUNCATE(truncate),
        SYNC(sync),
    )
    return ours


def _watch_directories(real: Vfs) -> None:
    """SQLite opens a directory for one reason: to sync it, after the file that it is syncing or deleting."""
    vfs = ctypes.addressof(real)
    before = OPEN_DIRECTORY(real.xGetSystemCall(vfs, b"openDirectory"))

    def open_directory(name: bytes, descriptor: Any) -> int:
        status: int = before(name, descriptor)
        if status == 0:
            _directories.append(name.decode().rpartition("/")[0])
        return status

    ours = OPEN_DIRECTORY(open_directory)
    _kept.extend((before, ours))
    assert real.xSetSystemCall(vfs, b"openDirectory", ctypes.cast(ours, c_void_p)) == 0


def _tell_of_directories(recorder: Recorder) -> None:
    while _directories:
        recorder.directory_synced(_directories.pop())


def _address(file: Any) -> int:
    return ctypes.addressof(file.contents)
