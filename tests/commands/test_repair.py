"""`novikoff doctor --repair`: what is lost is named, what is sound is kept, and nothing is emptied without a word."""

import os
import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from service.errors import DirectoryUnusable, JournalDamaged
from service.journal.sqlite.acknowledged import read_note
from service.journal.sqlite.directory import open_directory
from tests.commands.repaired import JOURNAL, PAGE_BYTES, Content, content_of, fill, truth_of
from tests.commands.running import Ended, novikoff
from tests.support.service_process import Service

Copy = Callable[..., Path]


def has_events_in_log(path: Path) -> bool:
    """Whether an event that was acknowledged is not in the file yet."""
    with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as connection:
        tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'event'").fetchone()
        newest = connection.execute("SELECT max(seq) FROM event").fetchone()[0] if tables[0] else None
    note = read_note(path)
    return note is not None and note.seq > (newest or 0)


class Sources:
    """A directory that was stopped and one that was killed, and what is in them."""

    def __init__(self, where: Path) -> None:
        self.truths: dict[str, Content] = {}
        self.where = where
        for name in ("stopped", "killed"):
            service = Service(where / name, snapshot_every_events=20).start()
            fill(service)
            if name == "killed":
                while not has_events_in_log(service.data / JOURNAL):
                    service.learn("o", [1.0, 1.0], 1)
                os.kill(service.writer_pid, signal.SIGKILL)
                service.kill()
            else:
                assert service.stop() == 0
            service.close()
            self.truths[name] = truth_of(where / name, where / f"{name}-truth")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    return Sources(tmp_path_factory.mktemp("sources"))


@pytest.fixture
def copy(sources: Sources, tmp_path: Path) -> Copy:
    def copied(name: str = "stopped") -> Path:
        return Path(shutil.copytree(sources.where / name, tmp_path / name))

    return copied


def repair(data: Path, *more: str) -> Ended:
    return novikoff("doctor", "--data", data, "--repair", *more)


def flip(file: Path, at: int, bit: int = 4) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= bit
    file.write_bytes(content)


def tear(data: Path, *names: str) -> None:
    with closing(sqlite3.connect(data / JOURNAL)) as connection:
        roots = dict(connection.execute("SELECT name, rootpage FROM sqlite_master"))
    with (data / JOURNAL).open("rb+") as file:
        for name in names:
            file.seek((roots[name] - 1) * PAGE_BYTES)
            file.write(b"\xff" * 200)


@pytest.mark.parametrize(
    ("place", "bit"),
    [(b"previous", 4), (b"TABLE event", 4), (b"NOT NULL DEFAULT", 0x80), (b"SQLite format", 4)],
)
def test_a_damaged_schema_is_told_and_left_as_it_is(copy: Copy, place: bytes, bit: int) -> None:
    """What SQLite says of it may have bytes that are no text."""
    data = copy()
    flip(data / JOURNAL, (data / JOURNAL).read_bytes().index(place) + 7, bit)
    before = (data / JOURNAL).read_bytes()
    with pytest.raises((JournalDamaged, DirectoryUnusable)):
        open_directory(data / JOURNAL, "power")
    assert novikoff("doctor", "--data", data).status == 1
    ended = repair(data)
    assert ended.status == 1 and "ackup" in ended.out + ended.err, ended
    assert (data / JOURNAL).read_bytes() == before and not list(data.glob("*.damaged*"))


def test_a_damaged_event_is_given_up_by_its_number(copy: Copy, sources: Sources) -> None:
    """Of the others those stay that a snapshot does not cover."""
    data = copy()
    content = (data / JOURNAL).read_bytes()
    events = sources.truths["stopped"].events
    seq = next(seq for seq, event in events.items() if event[1] == "r010")
    flip(data / JOURNAL, content.index(bytes(events[seq][2])) + 20)  # type: ignore[call-overload]
    ended = repair(data)
    assert ended.status == 1 and f"discarded: the events of m up to {seq}" in ended.out, ended
    found = content_of(data)
    assert found.models == sources.truths["stopped"].models
    assert all(found.events[seq] == events[seq] for seq in found.events)


