"""As many clients may be connected as there is room for; one more is told so, and nobody else notices."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from service.commands.serve import OTHER_FILES
from tests.forking import run
from tests.raw_http import connect, problem_in, read_to_end, read_until, request
from tests.running import Service
from tests.waiting import eventually

ROUND = b'{"model": "m", "features": [1.0], "label": 1}'


@pytest.fixture
def held() -> Iterator[Callable[[Service, int], list[socket.socket]]]:
    """Connections that stay open until the test ends."""
    with ExitStack() as stack:
        yield lambda service, count: [stack.enter_context(connect(service)) for _ in range(count)]


def learn(connection: socket.socket) -> bytes:
    connection.sendall(request("/learn", ROUND))
    return read_until(connection, b"}")


def turned_away(service: Service) -> bytes:
    with connect(service) as connection:
        return read_to_end(connection)


def test_one_client_too_many_is_told_so_and_there_is_room_again_when_one_leaves(
    tmp_path: Path, held: Callable[[Service, int], list[socket.socket]]
) -> None:
    service = Service(tmp_path, connections_max=3).start()
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
    service = Service(tmp_path).start(files=OTHER_FILES + room)
    try:
        service.learn("m", [1.0], 1)  # its connection stays
        held(service, room - 1)
        assert problem_in(turned_away(service)) == (503, "overloaded")
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
    service = start(connections_max=3)
    first, *_ = held(service, 3)
    assert b" 200 " in learn(first)
    for path in PROBES:
        answer = asked(service, probe(path))
        assert answer.startswith(b"HTTP/1.1 200 ") and b"connection: close" in answer
    for sent in (request("/learn", ROUND), probe("/stats"), probe("/"), probe("/livez/")):
        assert problem_in(asked(service, sent)) == (503, "overloaded")
    # Whoever takes the places for probes and says nothing, gives them to the next.
    idle = held(service, 100)
    for path in PROBES:
        assert asked(service, probe(path)).startswith(b"HTTP/1.1 200 ")
    for connection in idle:
        assert problem_in(read_to_end(connection)) == (503, "overloaded")
    assert b" 200 " in learn(first)


def connect_from(service: Service, address: str) -> socket.socket:
    host, port = service.client.base_url.host, service.client.base_url.port
    return socket.create_connection((host, port or 80), timeout=30, source_address=(address, 0))


def test_an_address_may_have_so_many_connections_and_others_do_not_notice(
    start: Callable[..., Service],
) -> None:
    service = start(connections_per_address_max=3, trusted_proxies="10.0.0.1")
    with ExitStack() as stack:
        crowd = [stack.enter_context(connect_from(service, "127.0.0.2")) for _ in range(3)]
        assert all(b" 200 " in learn(connection) for connection in crowd)
        with connect_from(service, "127.0.0.2") as one_more:
            assert problem_in(read_to_end(one_more)) == (429, "rate-limited")
        with connect_from(service, "127.0.0.3") as another:
            assert b" 200 " in learn(another)
        assert all(b" 200 " in learn(connection) for connection in crowd)
        crowd[0].close()

        def has_room() -> bool:
            with connect_from(service, "127.0.0.2") as again:
                again.sendall(request("/learn", ROUND))
                return again.recv(12) == b"HTTP/1.1 200"

        eventually(has_room)


def test_proxies_may_have_as_many_connections_as_they_like(start: Callable[..., Service]) -> None:
    service = start(connections_per_address_max=1, trusted_proxies="127.0.0.2/31, ::1")
    with ExitStack() as stack:
        for address in ("127.0.0.2", "127.0.0.3"):
            proxied = [stack.enter_context(connect_from(service, address)) for _ in range(5)]
            assert all(b" 200 " in learn(connection) for connection in proxied)


def test_what_is_no_address_keeps_the_service_from_starting(tmp_path: Path) -> None:
    ended = run("serve", "--port", "0", "--data", str(tmp_path / "data"), trusted_proxies="10.0.0.1, proxy")
    assert ended.returncode == 2 and "NOVIKOFF_TRUSTED_PROXIES: " in ended.stderr
