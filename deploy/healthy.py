#!/usr/local/bin/python -IS
"""The image's health check: `healthy /readyz` asks the service in this container, and ends with 0 if it answers 200.

It is run every few seconds, so it imports next to nothing. The port is that of `serve --port`, which the first process
of the container was started with, else NOVIKOFF_PORT.
"""

import socket
import sys
from itertools import pairwise
from os import environ

SECONDS = 4


def port() -> int:
    with open("/proc/1/cmdline", "rb") as opened:  # noqa: PTH123  (pathlib would take longer than all the rest)
        words = opened.read().decode("utf-8", "replace").replace("=", "\0").split("\0")
    given = dict(pairwise(words)).get("--port")
    return int(given or environ.get("NOVIKOFF_PORT") or 8000)


def ask(path: str) -> bytes:
    """The status line of the answer."""
    with socket.create_connection(("localhost", port()), SECONDS) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
        return connection.recv(1024).partition(b"\r\n")[0]


try:
    answer = ask(sys.argv[1] if len(sys.argv) > 1 else "/readyz")
except OSError as error:
    sys.exit(f"no answer: {error}")
if answer.split()[1:2] != [b"200"]:
    sys.exit(answer.decode("latin-1") or "the connection was closed without an answer")
