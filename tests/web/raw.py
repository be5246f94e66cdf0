"""HTTP said by hand, byte by byte."""

import re
import socket

from tests.support.service_process import Service
from tests.support.waiting import PATIENCE_SECONDS

HOST = b"host: localhost\r\n"


def connect(service: Service) -> socket.socket:
    address = service.client.base_url
    return socket.create_connection((address.host, address.port or 0), timeout=PATIENCE_SECONDS)


def rest_of(connection: socket.socket) -> bytes:
    """All that comes until the service closes."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass  # it closed while we were still sending
    return b"".join(parts)


def said(service: Service, *parts: bytes) -> bytes:
    """What the service answers to these bytes until it closes the connection."""
    with connect(service) as connection:
        for part in parts:
            try:
                connection.sendall(part)
            except (BrokenPipeError, ConnectionResetError):
                break  # it has had enough
        return rest_of(connection)


def statuses(answers: bytes) -> list[int]:
    """
    >>> statuses(b"HTTP/1.1 200 OK\\r\\n\\r\\nHTTP/1.1 400 Bad Request\\r\\n\\r\\n")
    [200, 400]
    """
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answers)]
