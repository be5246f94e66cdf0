"""As many clients may be connected as there is room for; one more is told so, and nobody else notices."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from service.commands.serve import OTHER_FILES
from tests.support.forkserver import run
from tests.support.raw_http import connect, problem_in, read_to_end, read_until, request
from tests.support.service_process import Service
from tests.support.waiting import PATIENCE_SECONDS, eventually

ROUND = b'{"model": "m", "features": [1.0], "label": 1}'
LEARN = request("/learn", ROUND)
PATIENT = {"request_timeout_seconds": 3600, "loop_pause_seconds_max": 3600}
"""For a service: it closes no connection on which a request has begun, and is ready also if it has stood still."""


@pytest.fixture
def held() -> Iterator[Callable[[Service, int], list[socket.socket]]]:
    """Connections that stay open until the test ends."""
    with ExitStack() as stack:
        yield lambda service, count: [begun(stack.enter_context(connect(service))) for _ in range(count)]


def begun(connection: socket.socket) -> socket.socket:
    """Send the first byte of a request: a connection without one is closed after some seconds."""
    connection.sendall(LEARN[:1])
    return connection


def learn(connection: socket.socket) -> bytes:
    """Send the rest of a request, and the beginning of the next one."""
    connection.sendall(LEARN[1:] + LEARN[:1])
    return read_until(connection, b"}")


def turned_away(service: Service) -> bytes:
    with connect(service) as connection:
        return read_to_end(connection)


def test_one_client_too_many_is_told_so_and_there_is_room_again_when_one_leaves(
    tmp_path: Path, held: Callable[[Service, int], list[socket.socket]]
) -> None:
    service = Service(tmp_path, connections_max=3, **PATIENT).start()
    try:
        first, *others = held(service, 3)
        assert b" 200 " in learn(first)
        answer = turned_away(service)
        assert problem_in(answer) == (503, "overloaded") and b"retry-after: " in answer
        assert all(b" 200 " in learn(one) for one in (first, *others))
        others[0].close()
        eventually(lambda: service.client.get("/readyz").status_code == 200)
    finally:
        service.close()


def test_the_journal_and_fits_have_files_to_open_however_many_clients_there_are(
    tmp_path: Path, held: Callable[[Service, int], list[socket.socket]]
) -> None:
    room = 20
    service = Service(tmp_path, **PATIENT).start(files=OTHER_FILES + room)
    try:
        first, *others = held(service, room)
        assert b" 200 " in learn(first)
        assert problem_in(turned_away(service)) == (503, "overloaded")
        others[0].close()  # for one that does more than the others
        eventually(lambda: service.client.get("/models").status_code == 200, not_yet=httpx.TransportError)
        assert [one["model"] for one in service.get("/models")["models"]] == ["m"]
        examples = [{"features": [float(label)], "label": label} for label in (1, -1)]
        job = service.post("/models/m/fit", {"examples": examples})
        path = f"/jobs/{job['id']}"
        eventually(lambda: service.get(path)["state"] != "running")
        assert service.get(path)["state"] == "done", service.get(path)["error"]
        service.assert_replay_equals_live("m")
    finally:
        service.close()


PROBES = ("/livez", "/readyz")


def asked(service: Service, sent: bytes) -> bytes:
    with connect(service) as connection:
        connection.sendall(sent)
        return read_to_end(connection)


def probe(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()


def test_probes_are_answered_when_no_more_clients_are_let_in(
    start: Callable[..., Service], held: Callable[[Service, int], list[socket.socket]]
) -> None:
    service = start(connections_max=3, **PATIENT)
    first, *_ = held(service, 3)
    assert b" 200 " in learn(first)
    for path in PROBES:
        answer = asked(service, probe(path))
        assert answer.startswith(b"HTTP/1.1 200 ") and b"connection: close" in answer
    for sent in (request("/learn", ROUND), probe("/stats"), probe("/"), probe("/livez/")):
        assert problem_in(asked(service, sent)) == (503, "overloaded")
    # Whoever takes the places for probes and says nothing, gives them to the next.
    with ExitStack() as stack:
        idle = [stack.enter_context(connect(service)) for _ in range(100)]
        for path in PROBES:
            assert asked(service, probe(path)).startswith(b"HTTP/1.1 200 ")
        for connection in idle:
            assert problem_in(read_to_end(connection)) == (503, "overloaded")
    assert b" 200 " in learn(first)


def connect_from(service: Service, address: str) -> socket.socket:
    host, port = service.client.base_url.host, service.client.base_url.port
    return socket.create_connection((host, port or 80), timeout=PATIENCE_SECONDS, source_address=(address, 0))


def test_an_address_may_have_so_many_connections_and_others_do_not_notice(
    start: Callable[..., Service],
) -> None:
    service = start(connections_per_address_max=3, trusted_proxies="10.0.0.1", **PATIENT)
    with ExitStack() as stack:
        crowd = [begun(stack.enter_context(connect_from(service, "127.0.0.2"))) for _ in range(3)]
        assert all(b" 200 " in learn(connection) for connection in crowd)
        with connect_from(service, "127.0.0.2") as one_more:
            assert problem_in(read_to_end(one_more)) == (429, "rate-limited")
        with connect_from(service, "127.0.0.3") as another:
            assert b" 200 " in learn(begun(another))
        assert all(b" 200 " in learn(connection) for connection in crowd)
        crowd[0].close()

        def has_room() -> bool:
            with connect_from(service, "127.0.0.2") as again:
                again.sendall(LEARN)
                return again.recv(12) == b"HTTP/1.1 200"

        eventually(has_room, not_yet=ConnectionError)


def test_proxies_may_have_as_many_connections_as_they_like(start: Callable[..., Service]) -> None:
    service = start(connections_per_address_max=1, trusted_proxies="127.0.0.2/31, ::1")
    with ExitStack() as stack:
        for address in ("127.0.0.2", "127.0.0.3"):
            proxied = [begun(stack.enter_context(connect_from(service, address))) for _ in range(5)]
            assert all(b" 200 " in learn(connection) for connection in proxied)


def test_what_is_no_address_keeps_the_service_from_starting(tmp_path: Path) -> None:
    ended = run("serve", "--port", "0", "--data", str(tmp_path / "data"), trusted_proxies="10.0.0.1, proxy")
    assert ended.returncode == 2 and "NOVIKOFF_TRUSTED_PROXIES: " in ended.stderr
