"""HTTP itself, over raw sockets: where a request ends is never a matter of opinion, and no head is endless."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.service_process import Service
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
    [b"GET / HTTP/1.1 x", b"GET /\x00 HTTP/1.1", b"GET / HTTP/9.9", b"GET /livez HTTP/2.0", b"GET /livez HTTP/0.9",
     b"G\x00T / HTTP/1.1",
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
    """A head of so many bytes, the line ends counted."""
    head = b"GET /livez HTTP/1.1\r\n" + HOST + CLOSE + b"x: "
    return head + b"a" * (size - len(head) - 4) + b"\r\n\r\n"


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


@pytest.mark.parametrize("begin", [b"GET /livez HTTP/1.1\r\n" + HOST, POST + b"content-length: 2\r\n"])
@pytest.mark.parametrize("cut", [None, 50])
def test_a_head_has_at_most_200_fields(service: Service, begin: bytes, cut: int | None) -> None:
    """However short they are: each takes far more memory than its bytes."""
    own = (begin + CLOSE).count(b"\r\n") - 1
    for fields, refused in ((200, False), (201, True), (2_000, True)):
        sent = begin + CLOSE + b"a: b\r\n" * (fields - own) + b"\r\n{}"
        answers = said(service, sent[:cut], sent[cut:] if cut else b"")
        assert (statuses(answers) == [431]) is refused, answers
        assert (b'"code":"head-too-large"' in answers) is refused


def test_a_head_is_refused_before_its_end_as_soon_as_it_is_too_large(service: Service) -> None:
    begin = b"GET /livez HTTP/1.1\r\n" + HOST
    for unfinished in (begin + b"a:b\r\n" * 201, begin + b"x: " + b"a" * 65_536):
        answers = said(service, unfinished)
        assert statuses(answers) == [431] and b'"code":"head-too-large"' in answers


def test_trailer_fields_are_limited_as_header_fields_are(service: Service) -> None:
    head = POST + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    last = b"GET /nothing HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n"
    for fields, expected in ((200, ([422, 404],)), (201, ([], [431])), (20_000, ([], [431]))):
        assert statuses(said(service, head + b"a:b\r\n" * fields + b"\r\n" + last)) in expected


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
def test_what_has_no_end_is_cut_off(service_process: Service, beginning: bytes) -> None:
    """However much is sent, the service neither keeps it nor goes on reading."""
    service = service_process
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


# What RFC 9112 asks for


def get(path: bytes = b"/livez", *fields: bytes, version: bytes = b"1.1") -> bytes:
    return b"GET %b HTTP/%b\r\n%b\r\n" % (path, version, b"".join(field + b"\r\n" for field in fields))


@pytest.mark.parametrize(
    "head",
    [
        get(),
        get(b"/livez", b"host: localhost", b"host: localhost"),
        get(b"/livez", b"host: localhost", b"Host: other"),
        get(b"/livez", b"host: a b"),
        get(b"/livez", b"host: a/b"),
        get(b"/livez", b"host: localhost:80x"),
        get(b"/livez", b"host: [::1"),
        get(b"/livez", b"host: a", b"host: b", version=b"1.0"),
        b"POST /learn HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
        b"POST /learn HTTP/1.1\r\nhost: a\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
        get(b"http://user:word@localhost/livez", b"host: localhost"),
        get(b"/livez", b"host: localhost", b"x: a", b" folded"),
    ],
)
def test_a_request_has_one_host(service: Service, head: bytes) -> None:
    answers = said(service, head + get(b"/smuggled", b"host: localhost", b"connection: close"))
    assert statuses(answers) == [400] and b'"code":"malformed-http"' in answers


def test_http_1_0_needs_no_host(service: Service) -> None:
    assert statuses(said(service, get(version=b"1.0"))) == [200]


def test_an_address_with_a_host_counts_for_more_than_the_header(service: Service) -> None:
    """As proxies send it; the header that goes with it is not looked at."""
    assert statuses(said(service, get(b"http://localhost/livez", b"host: evil.example", CLOSE.strip()))) == [
        200
    ]
    assert statuses(said(service, get(b"http://[::1]:80/stats?limit=1", b"host: x", CLOSE.strip()))) == [200]
    assert statuses(said(service, get(b"http://localhost", b"host: x", CLOSE.strip()))) == [200]
    assert statuses(said(service, get(b"http://evil.example/stats", HOST.strip(), CLOSE.strip()))) == [403]


@pytest.mark.parametrize(
    ("coding", "status"),
    [(b"gzip, chunked", 501), (b"gzip\r\ntransfer-encoding: chunked", 501), (b"identity, chunked", 501),
     (b"chunked, chunked", 400), (b"chunked, gzip", 400), (b"gzip", 400), (b"", 400)],
)  # fmt: skip
def test_a_transfer_encoding_that_is_not_known_is_refused(
    service: Service, coding: bytes, status: int
) -> None:
    sent = POST + b"transfer-encoding: " + coding + b"\r\n\r\n0\r\n\r\n" + SMUGGLED
    answers = said(service, sent)
    assert statuses(answers) == [status] and b"connection: close" in answers


def test_http_1_0_has_no_transfer_encodings(service: Service) -> None:
    sent = POST.replace(b"1.1", b"1.0") + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n"
    assert statuses(said(service, sent)) == [400]


UPGRADE = b"connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n"


@pytest.mark.parametrize("cut", [0, 1, 3, 40])
def test_an_upgrade_that_is_refused_is_a_request_like_any_other(
    service: Service, name: str, cut: int
) -> None:
    """Some clients ask for HTTP/2 with their first request, whatever its body; the body is not another request."""
    body = b'{"model": "%s", "features": [1.0], "label": 1}' % name.encode()
    last = get(b"/nothing", HOST.strip(), CLOSE.strip())
    plain = b"GET /livez HTTP/1.1\r\n" + HOST + UPGRADE + b"\r\n"
    whole = POST.replace(b"/predict", b"/learn") + UPGRADE + b"content-length: %d\r\n\r\n" % len(body) + body
    chunked = (
        POST.replace(b"/predict", b"/learn") + UPGRADE + b"transfer-encoding: chunked\r\n\r\n"
        b"%x\r\n%b\r\n0\r\nx: y\r\n\r\n" % (len(body), body)
    )
    smuggling = POST + UPGRADE + b"content-length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED
    sent = plain + whole + chunked + smuggling + whole + last
    parts = [sent[at : at + cut] for at in range(0, len(sent), cut)] if cut else [sent]
    answers = said(service, *parts)
    assert statuses(answers) == [200, 200, 200, 400, 200, 404]
    assert b"/smuggled" not in answers
    assert service.stats(name)["rounds"]["revealed"] == 3


def test_100_continue_never_comes_before_an_earlier_answer(service: Service, name: str) -> None:
    """Neither before those of requests sent ahead, nor to HTTP/1.0, nor if nobody asked for it."""
    body = b'{"model": "%s", "features": [1.0], "label": 1}' % name.encode()
    learn = POST.replace(b"/predict", b"/learn") + b"content-length: %d\r\n" % len(body)
    expecting = learn + b"expect: 100-continue\r\n\r\n"
    for ahead in (learn + b"\r\n" + body, b"GET /livez HTTP/1.1\r\n" + HOST + b"\r\n"):
        with connect(service) as connection:
            connection.sendall(ahead * 3 + expecting)
            received = b""
            while b" 100 Continue\r\n\r\n" not in received:
                received += connection.recv(65_536)
            assert statuses(received) == [200, 200, 200, 100]
            connection.sendall(body + get(b"/nothing", HOST.strip(), CLOSE.strip()))
            assert statuses(rest_of(connection)) == [200, 404]
    answers = said(service, expecting.replace(b"1.1", b"1.0") + body)
    assert statuses(answers) == [200]


def test_a_redirect_does_not_repeat_the_host(service: Service) -> None:
    answer = said(service, get(b"/stats/?limit=3", b"host: app.localhost:99", CLOSE.strip()))
    assert statuses(answer) == [307] and b"\r\nlocation: /stats?limit=3\r\n" in answer


@pytest.mark.parametrize("rest", [b"zz\r\n", b"1;" + b"x" * 100_000])
def test_a_request_is_answered_once_even_if_the_rest_of_its_body_is_malformed(
    service: Service, rest: bytes
) -> None:
    with connect(service) as connection:
        connection.sendall(b"POST /nothing HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\n")
        answers = connection.recv(65536)
        connection.sendall(rest)
        assert statuses(answers + rest_of(connection)) == [404]
