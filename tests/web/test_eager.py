"""Coroutines that begin at once do as tasks do."""

import asyncio
from contextvars import ContextVar

import pytest

from service.web import eager

name: ContextVar[str] = ContextVar("name", default="nobody")


async def test_what_never_waits_is_done_when_start_returns() -> None:
    done = []

    async def work() -> None:
        done.append(name.get())
        name.set("somebody")

    name.set("the caller")
    assert eager.start(work(), asyncio.get_running_loop()) is None
    assert done == ["nobody"] and name.get() == "the caller", "a context of its own"


async def test_many_may_wait_for_the_same() -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    seen = []

    async def work(number: int) -> None:
        name.set(f"{number}")
        first = await future
        await asyncio.sleep(0)
        seen.append((number, first, name.get(), asyncio.current_task()))

    tasks = [eager.start(work(number), asyncio.get_running_loop()) for number in range(3)]
    await asyncio.sleep(0)
    future.set_result(7)
    for task in tasks:
        assert task is not None
        await task
    assert seen == [(number, 7, f"{number}", tasks[number]) for number in range(3)]


async def test_errors_and_cancellations_arrive() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    caught: list[BaseException] = []

    async def work() -> None:
        try:
            await future
        except BaseException as error:
            caught.append(error)
            raise

    failing = eager.start(work(), asyncio.get_running_loop())
    assert failing is not None
    future.set_exception(ValueError("x"))
    with pytest.raises(ValueError, match="x"):
        await failing
    future = asyncio.get_running_loop().create_future()
    cancelled = eager.start(work(), asyncio.get_running_loop())
    assert cancelled is not None
    await asyncio.sleep(0)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert [type(error) for error in caught] == [ValueError, asyncio.CancelledError]


async def test_a_coroutine_that_gives_way_goes_on() -> None:
    steps = []

    async def work() -> None:
        for step in range(3):
            steps.append(step)
            await asyncio.sleep(0)

    task = eager.start(work(), asyncio.get_running_loop())
    assert steps == [0] and task is not None
    await task
    assert steps == [0, 1, 2]