def test_a_journal_of_which_nothing_can_be_read_is_left_as_it_is(copy: Copy) -> None:
    data = copy()
    tear(
        data, "event", "event_of_model", "sqlite_autoindex_event_1", "snapshot", "sqlite_autoindex_snapshot_1"
    )
    before = {file.name: file.read_bytes() for file in data.iterdir() if file.suffix == ".sqlite"}
    ended = repair(data)
    assert ended.status == 1 and "nothing was changed: no event and no snapshot" in ended.err, ended
    assert {file.name: file.read_bytes() for file in data.iterdir() if file.suffix == ".sqlite"} == before
    assert not list(data.glob("*.new*")) and not list(data.glob("*.damaged*"))
    ended = repair(data, "--give-up")
    assert ended.status == 1 and "discarded: events that cannot be read, number unknown" in ended.out
    assert "journal.sqlite.damaged.txt" in novikoff("doctor", "--data", data).out


def test_the_file_of_an_earlier_repair_is_never_touched(copy: Copy) -> None:
    data = copy()
    (data / f"{JOURNAL}.damaged").write_bytes(b"the only one")
    tear(data, "outcome")
    assert "the old file is now journal.sqlite.damaged-2" in repair(data).out
    assert (data / f"{JOURNAL}.damaged").read_bytes() == b"the only one"
    assert (data / f"{JOURNAL}.damaged-2").exists() and not list(data.glob("*.new*"))


@pytest.mark.parametrize("torn", [["model"], ["model", "sqlite_autoindex_model_1"]])
def test_lines_of_models_are_made_anew_from_their_events(
    copy: Copy, sources: Sources, torn: list[str]
) -> None:
    data = copy()
    tear(data, *torn)
    ended = repair(data)
    assert ended.status == len(torn) - 1, ended  # what neither has is unknown
    assert content_of(data) == sources.truths["stopped"]
    assert novikoff("doctor", "--data", data).status == 0


@pytest.mark.parametrize("is_trimmed", [False, True])
def test_a_model_without_its_line_keeps_all_that_is_sealed(
    copy: Copy, sources: Sources, is_trimmed: bool
) -> None:
    data = copy()
    with closing(sqlite3.connect(data / JOURNAL)) as connection:
        if is_trimmed:  # the snapshot tells whose it is
            life = "(SELECT id FROM model WHERE name = 'm')"
            newest = f"(SELECT max(seq) FROM snapshot WHERE model = {life})"
            connection.execute(f"DELETE FROM event WHERE model = {life} AND seq <= {newest}")
            connection.execute(f"DELETE FROM outcome WHERE model = {life}")
        connection.execute("DELETE FROM model WHERE name = 'm'")
        connection.commit()
    ended = repair(data)
    assert (
        ended.status == is_trimmed
        and ("the time up to which predictions of m are void" in ended.out) == is_trimmed
    )
    found, truth = content_of(data), sources.truths["stopped"]
    assert (found.pending, found.models) == (truth.pending, truth.models)


def test_without_its_log_nothing_is_given_up_in_silence(copy: Copy) -> None:
    data = copy("killed")
    (data / f"{JOURNAL}-wal").unlink()
    ended = repair(data)
    assert ended.status == 1 and "nothing was changed: " in ended.err and (data / "acknowledged").exists()
    ended = repair(data, "--give-up")
    assert ended.status == 1 and "discarded: all events after number " in ended.out, ended
    assert "all events after number " in (data / f"{JOURNAL}.damaged.txt").read_text()
    with closing(sqlite3.connect(data / JOURNAL)) as connection:
        (numbered,) = connection.execute("SELECT numbered FROM journal").fetchone()
    assert numbered >= 100, "no number is given again"


def test_a_prediction_whose_key_has_changed_is_given_up_by_its_name(copy: Copy, sources: Sources) -> None:
    content = (copy() / JOURNAL).read_bytes()
    places = [at for at in range(len(content)) if content.startswith(b"w11", at)]
    assert len(places) >= 3
    for number, at in enumerate(places):
        data = Path(shutil.copytree(sources.where / "stopped", sources.where / f"key-{number}"))
        flip(data / JOURNAL, at + 2, ord("1") ^ ord("9"))
        ended = repair(data)
        lost = sources.truths["stopped"].pending.keys() - content_of(data).pending.keys()
        assert lost <= {"w11"} and (ended.status == 1) == bool(lost), (at, lost, ended)
        assert not lost or "'w1" in ended.out


def test_what_waited_on_a_torn_page_is_named(copy: Copy) -> None:
    data = copy()
    tear(data, "pending")
    ended = repair(data)
    assert (
        ended.status == 1 and "discarded: pending predictions that cannot be read: 'w00', 'w01'" in ended.out
    )
