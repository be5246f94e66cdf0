"""Load that does not wait for answers: requests fall due at a rate, whatever has become of those before.

A process of its own: `python -m tests.support.open_loop_load URL RATE SECONDS PREFIX` prints what came of them as
JSON. With the rate 0 each connection sends its next request as soon as it has an answer, which measures the capacity.
"""

import asyncio
import json
import resource
import sys
from collections import deque
from dataclasses import asdict, dataclass, field
from itertools import count
from time import perf_counter
from urllib.parse import urlsplit

CONNECTIONS = 3_000
"""Open before the load begins: it is the requests that shall be too many, and not the greetings."""
CONNECTING_AT_ONCE = 100
CONNECTIONS_CLOSED_LOOP = 8
"""Enough to keep it busy, and so few that none has to wait long, also where a neighbour takes most of the cores."""


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Tally:
    accepted: int = 0
    refused: int = 0
    without_retry_after: int = 0
    unsent: int = 0
    """Due while every connection was waiting for an answer."""
    others: list[str] = field(default_factory=list)
    """Answers that were neither, and errors of connections."""
    accepted_seconds: list[float] = field(default_factory=list)
    """From when a request was due until its answer."""
    refused_seconds: list[float] = field(default_factory=list)
    seconds: float = 0.0


class Load:
    def __init__(self, url: str, rate: float, seconds: float, prefix: str) -> None:
        self._address = (urlsplit(url).hostname, urlsplit(url).port)
        self._rate = rate
        self._seconds = seconds
        self._prefix = prefix
        self._free: deque[Connection] = deque()
        self.tally = Tally()

    async def run(self) -> None:
        if self._rate:
            for _ in range(0, CONNECTIONS, CONNECTING_AT_ONCE):
                self._free.extend(await asyncio.gather(*(self._connect() for _ in range(CONNECTING_AT_ONCE))))
        began = self._began = perf_counter()
        await (self._run_open() if self._rate else self._run_closed())
        self.tally.seconds = perf_counter() - began

    async def _run_closed(self) -> None:
        numbers = count()

        async def send_in_turn() -> None:
            while perf_counter() - self._began < self._seconds:
                await self._send(next(numbers))

        await asyncio.gather(*(send_in_turn() for _ in range(CONNECTIONS_CLOSED_LOOP)))

    async def _run_open(self) -> None:
        requests: set[asyncio.Task[None]] = set()
        for number in range(round(self._rate * self._seconds)):
            due = self._began + number / self._rate
            if (early := due - perf_counter()) > 0:
                await asyncio.sleep(early)
            if len(requests) < CONNECTIONS:
                requests.add(request := asyncio.create_task(self._send(number)))
                request.add_done_callback(requests.discard)
            else:
                self.tally.unsent += 1
        await asyncio.gather(*requests)

    async def _send(self, number: int) -> None:
        """A request on the connection that was used longest ago, or on a new one if that is closed by now."""
        due_at = perf_counter()
        reader, writer = self._free.popleft() if self._free else await self._connect()
        try:
            writer.write(self._request(number))
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):  # with its id it counts once all the same
            reader, writer = await self._connect()
            writer.write(self._request(number))
            head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
        self._count(head, body, perf_counter() - due_at)
        self._free.append((reader, writer))

    async def _connect(self) -> Connection:
        return await asyncio.open_connection(*self._address)

    def _request(self, number: int) -> bytes:
        features = [number % 7 - 3.0, number % 5 - 2.0]
        label = 1 if number % 3 else -1
        round_ = {"model": "m", "features": features, "label": label, "id": f"{self._prefix}-{number}"}
        body = json.dumps(round_).encode()
        head = b"POST /learn HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        return head + b"content-length: %d\r\n\r\n%s" % (len(body), body)

    def _count(self, head: bytes, body: bytes, seconds: float) -> None:
        tally = self.tally
        if b" 200 " in head[:15]:
            tally.accepted += 1
            tally.accepted_seconds.append(seconds)
        elif b" 503 " in head[:15] and json.loads(body)["code"] == "overloaded":
            tally.refused += 1
            tally.refused_seconds.append(seconds)
            tally.without_retry_after += b"retry-after: " not in head
        else:
            tally.others.append(body.decode()[:200])


def main() -> None:
    url, rate, seconds, prefix = sys.argv[1:]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    load = Load(url, float(rate), float(seconds), prefix)
    asyncio.run(load.run())
    print(json.dumps(asdict(load.tally)))


if __name__ == "__main__":
    main()
