"""HTTP/1.0, which some proxies and old clients speak: no chunks, and an answer ends with the connection."""

import json

from tests.support.service_process import Service
from tests.web.raw import HOST, connect, said

LINE = b'{"features": [1.0], "label": 1}\n'


def body_of(answer: bytes) -> bytes:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), answer
    assert b"transfer-encoding" not in head.lower() and b"connection: close" in head.lower()
    return body


def test_a_short_answer(service: Service, name: str) -> None:
    assert json.loads(body_of(said(service, b"GET /livez HTTP/1.0\r\n\r\n"))) == {"status": "live"}
    body = b'{"model": "%s", "features": [1.0]}' % name.encode()
    head = b"POST /predict HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(
        body
    )
    assert json.loads(body_of(said(service, head + body)))["model"] == name


def test_a_stream(service: Service, name: str) -> None:
    body = LINE * 2_000
    head = (
        b"POST /stream?model=%s HTTP/1.0\r\ncontent-type: application/x-ndjson\r\nexpect: 100-continue\r\n"
        b"content-length: %d\r\n\r\n"
    ) % (name.encode(), len(body))
    lines = body_of(said(service, head + body)).splitlines()
    assert [json.loads(line)["rounds"] for line in lines] == list(range(1, 2_001))


def test_the_feed(service: Service, name: str) -> None:
    service.learn(name, [1.0], 1)
    with connect(service) as connection:
        connection.sendall(b"GET /feed?model=%s HTTP/1.0\r\n" % name.encode() + HOST + b"\r\n")
        received = b""
        while b"\r\n\r\n" not in received or b"data: {" not in received:
            received += connection.recv(65_536)
    assert body_of(received).lstrip().startswith((b"event:", b"id:", b"data:", b":", b"retry:"))
