"""HTTP by hand, byte by byte: what no well-behaved client library sends."""

import json
import socket
import struct
from typing import Any

from tests.support.service_process import Service

ANSWER_SECONDS = 60


def connect(service: Service) -> socket.socket:
    host, port = service.client.base_url.host, service.client.base_url.port
    return socket.create_connection((host, port or 80), timeout=ANSWER_SECONDS)


def request(
    path: str, body: bytes, *, media_type: str = "application/json", length: int | None = None
) -> bytes:
    """A POST; with a `length` that is not the body's, the service goes on waiting for the rest."""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {media_type}\r\n"
        f"content-length: {len(body) if length is None else length}\r\n\r\n"
    )
    return head.encode() + body


def chunk(data: bytes) -> bytes:
    """A part of a body whose length nobody told."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def stream_head(path: str) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\n"
        "transfer-encoding: chunked\r\n\r\n"
    ).encode()


def read_to_end(connection: socket.socket) -> bytes:
    """All that comes until the service closes the connection."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def read_until(connection: socket.socket, mark: bytes) -> bytes:
    received = b""
    while mark not in received:
        part = connection.recv(65536)
        assert part, f"closed before {mark!r}: {received!r}"
        received += part
    return received


def problem_in(answer: bytes) -> tuple[int, str]:
    """The status and the code of a problem document in a raw answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    document: dict[str, Any] = json.loads(body)
    assert b"application/problem+json" in head and document["status"] == int(head.split()[1])
    return document["status"], document["code"]


def vanish(connection: socket.socket) -> None:
    """Close without a goodbye: the service gets a reset instead of an end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
