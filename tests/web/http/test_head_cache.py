"""Requests are told apart however their bytes come, and a head that is cached is read as the parser reads it."""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.server import ServerState

from service.runtime.byte_budget import ByteBudget
from service.web.http.addresses import Proxies
from service.web.http.connection import Connection, protocol_for
from service.web.http.connection_limits import ConnectionLimiter
from service.web.http.request_heads import HEAD_BYTES_MAX, HEADS_MAX
from tests.support.raw_http import connect, read_until, request
from tests.support.service_process import Service

PATHS = frozenset({"/learn", "/predict"})
PLAIN = b"POST /learn HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n"

Heard = tuple[str, str, str, list[Any], bytes]


class Wire(asyncio.Transport):
    """A transport whose other end is this list."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self._is_closing = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True

    abort = close


async def hear(parts: Iterable[bytes], paths: frozenset[str]) -> tuple[list[Heard], bytes, Connection]:
    """What an application gets of these parts, what is answered, and the connection."""
    heard: list[Heard] = []

    async def app(
        scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message["body"], message["more_body"]
        heard.append((scope["method"], scope["path"], scope["http_version"], sorted(scope["headers"]), body))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"{}"})

    state, wire = ServerState(), Wire()
    connection = protocol_for(
        app,
        limiter=ConnectionLimiter(1, 1, Proxies([])),
        held=ByteBudget(10**6),
        bytes_max=10**6,
        head_bytes_max=10**5,
        quick_paths=paths,
    )(None, state, {})
    connection.connection_made(wire)
    for part in parts:
        if not wire.is_closing():
            connection.data_received(part)
        for _ in range(4):
            await asyncio.sleep(0)
    connection.connection_lost(None)
    await asyncio.gather(*state.tasks)
    return heard, b"".join(wire.written), connection


def heard_alike(*parts: bytes) -> int:
    """How many heads are cached after these parts, which are read in the same way with and without the cache."""

    async def both() -> int:
        heard, answered, connection = await hear(parts, PATHS)
        parsed, plainly_answered, _ = await hear(parts, frozenset())
        assert heard == parsed
        assert answered == plainly_answered
        return len(connection.head_cache)

    return asyncio.run(both())


@pytest.mark.parametrize(
    "head",
    [
        PLAIN + b"Content-Length: %d\r\n\r\n",
        PLAIN.replace(b"/learn", b"/predict") + b"content-length: %d\r\nX-Any: a b  c\r\n\r\n",
        b"POST /learn HTTP/1.1\r\nCONTENT-LENGTH: %d\r\nHOST: [::1]:80\r\n\r\n",
        PLAIN + b"connection: Keep-Alive\r\ncontent-length: %d\r\nauthorization: Bearer k\r\n\r\n",
        PLAIN + b"X-Request-ID: a\r\ncontent-length: %d\r\nx: content-length: 2\r\n\r\n",
    ],
)
def test_a_plain_head_is_cached_and_read_as_the_parser_reads_it(head: bytes) -> None:
    bodies = (b"{}", b"", b"x" * 9, b"x" * 10, b"\r\n\r\n", head % 2)
    assert heard_alike(*(head % len(body) + body for body in bodies)) == 1


@pytest.mark.parametrize(
    "head",
    [
        b"POST /learn HTTP/1.1\r\ncontent-length: 2\r\n\r\n",
        PLAIN + b"host: here\r\ncontent-length: 2\r\n\r\n",
        PLAIN + b"content-length: 02\r\n\r\n",
        PLAIN + b"content-length: 2 \r\n\r\n",
        PLAIN + b"content-length:2\r\n\r\n",
        PLAIN + b"content-length: 2\r\ncontent-length: 2\r\n\r\n",
        PLAIN + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n",
        PLAIN + b"content-length: 2\r\nconnection: close\r\n\r\n",
        PLAIN + b"content-length: 2\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
        PLAIN + b"content-length: 2\r\nproxy-connection: close\r\n\r\n",
        PLAIN + b"content-length: 2\r\nexpect: 100-continue\r\n\r\n",
        PLAIN + b"content-length: 2\r\nx: a\x00b\r\n\r\n",
        PLAIN + b"x: " + b"y" * HEAD_BYTES_MAX + b"\r\ncontent-length: 2\r\n\r\n",
        PLAIN + b"x: y\r\n" * 32 + b"content-length: 2\r\n\r\n",
        PLAIN.replace(b"POST", b"PUT") + b"content-length: 2\r\n\r\n",
        PLAIN.replace(b"1.1", b"1.0") + b"content-length: 2\r\n\r\n",
        PLAIN.replace(b"/learn", b"/learn?a=b") + b"content-length: 2\r\n\r\n",
        PLAIN.replace(b"/learn", b"/stats") + b"content-length: 2\r\n\r\n",
        PLAIN.replace(b"/learn", b"http://there/learn") + b"content-length: 2\r\n\r\n",
        b"\r\n" + PLAIN + b"content-length: 2\r\n\r\n",
    ],
)
def test_a_head_that_is_not_plain_is_left_to_the_parser(head: bytes) -> None:
    assert heard_alike(head + b"{}", head + b"[]") == 0


@pytest.mark.parametrize(
    "length", [b"1", b"3", b"02", b"+2", b" 2", b"2 ", b"", b"0x2", b"2_", b"\xb2", b"1000000002"]
)
def test_a_cached_head_needs_a_plain_length(length: bytes) -> None:
    first = PLAIN + b"content-length: 2\r\n\r\n{}"
    assert heard_alike(first, PLAIN + b"content-length: " + length + b"\r\n\r\n{}") <= 1
    assert heard_alike(first, first + b"x") == 1
    assert heard_alike(first, first[:-1]) == 1


def test_few_heads_are_cached_and_all_are_read() -> None:
    sent = [
        PLAIN + b"x: %d\r\ncontent-length: 2\r\n\r\n{}" % (number % (2 * HEADS_MAX)) for number in range(40)
    ]
    assert 1 <= heard_alike(*sent) <= HEADS_MAX


LINES = [
    b"host: a", b"connection: keep-alive", b"Connection: close", b"connection: keep-alive, close", b"content-length: 2",
    b"Content-Length: 4", b"transfer-encoding: chunked", b"proxy-connection: close", b"x: y", b"a-b: c d", b"a_b: c",
    b"upgrade: h2c", b"connection: upgrade", b"x:", b"x: ", b"x", b": y", b" x", b"x: y ", b"x:  y", b"x: \xff",
    b"x\x00: y", b"x: \x7f", b"x: y\rz: a", b"x: y\nz: a", b"\tx: y", b"x\t: y", b"", b"POST /learn HTTP/1.1",
]  # fmt: skip


@given(st.lists(st.sampled_from(LINES), max_size=3), st.sampled_from([b"", b"\r\n", b"x", PLAIN]))
def test_whatever_comes_is_read_alike_with_and_without_the_cache(lines: list[bytes], more: bytes) -> None:
    fields = b"".join(line + b"\r\n" for line in lines)
    for length in (b"", b"content-length: 2\r\n", b"content-length: %d\r\n" % (2 + len(more))):
        for head in (PLAIN + fields + length, PLAIN + length + fields):
            heard_alike(head + b"\r\n{}" + more, head + b"\r\n[]" + more)


HEAD = b"POST /learn HTTP/1.1\r\nhost: here\r\n"

bodies = st.lists(st.sampled_from([b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"0\r\n\r\n", b"{}", b"GET / "])).map(
    b"".join
)


def chunked(parts: list[bytes], trailer: bytes) -> tuple[bytes, bytes]:
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part)
    return HEAD + b"transfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n" + trailer + b"\r\n", b"".join(
        parts
    )


requests = st.one_of(
    st.just((HEAD.replace(b"POST", b"GET") + b"\r\n", b"")),
    bodies.map(lambda body: (HEAD + b"content-length: %d\r\n\r\n%b" % (len(body), body), body)),
    st.builds(
        chunked, st.lists(bodies, max_size=3), st.sampled_from([b"", b"x: y\r\n", b"connection: close\r\n"])
    ),
)


@given(st.lists(requests, min_size=1, max_size=5), st.lists(st.integers(1, 40), min_size=1))
def test_requests_are_told_apart_however_their_bytes_come(
    sent: list[tuple[bytes, bytes]], sizes: list[int]
) -> None:
    data, parts = b"".join(each for each, _ in sent), []
    while data:
        size = sizes[len(parts) % len(sizes)]
        parts.append(data[:size])
        data = data[size:]
    heard, answered, _ = asyncio.run(hear([*parts, b"", b"", b""], PATHS))
    assert [body for *_, body in heard] == [body for _, body in sent]
    assert answered.count(b"HTTP/1.1 200 OK") == len(sent)


def learned(connection: socket.socket) -> int:
    answer = read_until(connection, b"}")
    return int(json.loads(answer[answer.index(b"{") :])["rounds"])


def test_a_connection_may_send_requests_whole_in_pieces_and_together(service: Service, name: str) -> None:
    body = json.dumps({"model": name, "features": [1.0], "label": 1}).encode()
    sent = request("/learn", body)
    with connect(service) as connection:
        for rounds in range(1, 30, 3):
            connection.sendall(sent)
            assert learned(connection) == rounds
            for cut in (10, len(sent) - 5):  # in the head, in the body
                before, after = sent[:cut], sent[cut:]
                connection.sendall(before)
                assert service.get("/livez"), "what came so far has been read"
                connection.sendall(after)
                rounds += 1
                assert learned(connection) == rounds
        connection.sendall(sent * 3)
        answers = b""
        while answers.count(b"}") < 3:
            answers += connection.recv(65536)
        assert [b'"rounds":%d,' % rounds in answers for rounds in (31, 32, 33)] == [True] * 3
    service.assert_replay_equals_live(name)
