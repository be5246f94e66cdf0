"""Long work of many tasks holds the event loop no longer than that of one."""

import asyncio

import pytest

from service.runtime.cooperative import Turns

TASKS = 30
SLICES = 3


async def works(name: int, done: list[int]) -> None:
    """Uses up each of its slices."""
    turns = Turns()
    for _ in range(SLICES):
        while not turns.is_over:
            pass
        done.append(name)
        await turns.give()


@pytest.mark.slow
async def test_in_each_turn_of_the_loop_one_of_many_tasks_goes_on_and_all_have_theirs() -> None:
    done: list[int] = []
    working = [asyncio.create_task(works(name, done)) for name in range(TASKS)]
    await asyncio.sleep(0)  # each has begun, with a slice that is short if others stand in line
    assert sorted(done) == list(range(TASKS))
    in_a_turn = []
    while not all(task.done() for task in working):
        before = len(done)
        await asyncio.sleep(0)
        in_a_turn.append(len(done) - before)
    assert max(in_a_turn) == 1
    assert done == [*range(TASKS)] * SLICES


async def test_who_is_cancelled_while_standing_in_line_holds_up_nobody() -> None:
    done: list[int] = []
    working = [asyncio.create_task(works(name, done)) for name in range(4)]
    await asyncio.sleep(0)
    for task in working[::2]:
        task.cancel()
    await asyncio.gather(*working, return_exceptions=True)
    assert done == [0, 1, 2, 3, 1, 3, 1, 3]


def test_what_stood_in_line_of_a_loop_that_has_ended_holds_up_no_other_loop() -> None:
    async def leaves() -> None:
        task = asyncio.create_task(works(0, []))
        await asyncio.sleep(0)
        assert not task.done()

    done: list[int] = []
    asyncio.run(leaves())
    asyncio.run(works(1, done))
    assert done == [1, 1, 1]
