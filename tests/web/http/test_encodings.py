"""Bodies that come as gzip, on every route that takes one: whole, bounded, and never taken for something else."""

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from service.web.http.compression import SLICE_BYTES, Inflating, inflated
from tests.support.raw_http import chunk, problem_in, read_until
from tests.support.service_process import Service, problem_of
from tests.support.waiting import eventually
from tests.web.raw import HOST, connect

Start = Callable[..., Service]

GZIP = {"content-encoding": "gzip"}
JSON = {"content-type": "application/json"}
NDJSON = {"content-type": "application/x-ndjson"}
LINE = b'{"features": [1.0, 2.0], "label": 1}\n'
LINES_TWICE = gzip.compress(LINE * 3) + gzip.compress(LINE * 2)


def sent(name: str) -> list[tuple[str, str, Any, int]]:
    """A request for each route that takes a body, and the status of its answer."""
    return [
        ("POST", "/predict", {"model": name, "features": [1.0, 2.0], "id": f"{name}-p"}, 200),
        ("POST", "/feedback", {"prediction_id": f"{name}-p", "label": 1}, 200),
        ("POST", "/learn", {"model": name, "features": [1.0, 2.0], "label": -1}, 200),
        ("POST", "/models", {"model": f"{name}-made"}, 201),
        ("POST", f"/models/{name}/fit", {"source": "history"}, 202),
    ]


def wait_for_job(service: Service, started: httpx.Response) -> None:
    """One job may run at a time, and the next may be another test's."""
    eventually(lambda: service.get(started.headers["location"])["state"] != "running")


def test_every_route_that_takes_a_body_takes_gzip(service: Service, name: str) -> None:
    for method, path, body, status in sent(name):
        text = json.dumps(body).encode()
        in_two = gzip.compress(text[:5]) + gzip.compress(text[5:]) + b"\0" * 10
        answer = service.client.request(method, path, content=in_two, headers=JSON | GZIP)
        assert answer.status_code == status, (path, answer.text)
    wait_for_job(service, answer)
    export = service.client.get(f"/models/{name}/export").content
    answer = service.client.put(f"/models/{name}-2", content=gzip.compress(export), headers=JSON | GZIP)
    assert answer.status_code == 201, answer.text


def test_all_members_of_gzip_are_read(service: Service, name: str) -> None:
    answer = service.client.post(f"/stream?model={name}", content=LINES_TWICE, headers=NDJSON | GZIP)
    assert [json.loads(line)["rounds"] for line in answer.text.splitlines()] == [1, 2, 3, 4, 5]
    fit = service.client.post(f"/models/{name}/fit", content=LINES_TWICE, headers=NDJSON | GZIP)
    assert (fit.status_code, fit.json()["examples"]) == (202, 5), fit.text
    wait_for_job(service, fit)


@pytest.mark.parametrize("cut", [5, 20, len(LINES_TWICE) - 1])
def test_gzip_that_is_cut_off_is_told(service: Service, name: str, cut: int) -> None:
    answer = service.client.post(f"/stream?model={name}", content=LINES_TWICE[:cut], headers=NDJSON | GZIP)
    *answers, last = [json.loads(line) for line in answer.text.splitlines()]
    assert last["error"]["code"] == "malformed-json" and "ends too early" in last["error"]["detail"]
    assert [each["rounds"] for each in answers] == list(range(1, len(answers) + 1)), (
        "whole lines were learned"
    )
    body = gzip.compress(json.dumps({"model": name, "features": [1.0, 2.0]}).encode())[:-1]
    refused = service.client.post("/predict", content=body, headers=JSON | GZIP)
    assert problem_of(refused) == (400, "malformed-json") and "ends too early" in refused.text


def test_what_is_not_gzip_is_told(service: Service) -> None:
    for path in ("/predict", "/models", "/models/m/fit"):
        refused = service.client.post(path, content=b"{}", headers=JSON | GZIP)
        assert problem_of(refused) == (400, "malformed-json") and "gzip" in refused.text


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip", "zstd", "nonsense"])
def test_an_unknown_encoding_is_refused_and_the_known_one_is_told(service: Service, encoding: str) -> None:
    headers = {"content-encoding": encoding}
    for path, kind in (("/predict", JSON), ("/models", JSON), ("/models/m/fit", NDJSON), ("/stream", NDJSON)):
        refused = service.client.post(path, content=zlib.compress(b"{}"), headers=kind | headers)
        assert problem_of(refused) == (415, "unsupported-media-type"), path
        assert refused.headers["accept-encoding"] == "gzip"


