"""HTTP itself, over raw sockets: where a request ends is never a matter of opinion, and no head is endless."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.running import Service
from tests.web.raw import HOST, connect, rest_of, said, statuses

Start = Callable[..., Service]

POST = b"POST /predict HTTP/1.1\r\n" + HOST + b"content-type: application/json\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\n" + HOST + b"\r\n"
CLOSE = b"connection: close\r\n"


@pytest.mark.parametrize(
    "head",
    [
        b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
        b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        b"content-length: 5\r\ncontent-length: 5\r\n\r\nhello",
        b"content-length: 5, 5\r\n\r\nhello",
        b"content-length: 5,6\r\n\r\nhello",
        b"content-length: +5\r\n\r\nhello",
        b"content-length: -5\r\n\r\nhello",
        b"content-length: 0x5\r\n\r\nhello",
        b"content-length: 5 5\r\n\r\nhello",
        b"content-length: 99999999999999999999999\r\n\r\nhello",
        b"content-length : 5\r\n\r\nhello",
        b"content-length\r\n\r\nhello",
        b"transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"transfer-encoding: identity, chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
        b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n",
        b"transfer-encoding : chunked\r\n\r\n0\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\n5x\r\nhello\r\n0\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\n-1\r\nhello\r\n0\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\n5\nhello\n0\n\n",
        b" folded: line\r\n\r\n",
        b"x: a\nb: c\r\n\r\n",
        b"x: a\rb\r\n\r\n",
        b"x\x00y: z\r\n\r\n",
        b"x: \x00\r\n\r\n",
    ],
)
def test_a_request_whose_end_is_ambiguous_is_refused(service: Service, head: bytes) -> None:
    """And what follows is not taken for another request."""
    answers = said(service, POST + head + SMUGGLED)
    assert statuses(answers) in ([], [400]), answers
    assert b"/smuggled" not in answers and b"not-found" not in answers
    if answers:
        assert b'"code":"malformed-http"' in answers and b"application/problem+json" in answers


@pytest.mark.parametrize(
    "line",
    [b"GET / HTTP/1.1 x", b"GET /\x00 HTTP/1.1", b"GET / HTTP/9.9", b"G\x00T / HTTP/1.1",
     b"get / HTTP/1.1", b"/ HTTP/1.1", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", b"PRI * HTTP/2.0"],
)  # fmt: skip
def test_what_is_not_http_is_refused(service: Service, line: bytes) -> None:
    answers = said(service, line + b"\r\n" + HOST + CLOSE + b"\r\n" + SMUGGLED)
    assert statuses(answers) in ([], [400]), answers


def test_requests_one_after_the_other_are_answered_in_order(service: Service, name: str) -> None:
    body = b'{"model": "%s", "features": [1.0]}' % name.encode()
    request = POST + b"content-length: %d\r\n\r\n" % len(body) + body
    last = b"GET /nothing HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n"
    assert statuses(said(service, request * 3 + last)) == [200, 200, 200, 404]
    chunked = POST + b"transfer-encoding: chunked\r\n\r\n%x;a=b\r\n%s\r\n0\r\nx: trailer\r\n\r\n"
    assert statuses(said(service, chunked % (len(body), body) + last)) == [200, 404]


def test_a_websocket_is_answered_like_anything_else(service: Service) -> None:
    wanted = (
        b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x\r\nsec-websocket-version: 13\r\n"
    )
    with connect(service) as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\n" + HOST + wanted + b"\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")
    assert service.client.get("/livez").status_code == 200


# The head


def head_of(size: int) -> bytes:
    """A request whose address and fields are so many bytes."""
    fixed = len("/livez") + len("hostlocalhost") + len("connectionclose") + len("x")
    return b"GET /livez HTTP/1.1\r\n" + HOST + CLOSE + b"x: " + b"a" * (size - fixed) + b"\r\n\r\n"


def test_a_head_may_be_as_large_as_the_setting_and_no_larger(start: Start) -> None:
    service = start(head_bytes_max=2_000)
    assert statuses(said(service, head_of(2_000))) == [200]
    answer = said(service, head_of(2_001))
    assert statuses(answer) == [431] and b'"code":"head-too-large"' in answer
    many = b"".join(b"x%d: y\r\n" % i for i in range(500))
    assert statuses(said(service, b"GET /livez HTTP/1.1\r\n" + HOST + many + b"\r\n")) == [431]
    long = b"GET /livez?" + b"a" * 3_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n"
    assert statuses(said(service, long)) == [431]
    in_parts = head_of(2_001)
    assert statuses(said(service, *(in_parts[i : i + 100] for i in range(0, len(in_parts), 100)))) == [431]
    plain = POST + b"x: " + b"a" * 2_000 + b"\r\ncontent-length: 2\r\n\r\n{}"
    assert statuses(said(service, plain)) == [431]
    # A body may be larger than a head, and come with it.
    body = b'{"model": "m", "features": [%s]}' % b", ".join([b"1.0"] * 2_000)
    sent = POST + CLOSE + b"content-length: %d\r\n\r\n" % len(body) + body
    assert statuses(said(service, sent)) == [200]


def memory_bytes(service: Service) -> int:
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found
    return int(found[1]) * 1024


@pytest.mark.parametrize(
    "beginning",
    [
        b"GET /livez HTTP/1.1\r\nx: ",
        b"GET /livez?",
        b"GET /livez HTTP/1.1\r\nx",
        POST + b"transfer-encoding: chunked\r\n\r\n0\r\nx: ",
        POST + b"transfer-encoding: chunked\r\n\r\n1;",
        b"",
    ],
)
def test_what_has_no_end_is_cut_off(service: Service, beginning: bytes) -> None:
    """However much is sent, the service neither keeps it nor goes on reading."""
    before = memory_bytes(service)
    line = b"a" * 65_536 if beginning else b"\r\n" * 32_768
    with connect(service) as connection:
        sent = 0
        try:
            connection.sendall(beginning)
            while sent < 64 * 2**20:
                connection.sendall(line)
                sent += len(line)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert sent < 32 * 2**20, "it goes on reading"
        assert set(statuses(rest_of(connection))) <= {400, 431}
    assert memory_bytes(service) - before < 32 * 2**20
    assert service.client.get("/livez").status_code == 200
