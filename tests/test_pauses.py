"""The meter of `tests/support/loop_pauses.py` sees all work that is done in one piece, wherever it is."""

import asyncio
from time import thread_time

import pytest

from tests.support.loop_pauses import watched

SECONDS = 0.02


def work() -> None:
    until = thread_time() + SECONDS
    while thread_time() < until:
        pass


@pytest.mark.parametrize("turns_before", [0, 1, 5])
@pytest.mark.parametrize("turns_after", [0, 1, 5])
async def test_work_in_one_piece_is_seen_at_the_beginning_and_at_the_end(
    turns_before: int, turns_after: int
) -> None:
    async with watched() as turns:
        for _ in range(turns_before):
            await asyncio.sleep(0)
        work()
        for _ in range(turns_after):
            await asyncio.sleep(0)
    assert turns.longest_seconds >= SECONDS


async def test_work_in_a_task_of_its_own_is_seen() -> None:
    async def task() -> None:
        work()

    async with watched() as turns:
        await asyncio.create_task(task())
    assert turns.longest_seconds >= SECONDS