def test_identity_is_no_encoding(service: Service, name: str) -> None:
    body = json.dumps({"model": name, "features": [1.0]}).encode()
    headers = JSON | {"content-encoding": "identity"}
    assert service.client.post("/predict", content=body, headers=headers).status_code == 200


def test_the_limit_is_for_what_the_gzip_stands_for(start: Start) -> None:
    service = start(
        body_bytes_max=10_000, upload_bytes_max=100_000, line_bytes_max=10_000, inflated_ratio_max=2_000
    )
    small = gzip.compress(b"[" + b" " * 10_000_000 + b"]")
    assert len(small) < 10_000
    for path in ("/predict", "/models", "/models/m/fit"):
        refused = service.client.post(path, content=small, headers=JSON | GZIP)
        assert problem_of(refused) == (413, "body-too-large"), path
    answer = service.client.post("/stream?model=m", content=small, headers=NDJSON | GZIP)
    assert [json.loads(line)["error"]["code"] for line in answer.text.splitlines()] == ["body-too-large"]


EMPTY = gzip.compress(b"", mtime=0)


@pytest.mark.parametrize("path", ["/learn", "/models"])
def test_what_came_is_limited_too(start: Start, path: str) -> None:
    """Empty members stand for nothing, however many of them come, and padding for less."""
    service = start(body_bytes_max=10_000)
    head = b"POST %s HTTP/1.1\r\n" % path.encode() + HOST + b"content-type: application/json\r\n"
    head += b"content-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n"
    for piece in (EMPTY * 50, EMPTY + b"\0" * 1_000):
        with connect(service) as connection:
            connection.sendall(head + chunk(piece) * 20)
            answer = read_until(connection, b"}")
        assert problem_in(answer) == (413, "body-too-large"), "it waits for the rest of the body"


@pytest.mark.parametrize("path", ["/learn", "/stream?model=m"])
def test_members_that_hold_next_to_nothing_are_limited_in_number(service: Service, path: str) -> None:
    kind = JSON if path == "/learn" else NDJSON
    answer = service.client.post(path, content=EMPTY * 20_000, headers=kind | GZIP)
    assert '"code":"body-too-large"' in answer.text and "members" in answer.text


def test_a_stream_of_a_member_for_each_line_is_read(service: Service, name: str) -> None:
    members = b"".join(
        gzip.compress(b'{"features": [%d], "label": 1}\n' % number, mtime=0) for number in range(3_000)
    )
    answer = service.client.post(
        f"/stream?model={name}&answers=summary", content=members, headers=NDJSON | GZIP
    )
    assert answer.json()["revealed"] == 3_000


async def test_others_have_turns_while_empty_members_are_read() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield EMPTY * 2_500

    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(other())
    parts = [part async for part in inflated(pieces(), Inflating(ratio_max=200))]
    running.cancel()
    assert parts == []
    assert turns >= 2_500 * len(EMPTY) // SLICE_BYTES


# Other ways to ask


def test_head_is_get_without_a_body(service: Service, name: str) -> None:
    service.learn(name, [1.0], 1)
    for path in (
        "/livez",
        "/readyz",
        "/",
        "/stats",
        f"/stats/{name}",
        f"/models/{name}",
        "/metrics",
        "/openapi.json",
    ):
        head, got = service.client.head(path), service.client.get(path)
        assert head.status_code == 200 and not head.content
        assert head.headers["content-type"] == got.headers["content-type"]
        assert int(head.headers["content-length"]) > 0
    assert service.client.head("/stats/nobody-there").status_code == 404
    assert service.client.head("/nothing").status_code == 404
    feed = service.client.head("/feed")  # whose body has no end
    assert (feed.status_code, feed.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    for path in ("/predict", "/stream"):
        assert service.client.head(path).status_code == 405, path
