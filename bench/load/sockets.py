"""Clients in Python, as plain as they get: where wrk is missing, and where each answer has to be timed."""

import asyncio
import gc
import random
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from itertools import cycle
from typing import cast

import uvloop

from bench.examples import encode
from bench.load.work import Load, Work
from bench.processes import HOST, NotMeasured

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
SERVED = re.compile(rb'{"prediction_id":"([^"]+)","model":"[^"]+","label":(-?\d+),"score"')
ANSWER_SECONDS = 30


class Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self) -> None:
        self._received = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError("the server hung up"))

    def data_received(self, data: bytes) -> None:
        received = self._received = self._received + data
        end = received.find(b"\r\n\r\n")
        if end < 0:
            return
        length = LENGTH.search(received, 0, end)
        if length is None or len(received) < end + 4 + int(length[1]):
            return
        self._received = b""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((int(received[9:12]), received[end + 4 :]))

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(
            b"POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
            % (path.encode(), len(body), body)
        )
        async with asyncio.timeout(ANSWER_SECONDS):
            return await self._answer


Act = Callable[[int, Connection], Awaitable[None]]


def run(port: int, work: Work, seconds: float, connections: int) -> Load:
    """As fast as each connection gets its answers."""
    statuses: list[int] = []
    bodies = cycle(work.bodies)
    end = time.perf_counter() + seconds

    async def act(_: int, connection: Connection) -> None:
        while time.perf_counter() < end:
            status, answer = await connection.post(work.path, next(bodies))
            statuses.append(status)
            if work.reveals and status == 200:
                status, _body = await connection.post("/feedback", reveal_of(answer))
                statuses.append(status)

    began = time.perf_counter()
    _together(port, connections, act)
    return Load(len(statuses), sum(status != 200 for status in statuses), time.perf_counter() - began)


def paced_feedback(
    port: int, bodies: Iterable[bytes], *, rounds_a_second: float, seconds: float, connections: int
) -> tuple[list[float], float]:
    """Predict and reveal at a given pace: how long each feedback took, and the pace that was kept.

    Each connection has its own times to begin a round. When the round before it ends later than that, the
    delay counts as the feedback's: nobody waits for a slow service without its being seen.
    """
    took: list[float] = []
    supply = cycle(bodies)
    apart = connections / rounds_a_second
    began = time.perf_counter()

    async def act(number: int, connection: Connection) -> None:
        chance = random.Random(number)
        due, free = began + chance.random() * apart, began
        while due < began + seconds:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            status, answer = await connection.post("/predict", next(supply))
            check(status, answer)
            sent = time.perf_counter()
            check(*await connection.post("/feedback", reveal_of(answer)))
            done = time.perf_counter()
            took.append(done - sent + max(0.0, free - due))
            due, free = due + apart * chance.uniform(0.5, 1.5), done

    # Collections of this process, with all the peers' libraries in it, would look like delays of the service.
    gc.collect()
    gc.disable()
    try:
        _together(port, connections, act)
    finally:
        gc.enable()
    return took, len(took) / (time.perf_counter() - began)


def check(status: int, answer: bytes) -> None:
    if status != 200:
        raise NotMeasured(f"an answer was {status}: {answer[:200].decode()}")


def reveal_of(answer: bytes) -> bytes:
    """The feedback to a prediction: one in ten was a mistake."""
    served = SERVED.match(answer)
    if served is None:
        raise NotMeasured(f"this is no prediction: {answer[:200].decode()}")
    label = int(served[2])
    return encode({"prediction_id": served[1].decode(), "label": -label if random.random() < 0.1 else label})


def _together(port: int, connections: int, act: Act) -> None:
    async def one(number: int) -> None:
        _, connection = await asyncio.get_running_loop().create_connection(Connection, HOST, port)
        try:
            await act(number, connection)
        finally:
            connection.transport.close()

    async def everyone() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(connections):
                group.create_task(one(number))

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(everyone())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
