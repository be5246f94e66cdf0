"""A client that goes away, in each phase of a request: what was not answered counts once or not at all."""

import json
import socket
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.raw_http import chunk, connect, read_until, request, stream_head, vanish
from tests.support.service_process import Service
from tests.support.waiting import eventually

ROUND: dict[str, Any] = {"model": "m", "features": [1.0, 2.0], "label": 1, "id": "only"}
BODY = json.dumps(ROUND).encode()
WHOLE = request("/learn", BODY)
LINE = b'{"features": [1.0, 2.0], "label": 1}\n'

CUT_REQUESTS = {
    "before anything": b"",
    "in the head": WHOLE[:30],
    "before the body": WHOLE[: -len(BODY)],
    "in the body": WHOLE[:-5],
    "after the body": WHOLE,
    "in a second request": WHOLE + WHOLE[:-5],
}


@pytest.mark.parametrize("politely", [True, False])
def test_a_request_that_is_cut_off_counts_once_in_all(start: Callable[..., Service], politely: bool) -> None:
    service = start()
    leave = socket.socket.close if politely else vanish
    service.predict("m", [1.0, 2.0])
    for phase, sent in CUT_REQUESTS.items():
        body = json.dumps(ROUND | {"id": phase.replace(" ", "-")}).encode()
        connection = connect(service)
        connection.sendall(
            sent.replace(BODY, body).replace(b"length: %d" % len(BODY), b"length: %d" % len(body))
        )
        leave(connection)
        answer = service.learn(**json.loads(body))
        assert answer["rounds"] <= list(CUT_REQUESTS).index(phase) + 1, phase
    assert service.stats("m")["rounds"]["revealed"] == len(CUT_REQUESTS)
    assert_unharmed(service)


STREAMS = {
    "before its head is answered": (stream_head("/stream?model=m"), None),
    "before its first line": (stream_head("/stream?model=m"), b"\r\n\r\n"),
    "in a line": (stream_head("/stream?model=m") + chunk(LINE + LINE[:10]), b"}"),
    "in a part": (stream_head("/stream?model=m") + chunk(LINE * 3)[:-20], b"\r\n\r\n"),
    "in the middle of its answers": (stream_head("/stream?model=m") + chunk(LINE * 5000), b"}"),
    "after its last line": (stream_head("/stream?model=m") + chunk(LINE) + b"0\r\n\r\n", b"}"),
}


@pytest.mark.parametrize("phase", STREAMS)
def test_a_stream_that_is_cut_off_gives_its_place_back(start: Callable[..., Service], phase: str) -> None:
    service = start(streams_max=1)
    service.predict("m", [1.0, 2.0])
    sent, wait_for = STREAMS[phase]
    connection = connect(service)
    connection.sendall(sent)
    answered = read_until(connection, wait_for).count(b'"mistake"') if wait_for else 0
    vanish(connection)
    headers = {"content-type": "application/x-ndjson"}
    eventually(
        lambda: service.client.post("/stream?model=m", content=LINE, headers=headers).status_code == 200,
        otherwise="its place is never free again",
    )
    assert answered + 1 <= service.stats("m")["rounds"]["revealed"] <= sent.count(LINE.strip()) + 1
    assert_unharmed(service)


def test_a_training_set_that_is_cut_off_after_a_line_trains_nothing(start: Callable[..., Service]) -> None:
    """Its first lines would make a smaller set that is valid by itself."""
    service = start()
    service.learn("m", [1.0, 2.0], 1)
    examples = b"".join(
        b'{"features": [%d.0, 1.0], "label": %d}\n' % (i, 1 if i % 2 else -1) for i in range(40)
    )
    connection = connect(service)
    sent = request("/models/m/fit", examples, media_type="application/x-ndjson", length=len(examples) + 500)
    connection.sendall(sent)
    vanish(connection)
    headers = {"content-type": "application/x-ndjson"}
    begun = service.client.post("/models/m/fit", content=examples, headers=headers)
    assert begun.status_code == 202, "another fit runs already"
    job = f"/jobs/{begun.json()['id']}"
    eventually(lambda: service.get(job)["state"] not in ("queued", "running"))
    kinds = [event["kind"] for event in service.get("/models/m/events")["events"]]
    assert sum("fit" in kind for kind in kinds) == 1, kinds
    assert_unharmed(service)


def assert_unharmed(service: Service) -> None:
    service.assert_replay_equals_live("m")
    assert not [line for line in service.log if "unexpected error" in line or "ASGI" in line]
