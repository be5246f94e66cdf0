"""Group commit: order, groups that grow with the load, failure, and a queue that is bounded."""

import asyncio
import os
import select
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from service.errors import Overloaded
from service.journal.seals import SEAL_BYTES
from service.journal.sqlite.group_commit import GROUP_MAX, GroupCommit, Item
from service.journal.sqlite.records import (
    NEW,
    BirthRecord,
    DeathRecord,
    EventRecord,
    Opening,
    PendingRecord,
    Record,
    SnapshotRecord,
    Voids,
    Written,
)
from service.journal.sqlite.schema import open_writer
from service.runtime.cooperative import Turns
from tests.support.waiting import PATIENCE_SECONDS, eventually_async

Groups = list[tuple[list[Item], Written]]


@asynccontextmanager
async def writer_at(path: Path, groups: Groups, *, queue_max: int = 10_000) -> AsyncIterator[GroupCommit]:
    open_writer(path, "power").close()

    def done(group: list[Item], written: Written, _: Turns) -> Iterator[None]:
        groups.append((group, written))
        yield from ()

    writer = GroupCommit(done, queue_max=queue_max)
    lock = os.open(path.parent / "lock", os.O_RDWR | os.O_CREAT)
    await writer.start(Opening(str(path), "power", 100, 100, []), lock)
    yield writer
    await writer.stop()
    os.close(lock)


def waited_for(record: BirthRecord | EventRecord) -> Item:
    return Item(record, asyncio.get_running_loop().create_future())


def event(number: int) -> EventRecord:
    return EventRecord(1, None, False, None, str(number).encode())


async def test_what_gathers_during_a_commit_goes_into_the_next_one(tmp_path: Path) -> None:
    groups: Groups = []
    async with writer_at(tmp_path / "journal.sqlite", groups) as writer:
        writer.submit(waited_for(BirthRecord("m", 1, b"{}", b"birth")))
        for number in range(3):
            await asyncio.sleep(0)
            writer.submit(waited_for(event(number)))
        for number in range(3, GROUP_MAX + 500):
            writer.submit(waited_for(event(number)))
    assert 2 <= len(groups) <= 6, "they were gathered"
    assert max(len(group) for group, _ in groups) <= GROUP_MAX
    results = [result for _, written in groups for result in written.results]
    assert results == [(NEW, seq) for seq in range(1, GROUP_MAX + 502)], "in the order of submission"
    rows = (
        sqlite3.connect(tmp_path / "journal.sqlite").execute("SELECT body FROM event ORDER BY seq").fetchall()
    )
    assert [body[:-SEAL_BYTES] for (body,) in rows[1:]] == [
        str(number).encode() for number in range(GROUP_MAX + 500)
    ]


async def test_predictions_that_nobody_waits_for_gather_and_may_be_withdrawn(tmp_path: Path) -> None:
    groups: Groups = []
    async with writer_at(tmp_path / "journal.sqlite", groups) as writer:
        writer.submit(waited_for(BirthRecord("m", 1, b"{}", b"birth")))
        await eventually_async(lambda: len(groups) == 1, every=0)
        for number in range(5):
            writer.submit(Item(PendingRecord(f"p{number}", 1, number, b"body"), None))
        assert (writer.waiting, writer.submitted, writer.finished) == (5, 6, 1)
        writer.submit(waited_for(event(0)))
        withdrawn = writer.withdraw("p0")
        assert withdrawn is not None and withdrawn.prediction_id == "p0"
        assert writer.withdraw("p0") is None
        assert (writer.waiting, writer.submitted, writer.finished) == (5, 7, 2)
        await writer.settle()
        assert (writer.waiting, writer.finished) == (0, 7)
        assert [len(group) for group, _ in groups] == [1, 1, 4], "the event did not wait for the predictions"
    rows = (
        sqlite3.connect(tmp_path / "journal.sqlite").execute("SELECT prediction_id FROM pending").fetchall()
    )
    assert sorted(rows) == [(f"p{number}",) for number in range(1, 5)]


async def test_a_prediction_that_takes_the_place_of_a_held_one_counts_once(tmp_path: Path) -> None:
    async with writer_at(tmp_path / "journal.sqlite", []) as writer:
        for number in range(5):
            writer.submit(Item(PendingRecord("p", 1, number, b"body"), None))
        assert writer.waiting == 1, "the others are given up, and are not written"
        await writer.settle()
        assert (writer.waiting, writer.finished) == (0, writer.submitted)


