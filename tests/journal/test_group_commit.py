"""Group commit: order, groups, failure, and a queue that is bounded."""

import asyncio
import threading

import pytest

from service.errors import Overloaded
from service.journal.group_commit import GroupCommit


async def test_what_gathers_during_a_commit_goes_into_the_next_one() -> None:
    first_began, first_may_end = threading.Event(), threading.Event()
    groups: list[list[int]] = []
    finished: list[int] = []

    def commit(group: list[int]) -> list[int]:
        groups.append(group)
        if len(groups) == 1:
            first_began.set()
            first_may_end.wait(30)
        return [-item for item in group]

    def done(group: list[int], results: list[int] | Exception) -> None:
        assert results == [-item for item in group]
        finished.extend(group)

    writer = GroupCommit[int, int](commit, done, queue_max=100)
    writer.start()
    writer.submit(0)
    await asyncio.to_thread(first_began.wait, 30)
    for item in range(1, 51):
        writer.submit(item)
    assert writer.waiting == 51
    first_may_end.set()
    await writer.stop()
    assert groups == [[0], list(range(1, 51))]
    assert finished == list(range(51)) and writer.waiting == 0


async def test_a_full_queue_refuses_and_a_failure_is_told() -> None:
    may_go_on = threading.Event()
    told: list[tuple[list[int], object]] = []

    def commit(group: list[int]) -> list[int]:
        may_go_on.wait(30)
        if group[0] == 1:
            raise OSError("no space left")
        return group

    writer = GroupCommit[int, int](commit, lambda group, results: told.append((group, results)), queue_max=3)
    writer.start()
    for item in (1, 2, 3):
        writer.submit(item)
    with pytest.raises(Overloaded):
        writer.submit(4)
    may_go_on.set()
    await writer.stop()
    assert [item for group, _ in told for item in group] == [1, 2, 3]
    assert isinstance(told[0][1], OSError)
