"""As many clients may be connected as there is room for; one more is told so, and nobody else notices."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from service.cli import OTHER_FILES
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
