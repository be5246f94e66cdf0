"""Clients that drip, fall silent or never read: each is ended, and nobody else notices."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from http.client import HTTPException, HTTPResponse

import httpx
import pytest

from tests.support.raw_http import chunk, connect, problem_in, read_to_end, read_until, request, stream_head
from tests.support.service_process import NO_TLS, Service
from tests.support.waiting import PATIENCE_SECONDS, eventually

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
    assert not [line for line in service.log if "unexpected error" in line or "ASGI" in line]
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
            received = b""  # its answer may have come all the same
        connection.settimeout(PATIENCE_SECONDS)
        return received + read_to_end(connection)
    raise AssertionError("the service listens to this for ever")


def learn(service: Service) -> None:
    """A round that comes in one piece, on a connection of its own: nobody can be slow with that."""
    with connect(service) as connection:
        connection.sendall(request("/learn", LEARN))
        assert b" 200 " in read_until(connection, b"}")


def rounds(service: Service) -> dict[str, int]:
    """Of the model, asked for on a connection of its own."""
    with httpx.Client(base_url=service.url, timeout=PATIENCE_SECONDS, verify=NO_TLS) as client:
        told: dict[str, int] = client.get("/stats/m").json()["rounds"]
        return told


def test_a_head_that_drips_is_ended(impatient: Service) -> None:
    with connect(impatient) as connection:
        connection.sendall(HEAD)
        assert problem_in(dripped(connection, b"x: y\r\n")) == (408, "request-timeout")


def test_a_connection_that_never_says_anything_is_ended(impatient: Service) -> None:
    with connect(impatient) as connection:
        assert problem_in(read_to_end(connection)) == (408, "request-timeout")


def test_a_second_head_that_drips_is_ended_too(impatient: Service) -> None:
    with connect(impatient) as connection:
        connection.sendall(
            request("/learn", LEARN) + HEAD
        )  # at once, or it may be closed as one not used again
        assert b" 200 " in read_until(connection, b"}")
        assert problem_in(dripped(connection, b"x: y\r\n")) == (408, "request-timeout")


def test_a_connection_that_is_not_used_again_is_closed_without_a_word(impatient: Service) -> None:
    with connect(impatient) as connection:
        connection.sendall(request("/learn", LEARN))
        assert b" 200 " in read_until(connection, b"}")
        assert read_to_end(connection) == b""


@pytest.mark.parametrize("path", ["/learn", "/models", "/models/m/fit"])
def test_a_body_that_drips_is_ended_and_changes_nothing(impatient: Service, path: str) -> None:
    learn(impatient)
    before = rounds(impatient)
    with connect(impatient) as connection:
        connection.sendall(request(path, b"{", length=100_000))
        assert problem_in(dripped(connection, b" ")) == (408, "request-timeout")
    assert rounds(impatient) == before


def test_a_silent_stream_gives_its_place_to_another(impatient: Service) -> None:
    with connect(impatient) as connection:
        began = time.monotonic()  # before its silence
        connection.sendall(stream_head("/stream?model=m"))
        read_until(connection, b"\r\n\r\n")
        assert impatient.client.post("/stream", content=b"").status_code in (415, 503), (
            "its only place is taken"
        )
        read_to_end(connection)
        assert time.monotonic() - began >= 1, "it was ended before its time"
    headers = {"content-type": "application/x-ndjson"}
    eventually(
        lambda: impatient.client.post("/stream?model=m", content=LEARN, headers=headers).status_code == 200,
        otherwise="its place is never free again",
        not_yet=httpx.TransportError,
    )


class Pace:
    """When something was sent last, and how long there was nothing at most, until now."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._longest = 0.0

    def sent(self, began: float) -> None:
        """It was begun to be sent then; by now the service has it."""
        self._longest = max(self._longest, time.monotonic() - self._last)
        self._last = began

    @property
    def longest(self) -> float:
        return max(self._longest, time.monotonic() - self._last)


def test_a_stream_that_speaks_now_and_then_is_left_alone(impatient: Service) -> None:
    """Unless the machine has let it or the service stand still, for as long as a silence may last: then once more."""

    def is_left_alone() -> bool:
        pace = Pace()
        try:
            with connect(impatient) as connection:
                connection.sendall(stream_head("/stream?model=m"))
                read_until(connection, b"\r\n\r\n")
                deadline = time.monotonic() + 3
                while time.monotonic() < deadline:  # longer than a silence may be
                    began = time.monotonic()
                    connection.sendall(chunk(LEARN + b"\n"))
                    assert b'"mistake"' in read_until(connection, b"\n\r\n")
                    pace.sent(began)
                    time.sleep(0.1)
                connection.sendall(chunk(b""))
                read_until(connection, b"0\r\n\r\n")
        except (AssertionError, ConnectionError):
            assert pace.longest > 0.9, "it was ended though it spoke"
            return False
        return True

    eventually(is_left_alone)


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
    learn(impatient)


def test_who_takes_nothing_while_it_sends_is_not_slow(start: Callable[..., Service]) -> None:
    """However long it sends, as many clients do. Unless the machine has let it stand still: then once more."""
    many = chunk((LEARN + b"\n") * 500)
    service = start(request_timeout_seconds=4)  # of which a service that stood still counts two at most

    def is_served() -> bool:
        pace, sent = Pace(), 0
        try:
            with connect(service) as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
                connection.sendall(stream_head("/stream?model=m"))
                deadline = time.monotonic() + 10  # far longer than an answer may go untaken
                while time.monotonic() < deadline or sent < 30_000:
                    began = time.monotonic()
                    connection.sendall(many)
                    pace.sent(began)
                    sent += 500
                    time.sleep(0.05)
                connection.sendall(chunk(b""))
                with HTTPResponse(connection) as answer:
                    answer.begin()
                    taken = answer.read().count(b'"mistake"')
                    assert taken == sent, f"{taken} answers to {sent} lines"
        except (AssertionError, OSError, HTTPException):
            assert pace.longest > 1, "it was ended though it sent"
            return False
        return True

    eventually(is_served)


def test_who_sends_for_ever_what_is_not_wanted_any_more_is_ended(impatient: Service) -> None:
    """The answer came before the whole request: what follows is passed over, for a while."""
    with connect(impatient) as connection:
        connection.sendall(stream_head("/learn") + chunk(b"nonsense"))
        assert b" 415 " in read_until(connection, b"}")
        assert dripped(connection, chunk(b"more")) == b""


def test_a_client_that_takes_its_time_within_reason_is_served(service: Service, name: str) -> None:
    body = request("/learn", json.dumps({"model": name, "features": [1.0], "label": 1}).encode())
    with connect(service) as connection:
        for at in range(0, len(body), 40):
            connection.sendall(body[at : at + 40])
            time.sleep(0.02)
        assert b" 200 " in read_until(connection, b"}")
