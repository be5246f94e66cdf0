"""The data directory: its lock, the permissions of its files, its identity, and how a repaired file takes its place.

Identity: a random one is in the journal and in the file `identity` beside it. A directory that has one has been used:
if its journal is missing, empty or another's, beginning anew would hide all that was learned, so that is refused.

Permissions: SQLite opens a file that may only be read, and refuses no more than the writes. A backup that was restored
as root is such a file. No other user may read the files.

Repair: SQLite would fold the log of the old file into the new one, and two files cannot be replaced at once. So the
copy is first renamed to `journal.sqlite.repaired`, and from then on it is the journal: the next process that opens the
directory, the service or the doctor, takes the steps that are left. Until then the old file and its log are unchanged.
"""

import fcntl
import logging
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from secrets import token_hex

from service.errors import DirectoryLocked, DirectoryUnusable, JournalMissing
from service.journal.sqlite.acknowledged import file_beside, has_log
from service.journal.sqlite.schema import PAGE_BYTES, open_reader, open_writer
from service.journal.sqlite.soundness import check_log, check_soundness, fold_log

log = logging.getLogger(__name__)

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


def check_writable(path: Path) -> None:
    """DirectoryUnusable if a file of the journal at `path` is there and may not be used as the service has to."""
    for file, use in _files(path):
        if not os.access(file, use, effective_ids=True):
            owner, user = file.stat().st_uid, os.geteuid()
            raise DirectoryUnusable(
                f"{file} belongs to user {owner}, but user {user} has no write permission:"
                f" as root, chown {user} {file} && chmod u+rw {file}"
            )


def keep_private(path: Path) -> None:
    """Make the journal's file if there is none, and let the files here be for their owner only.

    SQLite gives those that it makes beside it the same mode. Files of another owner are left as they are.
    """
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    for file, _ in _files(path):
        found = file.stat()
        if found.st_uid == os.geteuid() and found.st_mode & 0o077:
            file.chmod(found.st_mode & 0o700)


def _files(path: Path) -> list[tuple[Path, int]]:
    """Those that there are, and what has to be possible with each."""
    names = (path.name, f"{path.name}-wal", f"{path.name}-shm", "lock", "acknowledged")
    uses = [(path.with_name(name), os.R_OK | os.W_OK) for name in names]
    return [(file, use) for file, use in (*uses, (path.with_name("identity"), os.R_OK)) if file.exists()]


def replace_with(new: Path, path: Path) -> None:
    """Put a new file, which is durable and has no log, in the place of a journal. The directory is locked."""
    new.replace(_repaired(path))
    sync_directory(path.parent)
    _put_in_place(path)


def end_replacing(path: Path) -> None:
    """Take the steps that are left, if a repair was cut off amid them."""
    if is_replacing(path):
        log.warning(
            "a repair of %s was interrupted; it is completed now, and the old file is beside it", path
        )
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


