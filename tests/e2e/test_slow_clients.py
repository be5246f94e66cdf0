"""Clients that drip, fall silent or never read: each is ended, and nobody else notices."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from http.client import HTTPResponse
from pathlib import Path

import pytest

from tests.raw_http import chunk, connect, problem_in, read_to_end, read_until, request, stream_head
from tests.running import Service
from tests.waiting import PATIENCE_SECONDS, eventually

HEAD = b"POST /predict HTTP/1.1\r\nhost: localhost\r\n"
ANSWERS_BYTES_MAX = 8_000_000
LEARN = json.dumps({"model": "m", "features": [1.0], "label": 1}).encode()


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(
        tmp_path_factory.mktemp("slow") / "data",
        request_timeout_seconds=1,
        stream_idle_seconds=1,
        streams_max=1,
        stream_answers_bytes_max=ANSWERS_BYTES_MAX,
    ).start()
    yield service
    assert not [line for line in service.log if "unforeseen" in line or "ASGI" in line]
    service.close()


def dripped(connection: socket.socket, drip: bytes) -> bytes:
    """Send the same few bytes again and again until the service has had enough; its answer."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    connection.settimeout(0.05)
    while time.monotonic() < deadline:
        try:
            connection.sendall(drip)
            received = connection.recv(65536)
        except TimeoutError:
            continue
        except (ConnectionResetError, BrokenPipeError):
            return b""
        connection.settimeout(PATIENCE_SECONDS)
        return received + read_to_end(connection)
    raise AssertionError("the service listens to this for ever")


def test_a_head_that_drips_is_ended(impatient: Service) -> None:
    with connect(impatient) as connection:
        connection.sendall(HEAD)
        assert problem_in(dripped(connection, b"x: y\r\n")) == (408, "request-timeout")


def test_a_connection_that_never_says_anything_is_ended(impatient: Service) -> None:
    with connect(impatient) as connection:
        assert problem_in(read_to_end(connection)) == (408, "request-timeout")


def test_a_second_head_that_drips_is_ended_too(impatient: Service) -> None:
    with connect(impatient) as connection:
        connection.sendall(request("/learn", LEARN))
        assert b" 200 " in read_until(connection, b"}")
        connection.sendall(HEAD)
        assert problem_in(dripped(connection, b"x: y\r\n")) == (408, "request-timeout")


def test_a_connection_that_is_not_used_again_is_closed_without_a_word(impatient: Service) -> None:
    with connect(impatient) as connection:
        connection.sendall(request("/learn", LEARN))
        assert b" 200 " in read_until(connection, b"}")
        assert read_to_end(connection) == b""


@pytest.mark.parametrize("path", ["/learn", "/models", "/models/m/fit"])
def test_a_body_that_drips_is_ended_and_changes_nothing(impatient: Service, path: str) -> None:
    impatient.learn("m", [1.0], 1)
    before = impatient.stats("m")["rounds"]
    with connect(impatient) as connection:
        connection.sendall(request(path, b"{", length=100_000))
        assert problem_in(dripped(connection, b" ")) == (408, "request-timeout")
    assert impatient.stats("m")["rounds"] == before


def test_a_silent_stream_gives_its_place_to_another(impatient: Service) -> None:
    with connect(impatient) as connection:
        connection.sendall(stream_head("/stream?model=m"))
        read_until(connection, b"\r\n\r\n")
        began = time.monotonic()
        assert impatient.client.post("/stream", content=b"").status_code in (415, 503), (
            "its only place is taken"
        )
        read_to_end(connection)
        assert time.monotonic() - began >= 1, "it was ended before its time"
    headers = {"content-type": "application/x-ndjson"}
    eventually(
        lambda: impatient.client.post("/stream?model=m", content=LEARN, headers=headers).status_code == 200,
        otherwise="its place is never free again",
    )


def test_a_stream_that_speaks_now_and_then_is_left_alone(impatient: Service) -> None:
    with connect(impatient) as connection:
        connection.sendall(stream_head("/stream?model=m"))
        read_until(connection, b"\r\n\r\n")
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:  # longer than a silence may be
            connection.sendall(b"%x\r\n%s\n\r\n" % (len(LEARN) + 1, LEARN))
            assert b'"mistake"' in read_until(connection, b"\n\r\n")
            time.sleep(0.2)
        connection.sendall(b"0\r\n\r\n")
        read_until(connection, b"0\r\n\r\n")


def test_an_answer_that_nobody_takes_is_given_up(impatient: Service) -> None:
    many = b"".join(LEARN + b"\n" for _ in range(200))
    with connect(impatient) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(stream_head("/stream?model=m"))
        connection.settimeout(0.05)
        deadline = time.monotonic() + PATIENCE_SECONDS
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            while time.monotonic() < deadline:
                try:
                    connection.sendall(b"%x\r\n%s\r\n" % (len(many), many))
                except TimeoutError:
                    continue
        assert time.monotonic() < deadline, "the service waits for this client for ever"
    impatient.learn("m", [1.0], 1)


def test_who_takes_nothing_while_it_sends_is_not_slow(start: Callable[..., Service]) -> None:
    """However long it sends: it is as many other clients are."""
    many = chunk((LEARN + b"\n") * 500)
    with connect(start(request_timeout_seconds=3)) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        connection.sendall(stream_head("/stream?model=m"))
        sent = 0
        deadline = time.monotonic() + 8  # far longer than an answer may go untaken
        while time.monotonic() < deadline or sent < 30_000:
            connection.sendall(many)
            sent += 500
            time.sleep(0.05)
        connection.sendall(chunk(b""))
        with HTTPResponse(connection) as answer:
            answer.begin()
            assert answer.read().count(b'"mistake"') == sent


def test_who_sends_for_ever_what_is_not_wanted_any_more_is_ended(impatient: Service) -> None:
    """The answer came before the whole request: what follows is passed over, for a while."""
    with connect(impatient) as connection:
        connection.sendall(stream_head("/learn") + chunk(b"nonsense"))
        assert b" 415 " in read_until(connection, b"}")
        assert dripped(connection, chunk(b"more")) == b""


def test_a_client_that_takes_its_time_within_reason_is_served(tmp_path: Path, impatient: Service) -> None:
    body = request("/learn", LEARN)
    with connect(impatient) as connection:
        for at in range(0, len(body), 40):
            connection.sendall(body[at : at + 40])
            time.sleep(0.02)
        assert b" 200 " in read_until(connection, b"}")
