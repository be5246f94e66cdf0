"""What failed commits leave in SQLite's log is cut off, so that nobody takes it for something that was acknowledged."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from service.journal.sqlite import erasing
from service.journal.sqlite.acknowledged import FRAME_HEADER_BYTES, LOG_HEADER_BYTES, read_index
from service.journal.sqlite.directory import open_directory
from service.journal.sqlite.ownership import opened_file
from service.journal.sqlite.records import NEW, REPEATED, BirthRecord, EraseRecord, Group, Opening
from service.journal.sqlite.schema import PAGE_BYTES, open_reader
from service.journal.sqlite.soundness import check_log
from service.journal.sqlite.writer_process import Committer
from tests.support.forkserver import ROOT

FAILING = """
import os
import sys
from pathlib import Path
from service.journal.sqlite.writer_process import Committer
from service.journal.sqlite.directory import open_directory
from service.journal.sqlite.ownership import opened_file
from service.journal.sqlite.records import BirthRecord, EventRecord, Group, Opening
from service.journal.sqlite.schema import open_reader
from tests.torture import recording
from tests.torture.recording import Fault

path = Path(sys.argv[1]) / "journal.sqlite"
recording.install(path.parent, path.parent.with_name("log"), Fault("sync", 3, 3, "io"))
open_directory(path, "power")
reader = open_reader(path)  # as a service has one, so that no other connection is the last
reader.execute("SELECT count(*) FROM event").fetchall()
recording.recorder.is_writer = True
committer = Committer(Opening(str(path), "power", 1000, 1000, [opened_file(path)]))
failures = 0
# Each commit is shorter than the one before. Three syncs fail: that of 6 pages, and twice what is cut off then.
for pages in (0, 6, 3, 1):
    records = [EventRecord(1, None, False, None, bytes(8000))] * pages or [BirthRecord("m", 1, b"", b"birth")]
    written = committer.commit(Group(failures, records))
    failures += written.failure is not None
    print(pages, written.failure, flush=True)
os._exit(0)  # as by a kill: nothing is closed
"""


@pytest.mark.slow
def test_a_directory_is_sound_after_commits_that_failed_and_one_that_did_not(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    ended = subprocess.run(
        [sys.executable, "-c", FAILING, directory], cwd=ROOT, capture_output=True, text=True, check=True
    )
    told = [line.split(maxsplit=1)[1] for line in ended.stdout.splitlines()]
    assert told[::3] == ["None", "None"] and told[1] == "disk I/O error", told
    assert told[2].endswith("cannot be cut off: made to fail"), "nothing is written before that is durable"
    path = directory / "journal.sqlite"
    with closing(open_reader(path)) as reader:
        reader.execute("SELECT count(*) FROM event").fetchall()
        valid, _ = read_index(path)
    size = path.with_name("journal.sqlite-wal").stat().st_size
    frames = (size - LOG_HEADER_BYTES) // (FRAME_HEADER_BYTES + PAGE_BYTES)
    assert frames == valid, "something stands behind the last commit"
    check_log(path, "power")


def test_a_file_that_could_not_be_written_anew_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync may be what has failed: then what it has left in the log is cut off before anything else is written."""
    monkeypatch.setattr(erasing, "CUT_OFF_TRIES", 2)  # which takes ten seconds otherwise
    path = tmp_path / "journal.sqlite"
    open_directory(path, "power")
    committer = Committer(Opening(str(path), "power", 1000, 1000, [opened_file(path)]))
    assert committer.commit(Group(0, [BirthRecord("m", 1, b"", b"birth")])).failure is None
    connection = committer._connection
    group = Group(0, [EraseRecord(1, [], [], (1, 1), [], is_whole=True)])
    with closing(open_reader(path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM event").fetchall()  # so that the log cannot be emptied
        assert committer.commit(group).results == [(REPEATED, 0)]
    assert committer._connection is None
    assert committer.commit(group).results == [(NEW, 0)]
    assert committer._connection not in (None, connection)
    committer.stop()
