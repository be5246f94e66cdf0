"""Asks for /livez again and again, in a process of its own: one that shares it with attackers would wait for them.

python -m tests.fuzz.watcher HOST PORT asks until its input ends, then tells the seconds of the longest answer, how
many there were, and when the longest came.
"""

import select
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime
from urllib.parse import urlsplit

PAUSE_SECONDS = 0.05
SECONDS_MAX = 150.0
QUESTION = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


class Watcher:
    """How long the longest answer took, of a process that asks until `stop`."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self.longest_seconds = 0.0
        self.asked = 0
        self.longest_at = ""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.watcher", str(address.hostname), str(address.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def stop(self) -> None:
        said, _ = self._process.communicate()
        longest, asked, self.longest_at = said.split()
        self.longest_seconds, self.asked = float(longest), int(asked)


def answer_seconds(host: str, port: int) -> float:
    """How long the service takes to answer, also if it ends the connection instead."""
    began = time.perf_counter()
    try:
        with socket.create_connection((host, port), timeout=SECONDS_MAX) as connection:
            connection.sendall(QUESTION)
            while connection.recv(65_536):
                pass
    except ConnectionError:
        pass
    return time.perf_counter() - began


def main() -> None:
    host, port = sys.argv[1], int(sys.argv[2])
    longest, asked = (0.0, ""), 0
    while not select.select([sys.stdin], [], [], PAUSE_SECONDS)[0]:
        took = answer_seconds(host, port)
        longest = max(longest, (took, datetime.now(UTC).strftime("%H:%M:%S")))
        asked += 1
    print(longest[0], asked, longest[1] or "never")


if __name__ == "__main__":
    main()
