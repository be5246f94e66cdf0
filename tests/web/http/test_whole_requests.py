"""Plain requests that come whole are read without the parser: just as the parser reads them, or not at all."""

import json
import socket
from typing import Any

import pytest
from httptools import HttpRequestParser
from hypothesis import given
from hypothesis import strategies as st

from service.web.http.whole_requests import HEAD_BYTES_MAX, HEADS_MAX, RequestHeads
from tests.support.raw_http import connect, read_until, request
from tests.support.service_process import Service

PATHS = frozenset({"/learn", "/predict"})
PLAIN = b"POST /learn HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n"


class Parsed:
    """What the parser makes of some bytes: `whole` if they are one request and nothing else."""

    def __init__(self, data: bytes) -> None:
        self.url, self.body, self.headers, self.begun, self.complete = b"", b"", list[Any](), 0, 0
        self.parser = HttpRequestParser(self)
        self.parser.feed_data(data)
        self.whole = self.begun == self.complete == 1

    def on_message_begin(self) -> None:
        self.begun += 1

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.keeps_alive = self.parser.should_keep_alive() and not self.parser.should_upgrade()

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.complete += 1


def assert_read_as_parsed(data: bytes) -> bool:
    """If it is read at all; whether it is."""
    read = RequestHeads(PATHS).split(data)
    if read is None:
        return False
    path, fields, body, plain = read
    parsed = Parsed(data)
    assert parsed.whole and parsed.keeps_alive
    assert (parsed.parser.get_method(), parsed.parser.get_http_version()) == (b"POST", "1.1")
    assert (path.encode(), sorted(fields), body) == (parsed.url, sorted(parsed.headers), parsed.body)
    said = [value for name, value in parsed.headers if name.lower() == b"content-type"]
    others = {name.lower() for name, _ in parsed.headers} & {b"content-encoding", b"x-request-id"}
    assert plain == (said == [b"application/json"] and not others)
    return True


@pytest.mark.parametrize(
    "data",
    [
        PLAIN + b"Content-Length: 2\r\n\r\n{}",
        PLAIN.replace(b"/learn", b"/predict") + b"content-length: 2\r\nX-Any: a b  c\r\n\r\n{}",
        b"POST /learn HTTP/1.1\r\nCONTENT-LENGTH: 0\r\nHOST: [::1]:80\r\n\r\n",
        PLAIN + b"connection: Keep-Alive\r\ncontent-length: 4\r\nauthorization: Bearer k\r\n\r\n\r\n\r\n",
        PLAIN + b"content-type: text/plain\r\ncontent-length: 2\r\n\r\n{}",
        PLAIN + b"X-Request-ID: a\r\ncontent-length: 2\r\n\r\n{}",
        PLAIN + b"Content-Encoding: gzip\r\ncontent-length: 2\r\n\r\n{}",
    ],
)
def test_a_plain_request_is_read_as_the_parser_reads_it(data: bytes) -> None:
    assert assert_read_as_parsed(data)


@pytest.mark.parametrize(
    "data",
    [
        b"POST /learn HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}",
        PLAIN + b"host: here\r\ncontent-length: 2\r\n\r\n{}",
        PLAIN.replace(b"here", b"he re") + b"content-length: 2\r\n\r\n{}",
        PLAIN + b"content-length: 3\r\n\r\n{}",
        PLAIN + b"content-length: 1\r\n\r\n{}",
        PLAIN + b"content-length: 02\r\n\r\n{}",
        PLAIN + b"content-length: 2 \r\n\r\n{}",
        PLAIN + b"content-length:2\r\n\r\n{}",
        PLAIN + b"content-length: 2\n\r\n\r\n{}",
        PLAIN + b"content-length: 2\r\ncontent-length: 2\r\n\r\n{}",
        PLAIN + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}",
        PLAIN + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}",
        PLAIN + b"content-length: 2\r\nconnection: close\r\n\r\n{}",
        PLAIN + b"content-length: 2\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n{}",
        PLAIN + b"content-length: 2\r\nupgrade: h2c\r\n\r\n{}",
        PLAIN + b"content-length: 2\r\nproxy-connection: close\r\n\r\n{}",
        PLAIN + b"content-length: 2\r\nexpect: 100-continue\r\n\r\n{}",
        PLAIN + b"content-length: 2\r\nx: a\x00b\r\n\r\n{}",
        PLAIN + b"content-length: 2\r\nx: \r\n folded\r\n\r\n{}",
        PLAIN + b"content-length: 2\r\nx : y\r\n\r\n{}",
        PLAIN + b"content-length: 2\r\nx: y\nz: a\r\n\r\n{}",
        PLAIN + b"x: " + b"y" * HEAD_BYTES_MAX + b"\r\ncontent-length: 2\r\n\r\n{}",
        PLAIN + b"\r\ncontent-length: 2\r\n\r\n{}",
        PLAIN.replace(b"POST", b"GET") + b"content-length: 2\r\n\r\n{}",
        PLAIN.replace(b"1.1", b"1.0") + b"content-length: 2\r\n\r\n{}",
        PLAIN.replace(b"/learn", b"/learn?a=b") + b"content-length: 2\r\n\r\n{}",
        PLAIN.replace(b"/learn", b"/stats") + b"content-length: 2\r\n\r\n{}",
        PLAIN.replace(b"/learn", b"/l\xe9arn") + b"content-length: 2\r\n\r\n{}",
        b"\r\n" + PLAIN + b"content-length: 2\r\n\r\n{}",
        b"POST POST /learn HTTP/1.1 HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}",
        b"content-length: 2\r\n\r\n{}",
        b"\r\ncontent-length: 2\r\n\r\n{}",
        PLAIN + b"\r\n{}",
        b"",
    ],
)
def test_what_is_not_plain_is_left_to_the_parser(data: bytes) -> None:
    assert RequestHeads(PATHS).split(data) is None