def write_durably(file: Path, content: bytes) -> None:
    """Put a file with this content in the place of one, if there is one. A power cut leaves one of the two."""
    new = file.with_name(f"{file.name}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    new.replace(file)
    sync_directory(file.parent)


def open_directory(path: Path, durability: str) -> None:
    """Make the journal or check it, and see that it belongs here. The directory is locked by the caller.

    A journal without an identity, one that is new or from before there were any, takes that of the directory. It is
    written to the journal first, so that a start that is killed on the way can be repeated. DirectoryUnusable if one of
    the files is none: a directory, a link to itself.
    """
    try:
        _open_directory(path, durability)
    except OSError as error:
        where, why = error.filename or path, error.strerror or error
        raise DirectoryUnusable(f"{where} cannot be used: {why}") from error


def _open_directory(path: Path, durability: str) -> None:
    check_writable(path)
    end_replacing(path)
    check_not_lost(path)
    check_log(path, durability)
    try:
        keep_private(path)
    except OSError as error:
        raise DirectoryUnusable(f"{path} cannot be written: {error.strerror}") from error
    open_writer(path, durability).close()
    check_soundness(path)
    known = identity_beside(path)
    try:
        identity = _identified(path, known or token_hex(16))
    except sqlite3.Error as error:
        raise DirectoryUnusable(f"{path} cannot be written: {error}") from error
    if known is None:
        _write(_file(path), identity)
    elif known != identity:
        raise JournalMissing(why_not_its_own(path))


def _identified(path: Path, own: str) -> str:
    """The identity in the journal, which takes this one if it has none. What a crash has left is folded in."""
    with closing(open_writer(path, "power")) as connection:
        fold_log(connection, path)
        connection.execute(
            "UPDATE journal SET identity = ?1, digest = journal_digest(?1, numbered) WHERE identity = ''",
            (own,),
        )
        identity = identity_in(connection)
    path.with_name("roots").unlink(missing_ok=True)  # a note that versions before 0.2.0 wrote
    assert identity is not None  # or it would not be sound
    return identity


def check_not_lost(path: Path) -> None:
    """JournalMissing if the directory has been used and its journal is not there, or is without content.

    To be asked before SQLite opens the file, since it removes a log whose file is empty.
    """
    if not _is_blank(path):
        return
    if identity_beside(path) is not None:
        raise JournalMissing(
            f"{path.parent} has been used, and its {path.name} is missing or empty: put it back or restore a"
            f" backup; to start empty, remove {_file(path)}"
        )
    if has_log(path):
        raise JournalMissing(
            f"{path} is missing or empty, and its newest events are in {path.name}-wal: put back the file that"
            f" belongs to it or restore a backup; to start empty, remove {path}-wal"
        )


def has_been_used(path: Path) -> bool:
    """Whether there is a journal, or what one leaves behind."""
    return identity_beside(path) is not None or has_log(path) or not _is_blank(path)


def take_over(new: Path, path: Path) -> None:
    """Make a checked file the journal of a directory that has none, and let the directory have its identity.

    The files get the owner of the directory, also if root restores them.
    """
    with closing(open_reader(new)) as connection:
        identity = identity_in(connection)
    with new.open("rb+") as opened:
        os.fsync(opened.fileno())
    new.rename(path)
    if identity:  # a journal of 0.1.0 gets one when it is first opened
        _write(_file(path), identity)
    sync_directory(path.parent)
    owner = path.parent.stat()
    for file in (path, _file(path), path.with_name("lock")):
        if file.exists() and file.stat().st_uid != owner.st_uid:
            os.chown(file, owner.st_uid, owner.st_gid)


def why_not_its_own(path: Path) -> str:
    return (
        f"{path} belongs to another data directory than {path.parent}: put the right journal back,"
        f" or, to keep this one, remove {_file(path)}"
    )


def identity_in(connection: sqlite3.Connection) -> str | None:
    """That of a journal; None if it is damaged so that it has none."""
    row = connection.execute("SELECT identity FROM journal").fetchone()
    return str(row[0]) if row else None


def identity_beside(path: Path) -> str | None:
    """That of the directory of a journal; None if it has not been used."""
    try:
        return _file(path).read_text("ascii", "replace").strip() or None
    except (FileNotFoundError, NotADirectoryError):
        return None


def _file(path: Path) -> Path:
    return path.with_name("identity")


def _write(file: Path, identity: str) -> None:
    try:
        write_durably(file, f"{identity}\n".encode())
    except OSError as error:
        raise DirectoryUnusable(f"{file} cannot be written: {error.strerror}") from error


def _is_blank(path: Path) -> bool:
    """Whether there is no file, an empty one, or a database of one page, which has no table.

    A file of one page may have all else in the log beside it, but an empty one may not. One whose first page is lost
    is damaged, and not blank: SQLite refuses to open it.
    """
    try:
        with path.open("rb") as opened:
            head = opened.read(32)
            size = os.fstat(opened.fileno()).st_size
    except FileNotFoundError:
        return True
    is_lost = size > PAGE_BYTES and not head.startswith(b"SQLite format 3\0")
    pages = int.from_bytes(head[28:], "big")
    return not head or (pages <= 1 and not has_log(path) and not is_lost)
