"""An answer leaves in one packet, unless its body comes later."""

import asyncio
import json
import socket
from typing import Any

import httpx
import pytest
from uvicorn.server import ServerState

from service.runtime.byte_budget import ByteBudget
from service.web.http.addresses import Proxies
from service.web.http.connection import PORTIONS_MAX, header_line, protocol_for
from service.web.http.connection_limits import ConnectionLimiter
from service.web.http.responses import BREAK_OFF
from tests.support.raw_http import read_until
from tests.support.service_process import Service
from tests.support.waiting import PATIENCE_SECONDS, eventually


def first_packet(service: Service, request: bytes) -> bytes:
    """What can be read as soon as anything can."""
    url = httpx.URL(service.url)
    with socket.create_connection((url.host, url.port), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(request)
        return connection.recv(65_536)


def request_for(path: str, body: bytes = b"") -> bytes:
    head = f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return head.encode() + b"content-length: %d\r\n\r\n%s" % (len(body), body)


def test_head_and_body_of_an_answer_come_together(service: Service, name: str) -> None:
    body = json.dumps({"model": name, "features": [1.0]}).encode()
    head, _, answer = first_packet(service, request_for("/predict", body)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert json.loads(answer)["model"] == name


def test_a_head_does_not_wait_for_a_body_that_comes_later(service: Service) -> None:
    body = b'{"features": [1.0]}\n'
    url = httpx.URL(service.url)
    with socket.create_connection((url.host, url.port), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(
            b"POST /stream HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200"), "before the first line is sent"
        connection.sendall(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        read_until(connection, b"is missing, and the stream has no default")


def is_learned(service: Service, name: str) -> bool:
    return (
        service.client.get(f"/stats/{name}").status_code == 200
        and service.stats(name)["rounds"]["revealed"] == 1
    )


def test_a_short_stream_is_answered_in_one_piece_when_all_of_it_has_come(service: Service, name: str) -> None:
    line = b'{"features": [1.0], "label": 1}\n'
    head = b"POST /stream?model=%s HTTP/1.1\r\nhost: localhost\r\n" % name.encode()
    head += b"content-type: application/x-ndjson\r\ncontent-length: %d\r\n\r\n" % (2 * len(line))
    url = httpx.URL(service.url)
    with socket.create_connection((url.host, url.port), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(head + line)
        eventually(lambda: is_learned(service, name), otherwise="the first line is not learned")
        connection.settimeout(0)
        with pytest.raises(BlockingIOError):
            connection.recv(1)
        connection.settimeout(PATIENCE_SECONDS)
        connection.sendall(line)
        head, _, content = connection.recv(65_536).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200") and b"content-length: %d" % len(content) in head
    assert [json.loads(answer)["rounds"] for answer in content.splitlines()] == [1, 2]


def test_an_answer_is_whole_when_the_connection_closes(service: Service) -> None:
    request = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    url = httpx.URL(service.url)
    with socket.create_connection((url.host, url.port), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(request)
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    head, _, content = answer.partition(b"\r\n\r\n")
    assert b"content-length: %d" % len(content) in head and content


@pytest.mark.slow
def test_many_requests_in_one_go_are_answered_in_their_order(service: Service, name: str) -> None:
    bodies = [
        json.dumps({"model": name, "features": [1.0], "label": 1, "id": f"{name}-{i}"}).encode()
        for i in range(300)
    ]
    url = httpx.URL(service.url)
    with socket.create_connection((url.host, url.port), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(b"".join(request_for("/learn", body) for body in bodies))
        received = b""
        while received.count(b"}") < len(bodies):
            part = connection.recv(65_536)
            assert part, received
            received += part
    answers = [json.loads(line.partition(b"}")[0] + b"}") for line in received.split(b"\r\n\r\n")[1:]]
    assert [answer["prediction_id"] for answer in answers] == [f"{name}-{i}" for i in range(300)]
    assert [answer["rounds"] for answer in answers] == list(range(1, 301))


def test_nothing_gets_into_a_head_that_would_be_more_than_a_line() -> None:
    assert header_line(b"x-name", b"a value, even caf\xc3\xa9") == b"x-name: a value, even caf\xc3\xa9\r\n"
    for name, value in (
        (b"x", b"a\r\nset-cookie: b"),
        (b"x\n", b"a"),
        (b"x y", b"a"),
        (b"x:", b"a"),
        (b"", b"a"),
    ):
        with pytest.raises(RuntimeError, match="no line for a head"):
            header_line(name, value)


async def test_an_error_after_the_response_is_not_taken_for_the_next_one() -> None:
    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})
        raise ValueError

    make = protocol_for(
        app,
        limiter=ConnectionLimiter(1, 1, Proxies([])),
        held=ByteBudget(10**6),
        bytes_max=10**6,
        head_bytes_max=10**5,
        quick_paths=frozenset(),
    )
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(lambda: make(None, state, {}), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    for number in range(2):
        close = b"connection: close\r\n" if number else b""
        writer.write(b"GET / HTTP/1.1\r\nhost: here\r\n" + close + b"\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    assert await reader.read() == b""
    writer.close()
    server.close()


async def test_a_response_that_is_broken_off_does_not_look_whole_in_http_1_0() -> None:
    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"[1,", "more_body": True})
        await send({"type": BREAK_OFF})

    make = protocol_for(
        app,
        limiter=ConnectionLimiter(1, 1, Proxies([])),
        held=ByteBudget(10**6),
        bytes_max=10**6,
        head_bytes_max=10**5,
        quick_paths=frozenset(),
    )
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(lambda: make(None, state, {}), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    with pytest.raises(ConnectionResetError):
        await reader.read()
    writer.close()
    server.close()


async def test_others_have_turns_while_a_body_of_empty_lines_is_parsed() -> None:
    turns = 0

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        size, more = 0, True
        while more:
            message = await receive()
            size, more = size + len(message["body"]), message["more_body"]
        answer = b"%d" % size
        head = [(b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": answer})

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    make = protocol_for(
        app,
        limiter=ConnectionLimiter(1, 1, Proxies([])),
        held=ByteBudget(10**6),
        bytes_max=65_536,
        head_bytes_max=10**5,
        quick_paths=frozenset(),
    )
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(lambda: make(None, state, {}), "127.0.0.1", 0)
    others = asyncio.create_task(take_turns())
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    head = b"POST / HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n\r\n"
    body = b"\r\n\r\n" * 50_000
    request = head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    writer.write(request * 2)
    for _ in range(2):
        await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(6) == b"200000"
    assert turns > 2 * 50_000 / PORTIONS_MAX
    others.cancel()
    writer.close()
    server.close()
