"""One request at a time for each id."""

import asyncio

import pytest

from service.engine.rounds.retries import IdLocks
from tests.support.waiting import PATIENCE_SECONDS


async def test_a_lock_is_given_on_in_the_order_in_which_it_was_asked_for() -> None:
    locks = IdLocks()
    order: list[int] = []

    async def work(number: int) -> None:
        await locks.acquire("id")
        try:
            assert "id" in locks and not locks.try_acquire("id")
            await asyncio.sleep(0)
            order.append(number)
        finally:
            locks.release("id")

    await asyncio.gather(*map(work, range(20)))
    assert order == list(range(20)) and "id" not in locks


@pytest.mark.parametrize("cancelled_when_given", [False, True])
async def test_whoever_gives_up_waiting_leaves_the_lock_to_the_next(cancelled_when_given: bool) -> None:
    locks = IdLocks()
    assert locks.try_acquire("id")
    gives_up, waits = (asyncio.create_task(locks.acquire("id")) for _ in range(2))
    await asyncio.sleep(0)
    if cancelled_when_given:  # it was given the lock, and has not yet gone on
        locks.release("id")
        gives_up.cancel()
    else:
        gives_up.cancel()
        await asyncio.sleep(0)
        locks.release("id")
    await asyncio.wait_for(waits, PATIENCE_SECONDS)
    locks.release("id")
    assert "id" not in locks and gives_up.cancelled()
