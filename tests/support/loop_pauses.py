"""The application called in this very loop, to see for how long it keeps the loop to itself."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from time import thread_time
from typing import Any

from service.app import create_app
from service.settings import Settings
from service.web.application import Application

TRIES = 10

REFERENCE_SECONDS = 0.005
"""What `_reference_work` takes on the machine that the limits of the tests were measured on."""


class Turns:
    """Measures the longest slice of work between two turns of the loop, in CPU time: others may load the machine."""

    def __init__(self) -> None:
        self.longest_seconds = 0.0

    async def watch(self) -> None:
        while True:
            began = thread_time()
            await asyncio.sleep(0)
            self.longest_seconds = max(self.longest_seconds, thread_time() - began)


def slowness() -> float:
    """How many times as long as the machine of the limits this one takes for the same work, at this moment."""
    began = thread_time()
    _reference_work()
    return max(1.0, (thread_time() - began) / REFERENCE_SECONDS)


def _reference_work() -> int:
    return sum(number * number % 7 for number in range(100_000))


async def shortest_pause(measured: Callable[[int], Awaitable[Turns]], seconds_max: float) -> float:
    """The longest slice of the first of some tries in which it is short enough, or the least of all; a slower machine
    may take longer.

    A virtual machine stops at times, which counts as CPU time of whoever was running; it does not ten times in a
    row, while work in one piece takes as long each time. `measured` is told the number of the try.
    """
    longest = []
    for number in range(TRIES):
        before = slowness()
        turns = await measured(number)
        longest.append(turns.longest_seconds / max(before, slowness()))
        if longest[-1] < seconds_max:
            break
    return min(longest)


class InLoop:
    """A service without sockets; `turns` are watched while it answers."""

    def __init__(self, app: Application) -> None:
        self._app = app

    async def post(
        self, path: str, parts: Iterable[bytes], *headers: tuple[bytes, bytes], query: str = ""
    ) -> tuple[int, bytes, Turns]:
        messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
        waiting = iter([*messages, {"type": "http.request", "body": b"", "more_body": False}])
        status, told = 0, bytearray()

        async def receive() -> dict[str, Any]:
            return next(waiting)

        async def send(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            told.extend(message.get("body", b""))

        async with watched() as turns:
            await self._app(_scope("POST", path, query, *headers), receive, send)
        return status, bytes(told), turns

    async def get(self, path: str, query: str = "", until: bytes | None = None) -> bytes:
        """The body of the answer; of one that has no end, up to where `until` is in it."""
        told = bytearray()
        enough = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await enough.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            assert message.get("status", 200) == 200
            told.extend(message.get("body", b""))
            if until is not None and until in told:
                enough.set()

        await self._app(_scope("GET", path, query), receive, send)
        return bytes(told)


def _scope(method: str, path: str, query: str, *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "root_path": "",
        "query_string": query.encode(), "headers": list(headers), "client": ("127.0.0.1", 1),
    }  # fmt: skip


@asynccontextmanager
async def watched() -> AsyncIterator[Turns]:
    """The turns of the loop meanwhile: from before the first step of what is done until after its last one.

    Whoever waits for a turn here comes behind the watcher, which always waits for one, too.
    """
    turns = Turns()
    watching = asyncio.create_task(turns.watch())
    await asyncio.sleep(0)  # or work before the first turn would not be seen
    try:
        yield turns
    finally:
        await asyncio.sleep(0)  # or work since the last one would not be
        watching.cancel()


@asynccontextmanager
async def in_loop(data: Path, **settings: Any) -> AsyncIterator[InLoop]:
    """A service with a journal of its own in this loop."""
    app = create_app(Settings(data=data, **settings), guarded=False)
    gc.collect()
    gc.freeze()  # or what the tests have imported is looked through meanwhile
    try:
        async with app.router.lifespan_context(app):
            yield InLoop(app)
    finally:
        gc.unfreeze()
