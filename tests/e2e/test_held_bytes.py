"""What is kept for clients is bounded in bytes: later requests, bodies that are not whole, answers not taken."""

import json
import re
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.raw_http import connect, problem_in, read_until, request
from tests.support.service_process import Service
from tests.support.waiting import PATIENCE_SECONDS, eventually

MB = 2**20
LIVEZ = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n"
FEED = b"GET /feed HTTP/1.1\r\nhost: localhost\r\n\r\n"
LEARN = b'{"model": "m", "features": [1.0], "label": 1}'

END = b'{"status":"live"}'

Start = Callable[..., Service]
Connect = Callable[[Service], socket.socket]


@pytest.fixture
def held() -> Iterator[Connect]:
    """A connection that stays open until the test ends."""
    with ExitStack() as stack:
        yield lambda service: stack.enter_context(connect(service))


def peak_bytes(service: Service) -> int:
    """The most memory that the process ever had."""
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return int(found[1]) * 1024


def open_sockets(service: Service) -> int:
    """Files of the journal are opened when they are needed first, so these are not counted."""
    open_files = Path(f"/proc/{service.process.pid}/fd").iterdir()
    return sum(_target(each).startswith("socket:") for each in open_files)


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:  # closed meanwhile
        return ""


@contextmanager
def reluctant(service: Service) -> Iterator[socket.socket]:
    """A connection on which hardly more can wait than the service sends before it waits."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        connection.settimeout(PATIENCE_SECONDS)
        connection.connect((service.client.base_url.host, service.client.base_url.port))
        yield connection


def sent_until_full(connection: socket.socket, data: bytes) -> int:
    """How many of these bytes are taken, until none are for two seconds."""
    connection.settimeout(2)
    sent = 0
    try:
        while sent < len(data):
            sent += connection.send(data[sent : sent + 65_536])
    except (TimeoutError, ConnectionError):
        pass
    connection.settimeout(PATIENCE_SECONDS)
    return sent


def send_unless_refused(connection: socket.socket, data: bytes) -> None:
    """All of it, or as much as has gone when an answer comes."""
    sent = 0
    while sent < len(data):
        answered, ready, _ = select.select([connection], [connection], [], PATIENCE_SECONDS)
        assert answered or ready, "the service neither reads it nor answers"
        if answered:
            return
        try:
            sent += connection.send(data[sent : sent + 65_536])
        except ConnectionError:
            return


@pytest.mark.thorough
def test_requests_that_nobody_takes_the_answers_of_are_not_read(start: Start) -> None:
    service = start()
    before = peak_bytes(service)
    with reluctant(service) as connection:
        whole = sent_until_full(connection, LIVEZ * (MB // len(LIVEZ))) // len(LIVEZ)
        assert peak_bytes(service) - before < 32 * MB
        # None is lost: the service goes on where it stopped.
        count, tail = 0, b""
        while count < whole:
            part = connection.recv(65_536)
            assert part, f"it was closed after {count} of {whole} answers"
            count += (tail + part).count(END)
            tail = part[1 - len(END) :]
    assert count == whole
    assert peak_bytes(service) - before < 32 * MB


def test_a_connection_may_send_as_far_ahead_as_the_setting_says(start: Start, held: Connect) -> None:
    """Behind a request that is not answered yet; the system's own buffers come on top."""
    ahead = LIVEZ * (16 * MB // len(LIVEZ))
    for bytes_max in (16_384, 16 * MB):
        service = start(connection_bytes_max=bytes_max)
        connection = held(service)
        connection.sendall(FEED)
        read_until(connection, b"retry: 2000")
        if bytes_max == 16_384:
            assert sent_until_full(connection, ahead) < len(ahead)
        else:
            connection.sendall(ahead)
        service.stop()


def test_all_connections_together_may_hold_so_much_and_short_requests_are_served_past_it(
    start: Start, held: Connect
) -> None:
    service = start(connections_bytes_max=8 * MB, connection_bytes_max=1 * MB, feeds_max=200)
    before = peak_bytes(service)
    ended = 0
    for _ in range(100):
        connection = held(service)
        connection.sendall(FEED)
        read_until(connection, b"retry: 2000")
        ended += sent_until_full(connection, LIVEZ * (1 * MB // len(LIVEZ))) < MB - len(LIVEZ)
    assert peak_bytes(service) - before < 48 * MB
    assert service.learn("m", [1.0], 1)["rounds"] == 1
    assert service.get("/stats/m")["rounds"]["revealed"] == 1
    service.wait_for_log("closed a connection: all connections together buffer too many bytes")


def test_many_short_fields_take_no_more_memory_than_a_head_may_have_bytes(
    start: Start, held: Connect
) -> None:
    service = start()
    before = peak_bytes(service)
    for _ in range(150):
        connection = held(service)
        send_unless_refused(connection, b"GET /livez HTTP/1.1\r\nhost: localhost\r\n" + b"ab:\r\n" * 64_500)
        assert problem_in(read_until(connection, b"}")) == (431, "head-too-large")
    assert peak_bytes(service) - before < 16 * MB


@pytest.mark.parametrize("end", [b"", b"content-length: 2\r\n\r\n{"], ids=["unfinished", "before a body"])
def test_heads_count_as_held_until_they_are_answered(start: Start, held: Connect, end: bytes) -> None:
    """Their fields, too: of 100 empty ones, each takes 40 times its bytes."""
    service = start(connections_bytes_max=1 * MB, head_bytes_max=60_000)
    long = b"POST /learn HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    waiting = [held(service) for _ in range(60)]
    for connection in waiting:
        connection.sendall(long + b"x: " + b"y" * 15_000 + b"\r\n" + b"a:\r\n" * 150 + end)
    refused = 0

    def are_refused() -> bool:
        nonlocal refused
        for connection in select.select(waiting, [], [], 0)[0]:
            assert problem_in(read_until(connection, b"}")) == (503, "overloaded")
            waiting.remove(connection)
            refused += 1
        return refused >= 60 - MB // (15_000 + 150 * 160)

    eventually(are_refused)
    assert service.learn("m", [1.0], 1)["rounds"] == 1
    for connection in waiting:
        connection.close()
    large = LIVEZ[:-2] + b"x: " + b"y" * 50_000 + b"\r\n\r\n"

    def is_served() -> bool:
        connection = held(service)
        connection.sendall(large)
        return b" 200 " in read_until(connection, b"}")

    eventually(is_served)  # those that have gone hold nothing
    for _ in range(40):
        assert is_served(), "answered heads count no longer"


def test_a_route_without_a_body_does_not_wait_for_one_nor_keep_it(start: Start, held: Connect) -> None:
    service = start()
    before = peak_bytes(service)
    for method, path in (
        ("GET", "/livez"),
        ("GET", "/stats"),
        ("DELETE", "/models/m"),
        ("GET", "/nothing"),
    ) * 40:
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            f"content-length: {MB}\r\n\r\n"
        )
        connection = held(service)
        connection.sendall(head.encode() + b"x" * (MB - 1))
        assert connection.recv(9) == b"HTTP/1.1 ", "it waits for the rest"
    assert peak_bytes(service) - before < 32 * MB
    # What comes of it in the end is not taken for another request.
    connection.sendall(b"x" + LIVEZ)
    assert b"HTTP/1.1 200 " in read_until(connection, b'"live"}')


def test_bodies_that_never_become_whole_are_refused_past_the_limit(start: Start, held: Connect) -> None:
    service = start(connections_bytes_max=8 * MB)
    before = peak_bytes(service)
    stalled = [held(service) for _ in range(60)]
    for connection in stalled:
        send_unless_refused(connection, request("/learn", b" " * (MB - 1), length=MB))
    refused = 0

    def are_refused() -> bool:
        nonlocal refused
        for connection in select.select(stalled, [], [], 0)[0]:
            assert problem_in(read_until(connection, b"}")) == (503, "overloaded")
            stalled.remove(connection)
            refused += 1
        return refused >= 50

    eventually(are_refused)
    assert refused <= 54, "some of them may wait"
    assert peak_bytes(service) - before < 48 * MB
    assert service.learn("m", [1.0], 1)["rounds"] == 1
    for connection in stalled:
        connection.close()
    large = LEARN + b" " * (MB - len(LEARN))
    headers = {"content-type": "application/json"}
    eventually(lambda: service.client.post("/learn", content=large, headers=headers).status_code == 200)


@pytest.mark.parametrize("behind", [LIVEZ, LIVEZ * 10_000, FEED], ids=["one", "many", "feed"])
def test_a_feed_that_has_a_request_behind_it_gives_its_place_back(start: Start, behind: bytes) -> None:
    service = start(feeds_max=1)
    for _ in range(3):
        with followed(service) as connection:
            sent_until_full(connection, behind)


@contextmanager
def followed(service: Service) -> Iterator[socket.socket]:
    """A connection that follows the feed, once there is a place for it."""
    with ExitStack() as stack:
        connections: list[socket.socket] = []

        def has_place() -> bool:
            service.learn(
                "m", [1.0], 1
            )  # so that there is something to tell to whoever is not there any more
            connections[:] = [stack.enter_context(connect(service))]
            connections[0].sendall(FEED)
            return connections[0].recv(12) == b"HTTP/1.1 200"

        eventually(has_place, otherwise="its place never comes back")
        yield connections[0]


def test_who_leaves_the_end_of_an_answer_untaken_is_ended(start: Start) -> None:
    """Also if the answer is complete and the connection is to be closed after it: closing waits until it is taken."""
    service = start(request_timeout_seconds=8)  # so that this test may stand still for a while
    service.create("m", labels=list(range(20)), features={"kind": "dense", "dimension": 65_536})
    with_client = open_sockets(service)
    service.client.close()  # or the end of its connection would be taken for that of the other
    eventually(lambda: open_sockets(service) < with_client)
    before = open_sockets(service)
    with reluctant(service) as connection:
        connection.sendall(b"GET /models/m/weights HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 200"
        assert open_sockets(service) > before
        eventually(lambda: open_sockets(service) <= before, otherwise="the connection stays for ever")


def test_a_short_stream_that_there_is_no_room_for_tells_what_it_has_learned(
    start: Start, held: Connect
) -> None:
    """The answer of a short stream begins when all of it has come: until then it is held like other bodies."""
    service = start(connections_bytes_max=MB)
    for _ in range(2):
        held(service).sendall(request("/predict", b" " * 500_000, length=900_000))
    sent = LEARN + b"\n"
    stream = held(service)
    stream.sendall(
        request("/stream", sent * 1_000, media_type="application/x-ndjson", length=20_000 * len(sent))
    )
    while not select.select([stream], [], [], 0.1)[0]:  # until the bytes of the others have come, too
        stream.sendall(sent * 100)
    answer = read_until(stream, b'"ended":true}\n')
    head, _, lines = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    *learned, last = [json.loads(line) for line in lines.splitlines()]
    assert last["error"]["code"] == "overloaded"
    assert f"{len(learned)} lines were accepted, and no more" in last["error"]["detail"]
    eventually(lambda: service.get("/stats")["totals"]["models"] >= (1 if learned else 0))
    if learned:
        assert service.get("/stats/m")["rounds"]["revealed"] == len(learned)
    assert not any("unexpected error" in line for line in service.log)