@pytest.mark.parametrize("seed", range(3))
async def test_finished_is_below_the_oldest_that_is_not(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    groups: Groups = []
    async with writer_at(tmp_path / "journal.sqlite", groups) as writer:
        writer.submit(waited_for(BirthRecord("m", 1, b"{}", b"birth")))
        for number in range(3_000):
            if random.random() < 0.5:
                writer.submit(Item(PendingRecord(f"p{number}", 1, number, b"body"), None))
            else:
                writer.submit(waited_for(event(number)))
            if random.random() < 0.1:
                writer.withdraw(f"p{random.randrange(number + 1)}")
            if random.random() < 0.02:
                await asyncio.sleep(random.choice([0.0, 0.006]))
            under_way = [numbered for group in writer._under_way for numbered in group.items]
            waiting = [*writer._held.values(), *writer._queue, *writer._being_applied.items, *under_way]
            assert (
                writer.finished == min((number for number, *_ in waiting), default=writer.submitted + 1) - 1
            )
        await writer.settle()
        assert writer.finished == writer.submitted


@pytest.mark.parametrize("end", [DeathRecord(1), EventRecord(1, None, False, Voids(9, 9, 0), b"reset")])
async def test_what_voids_predictions_comes_after_them(tmp_path: Path, end: Record) -> None:
    groups: Groups = []
    async with writer_at(tmp_path / "journal.sqlite", groups) as writer:
        writer.submit(waited_for(BirthRecord("m", 1, b"{}", b"birth")))
        writer.submit(Item(PendingRecord("p", 1, 2, b"body"), None))
        writer.submit(waited_for(end))
        await writer.settle()
    assert [item.record for group, _ in groups for item in group][-1] is end


async def test_a_full_queue_refuses(tmp_path: Path) -> None:
    groups: Groups = []
    async with writer_at(tmp_path / "journal.sqlite", groups, queue_max=3) as writer:
        for record in (BirthRecord("m", 1, b"{}", b"birth"), event(1), event(2)):
            writer.submit(waited_for(record))
        with pytest.raises(Overloaded):
            writer.submit(waited_for(event(3)))
    assert sum(len(group) for group, _ in groups) == 3


async def test_a_failed_group_is_told_as_a_whole_and_the_next_one_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    groups: Groups = []
    async with writer_at(path, groups) as writer:
        writer.submit(waited_for(BirthRecord("m", 1, b"{}", b"birth")))
        await eventually_async(lambda: len(groups) == 1, every=0)
        thief = sqlite3.connect(path, isolation_level=None)
        thief.execute("DROP TABLE snapshot")  # not touched by events
        thief.execute("ALTER TABLE event RENAME TO hidden")
        writer.submit(waited_for(event(1)))
        await eventually_async(lambda: len(groups) == 2, every=0)
        failure = groups[1][1].failure
        assert failure is not None and "event" in failure
        thief.execute("ALTER TABLE hidden RENAME TO event")
        thief.close()
        writer.submit(waited_for(event(2)))
    assert groups[2][1].failure is None and groups[2][1].results == [(NEW, 2)]
    assert writer.commits.count == 2


def steal_snapshots(path: Path) -> None:
    """From here on a group with a snapshot fails."""
    thief = sqlite3.connect(path, isolation_level=None)
    thief.execute("DROP TABLE snapshot")
    thief.close()


async def test_what_was_sent_before_a_failure_was_known_fails_with_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    groups: Groups = []
    async with writer_at(path, groups) as writer:
        writer.submit(waited_for(BirthRecord("m", 1, b"{}", b"birth")))
        await eventually_async(lambda: bool(groups))
        steal_snapshots(path)
        os.kill(
            writer._process.pid, signal.SIGSTOP
        )  # so that the second group is on its way before the first fails
        writer.submit(Item(SnapshotRecord(1, 1, 0, b"", b""), None))
        await eventually_async(lambda: len(writer._under_way) == 1)
        writer.submit(waited_for(event(1)))  # could be written, but it may build on what was not
        await eventually_async(lambda: len(writer._under_way) == 2)
        os.kill(writer._process.pid, signal.SIGCONT)
        await writer.settle()
        writer.submit(waited_for(event(2)))
    failures = [written.failure for _, written in groups]
    assert failures == [None, "no such table: snapshot", "an earlier write failed", None]
    assert groups[3][1].results == [(NEW, 2)]


async def test_what_is_submitted_while_a_failure_comes_in_fails_with_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    groups: Groups = []
    async with writer_at(path, groups) as writer:
        writer.submit(waited_for(BirthRecord("m", 1, b"{}", b"birth")))
        await eventually_async(lambda: bool(groups))
        steal_snapshots(path)
        writer.submit(Item(SnapshotRecord(1, 1, 0, b"", b""), None))
        while not writer._under_way:
            await asyncio.sleep(0)
        answers = writer._answers.get_extra_info("pipe")
        assert select.select([answers], [], [], PATIENCE_SECONDS)[0], "the failure is in the pipe"
        # In the next turn of the loop it is submitted, then the failure is read, and in the turn after that it is sent.
        asyncio.get_running_loop().call_soon(writer.submit, waited_for(event(1)))
        await eventually_async(lambda: len(groups) == 3)
        writer.submit(waited_for(event(2)))
    failures = [written.failure for _, written in groups]
    assert failures == [None, "no such table: snapshot", "an earlier write failed", None]


def test_the_writing_process_has_no_numpy() -> None:
    """It would take half of its memory, and of the time that it needs to start."""
    program = "import sys, service.journal.sqlite.writer_process; sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
