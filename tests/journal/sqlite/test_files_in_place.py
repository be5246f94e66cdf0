"""Whether the files of the journal are still at their paths is seen with the next commit."""

import os
import sqlite3
from pathlib import Path

import pytest

from service.journal.sqlite import ownership
from service.journal.sqlite.ownership import FilesInPlace, opened_file


def test_a_replaced_file_is_noticed_though_the_directory_has_its_old_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `cp -a --remove-destination` and `rsync -a` leave it."""
    monkeypatch.setattr(ownership, "CLOCK_STEP_NS", 100_000_000)
    monkeypatch.setattr(ownership, "LOOK_AGAIN_SECONDS", 1_000.0)
    journal, restored = tmp_path / "journal.sqlite", tmp_path / "restored"
    restored.touch()
    with journal.open("w"):  # open, so that its inode is not used again
        files = FilesInPlace([opened_file(journal)])
        while files._seen is None:
            files.check()
        before = tmp_path.stat()
        restored.rename(journal)
        os.utime(tmp_path, ns=(before.st_atime_ns, before.st_mtime_ns))
        with pytest.raises(sqlite3.OperationalError, match="another file"):
            files.check()
