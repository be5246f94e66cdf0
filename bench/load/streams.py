"""A client of `/stream` that sends and reads at the same time."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from typing import Any

from bench.processes import HOST, NotMeasured

PART_LINES = 100
UNANSWERED_LINES_MAX = 2_000
READ_BYTES = 2**18


class Stream:
    """One request, its lines sent in parts by a thread."""

    def __init__(self, port: int, query: str) -> None:
        self._socket = socket.create_connection((HOST, port), timeout=300)
        self._socket.sendall(
            f"POST /stream?{query} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\n"
            "transfer-encoding: chunked\r\n\r\n".encode()
        )
        self._answered = 0
        self._moved = threading.Condition()

    def _send(self, parts: Iterable[tuple[int, bytes]], answers_come: bool) -> int:
        """The number of lines sent; with answers, never far ahead of them."""
        sent = 0
        for lines, part in parts:
            self._socket.sendall(b"%x\r\n%s\r\n" % (len(part), part))
            sent += lines
            if answers_come:
                with self._moved:
                    self._moved.wait_for(lambda sent=sent: sent - self._answered < UNANSWERED_LINES_MAX, 300)
        self._socket.sendall(b"0\r\n\r\n")
        return sent

    def run(self, parts: Iterable[tuple[int, bytes]], *, answers_come: bool) -> tuple[int, int, bytes]:
        """Lines sent, lines answered, and the last answer."""
        with ThreadPoolExecutor(1) as sender:
            sending = sender.submit(self._send, parts, answers_come)
            answer = http.client.HTTPResponse(self._socket, method="POST")
            answer.begin()
            tail = b""
            while data := answer.read1(READ_BYTES):
                with self._moved:
                    self._answered += data.count(b"\n")
                    self._moved.notify()
                tail = (tail + data)[-2_000:]
            sent = sending.result()
        self._socket.close()
        if answer.status != 200:
            raise NotMeasured(f"/stream answered {answer.status}: {tail.decode()}")
        return sent, self._answered, tail.rstrip().rpartition(b"\n")[2]


def rounds_per_second(port: int, lines: Sequence[bytes], seconds: float, model: str | None = None) -> float:
    """Lines of whole rounds sent for so long, each answered; rounds a second until the last answer."""
    parts = cycle(list(in_parts(lines)))
    began = time.perf_counter()
    end = began + seconds

    def supply() -> Iterator[tuple[int, bytes]]:
        while time.perf_counter() < end:
            yield next(parts)

    stream = Stream(port, f"model={model}" if model else "")
    sent, answered, last = stream.run(supply(), answers_come=True)
    took = time.perf_counter() - began
    if answered != sent or "rounds" not in json.loads(last):
        raise NotMeasured(f"of {sent} lines {answered} were answered, the last with {last.decode()}")
    return sent / took


def learn(port: int, lines: Iterable[bytes], model: str | None = None) -> dict[str, Any]:
    """Send these lines and no more; the summary, which must not have errors."""
    query = "answers=summary" + (f"&model={model}" if model else "")
    sent, _, last = Stream(port, query).run(in_parts(lines), answers_come=False)
    summary: dict[str, Any] = json.loads(last)
    if summary["errors"] or summary["revealed"] != sent:
        raise NotMeasured(f"of {sent} lines, the service says {str(summary)[:300]}")
    return summary


def learn_at_once(port: int, lines: Sequence[bytes], connections: int) -> None:
    """Send lines by several connections, so that commits are shared."""
    shares = [lines[start::connections] for start in range(min(connections, len(lines)))]
    with ThreadPoolExecutor(len(shares)) as clients:
        for _ in clients.map(lambda share: learn(port, share), shares):
            pass


def in_parts(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Parts that are sent at a time, with the number of lines in each.

    >>> [count for count, _ in in_parts([b"x"] * 250)]
    [100, 100, 50]
    """
    part: list[bytes] = []
    for line in lines:
        part.append(line)
        if len(part) == PART_LINES:
            yield len(part), b"".join(part)
            part = []
    if part:
        yield len(part), b"".join(part)
