"""Whether the service may write the files of its data directory, and that nobody else may read them.

SQLite opens a file that may only be read, and refuses no more than the writes. A backup that was restored as root is
such a file.
"""

import os
from pathlib import Path

from service.errors import DirectoryUnusable


def check_writable(path: Path) -> None:
    """DirectoryUnusable if a file of the journal at `path` is there and may not be used as the service has to."""
    if refused := unwritable(path):
        raise DirectoryUnusable(f"{refused[0]} {why_unwritable(refused[0])}")


def keep_private(path: Path) -> None:
    """Make the journal's file if there is none, and let the files here be for their owner only.

    SQLite gives those that it makes beside it the same mode. Files of another owner are left as they are.
    """
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    for file, _ in _files(path):
        found = file.stat()
        if found.st_uid == os.geteuid() and found.st_mode & 0o077:
            file.chmod(found.st_mode & 0o700)


def check_readable(path: Path) -> None:
    """DirectoryUnusable if a file of the journal at `path` is there and may not even be read."""
    for file in unwritable(path):
        if not os.access(file, os.R_OK, effective_ids=True):
            raise DirectoryUnusable(f"{file} {why_unwritable(file)}")


def unwritable(path: Path) -> list[Path]:
    """The files of a journal that this process may not use as the service has to."""
    return [file for file, use in _files(path) if not os.access(file, use, effective_ids=True)]


def unwritable_for_owner(path: Path) -> list[Path]:
    """The files of a journal that the owner of its directory may not write, going by owner and mode."""
    owner = path.parent.stat().st_uid
    return [file for file, use in _files(path) if use & os.W_OK and not _may_write(owner, file.stat())]


def why_unwritable(file: Path, user: int | None = None) -> str:
    """In words that go on after its name. `user`: who may not write it; None: whom this runs as."""
    user = os.geteuid() if user is None else user
    owner = file.stat().st_uid
    remedy = f"as root, chown {user} {file} && chmod u+rw {file}"
    return f"belongs to user {owner}, and user {user} may not write it: {remedy}"


def _files(path: Path) -> list[tuple[Path, int]]:
    """Those that there are, and what has to be possible with each."""
    names = (path.name, f"{path.name}-wal", f"{path.name}-shm", "lock", "acknowledged")
    uses = [(path.with_name(name), os.R_OK | os.W_OK) for name in names]
    return [(file, use) for file, use in (*uses, (path.with_name("identity"), os.R_OK)) if file.exists()]


def _may_write(user: int, file: os.stat_result) -> bool:
    return user == 0 or bool(file.st_mode & (0o200 if file.st_uid == user else 0o022))