LINES = [
    b"host: a", b"connection: keep-alive", b"Connection: close", b"connection: keep-alive, close", b"content-length: 2",
    b"Content-Length: 4", b"transfer-encoding: chunked", b"proxy-connection: close", b"x: y", b"a-b: c d", b"a_b: c",
    b"upgrade: h2c", b"connection: upgrade", b"x:", b"x: ", b"x", b": y", b" x", b"x: y ", b"x:  y", b"x: \xff",
    b"x\x00: y", b"x: \x7f", b"x: y\rz: a", b"x: y\nz: a", b"\tx: y", b"x\t: y", b"", b"POST /learn HTTP/1.1",
]  # fmt: skip


@given(st.lists(st.sampled_from(LINES), max_size=4), st.sampled_from([b"", b"\r\n", b"x", PLAIN]))
def test_whatever_is_read_is_what_the_parser_reads(lines: list[bytes], more: bytes) -> None:
    fields = b"".join(line + b"\r\n" for line in lines)
    for length in (b"", b"content-length: 2\r\n", b"content-length: %d\r\n" % (2 + len(more))):
        assert_read_as_parsed(PLAIN + fields + length + b"\r\n{}" + more)
        assert_read_as_parsed(PLAIN + length + fields + b"\r\n{}" + more)


@pytest.mark.parametrize(
    "around", [(b"", b""), (b"a: b\r\n", b"c: d\r\n"), (b"", b"x: content-length: 2\r\n")]
)
def test_a_head_that_is_remembered_is_read_as_the_parser_reads_it(around: tuple[bytes, bytes]) -> None:
    before, behind = around
    heads = RequestHeads(PATHS)
    for body in (b"{}", b"", b"x" * 9, b"x" * 10, b"\r\n\r\n", b"{}" + behind + b"\r\n"):
        data = PLAIN + before + b"content-length: %d\r\n" % len(body) + behind + b"\r\n" + body
        parsed, read = Parsed(data), heads.split(data)
        assert read is not None and len(heads._cached) == 1
        path, fields, found, plain = read
        assert (path.encode(), sorted(fields), found) == (parsed.url, sorted(parsed.headers), parsed.body)
        assert plain


@pytest.mark.parametrize(
    "length", [b"1", b"3", b"02", b"+2", b" 2", b"2 ", b"", b"0x2", b"2_", b"\xb2", b"1000000002"]
)
def test_a_head_that_is_remembered_needs_a_plain_length(length: bytes) -> None:
    heads = RequestHeads(PATHS)
    assert heads.split(PLAIN + b"content-length: 2\r\n\r\n{}") is not None
    assert heads.split(PLAIN + b"content-length: " + length + b"\r\n\r\n{}") is None
    assert heads.split(PLAIN + b"content-length: 2\r\n\r\n{}x") is None
    assert heads.split(PLAIN + b"content-length: 2\r\n\r\n{") is None


def test_few_heads_are_remembered_and_all_are_read() -> None:
    heads = RequestHeads(PATHS)
    for number in range(3 * HEADS_MAX):
        read = heads.split(PLAIN + b"x: %d\r\ncontent-length: 2\r\n\r\n{}" % (number % (2 * HEADS_MAX)))
        assert read is not None and (b"x", b"%d" % (number % (2 * HEADS_MAX))) in read[1]
        assert len(heads._cached) <= HEADS_MAX


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
