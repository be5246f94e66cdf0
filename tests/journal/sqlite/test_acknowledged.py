"""The note of what was acknowledged stays as long as the log, which it is there to miss."""

from contextlib import closing
from pathlib import Path

import pytest

from service.errors import JournalDamaged
from service.events import ModelCreated
from service.journal.sqlite.acknowledged import has_log, read_note
from service.journal.sqlite.directory import open_directory
from service.journal.sqlite.ownership import opened_file
from service.journal.sqlite.records import Group, Opening, record_of
from service.journal.sqlite.schema import open_reader
from service.journal.sqlite.soundness import check_soundness
from service.journal.sqlite.writer_process import Committer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "journal.sqlite"
    path.parent.mkdir()
    open_directory(path, "power")
    return path


def committed(path: Path, model: str = "m") -> Committer:
    """What has written the birth of a model."""
    committer = Committer(Opening(str(path), "power", 1000, 1000, [opened_file(path)]))
    birth = record_of(ModelCreated(model, 1, {}), 0)
    assert committer.commit(Group(0, [birth])).failure is None
    return committer


def test_a_stop_that_cannot_fold_the_log_leaves_the_note(path: Path) -> None:
    committer = committed(path)
    with closing(open_reader(path)) as reader:  # while others have the file open, the log stays
        reader.execute("SELECT count(*) FROM event").fetchall()
        committer.stop()
        assert has_log(path) and read_note(path) is not None
        without_log = path.read_bytes()
    path.with_name("journal.sqlite-wal").unlink(missing_ok=True)
    path.write_bytes(without_log)  # as if the log had been removed before it was folded
    with pytest.raises(JournalDamaged, match="was acknowledged"):
        check_soundness(path)


def test_a_stop_that_folds_the_log_removes_the_note(path: Path) -> None:
    committed(path).stop()
    assert not has_log(path) and read_note(path) is None
    check_soundness(path)


def test_a_kill_between_the_fold_and_the_end_of_the_note_does_no_harm(path: Path) -> None:
    committer = committed(path)
    committer.close()
    assert not has_log(path) and read_note(path) is not None
    check_soundness(path)
    committed(path, "n").stop()
    check_soundness(path)
