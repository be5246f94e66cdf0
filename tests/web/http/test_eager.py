"""Coroutines that begin at once do as tasks do."""

import asyncio
from contextvars import ContextVar
from typing import Any

from service.web.http import eager

name: ContextVar[str] = ContextVar("name", default="nobody")


async def test_what_never_waits_is_done_when_start_returns() -> None:
    done = []
    under_way: set[Any] = set()

    async def work() -> None:
        done.append(name.get())
        name.set("somebody")

    name.set("the caller")
    eager.start(work(), asyncio.get_running_loop(), under_way)
    assert done == ["nobody"] and name.get() == "the caller", "a context of its own"
    assert not under_way


async def test_many_may_wait_for_the_same() -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    seen: list[tuple[int, int, str]] = []
    under_way: set[Any] = set()

    async def work(number: int) -> None:
        name.set(f"{number}")
        first = await future
        await asyncio.sleep(0)
        seen.append((number, first, name.get()))

    for number in range(3):
        eager.start(work(number), asyncio.get_running_loop(), under_way)
    await asyncio.sleep(0)
    assert not seen and len(under_way) == 3
    future.set_result(7)
    await nobody(under_way)
    assert seen == [(number, 7, f"{number}") for number in range(3)]


async def test_errors_and_cancellations_arrive() -> None:
    caught: list[BaseException] = []
    under_way: set[Any] = set()

    async def work(future: asyncio.Future[None]) -> None:
        try:
            await future
        except BaseException as error:
            caught.append(error)
            if not isinstance(error, ValueError):
                raise

    failing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    eager.start(work(failing), asyncio.get_running_loop(), under_way)
    failing.set_exception(ValueError("x"))
    await nobody(under_way)
    endless: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    eager.start(work(endless), asyncio.get_running_loop(), under_way)
    for waiting in under_way:
        waiting.cancel("too late")
    await nobody(under_way)
    assert [type(error) for error in caught] == [ValueError, asyncio.CancelledError]


async def test_a_coroutine_that_gives_way_goes_on() -> None:
    steps = []
    under_way: set[Any] = set()

    async def work() -> None:
        for step in range(3):
            steps.append(step)
            await asyncio.sleep(0)

    eager.start(work(), asyncio.get_running_loop(), under_way)
    assert steps == [0]
    await nobody(under_way)
    assert steps == [0, 1, 2]


async def nobody(under_way: set[Any]) -> None:
    """Wait until none is under way."""
    async with asyncio.timeout(10):
        while under_way:
            await asyncio.sleep(0)
