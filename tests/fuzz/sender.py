"""One client that sends what it likes; answers do not matter, as long as they come or the connection ends."""

import random
import socket
from collections import Counter

import httpx

from tests.support.service_process import NO_TLS
from tests.support.waiting import PATIENCE_SECONDS

HELD_MAX = 15
"""Connections that a sender leaves open behind it."""

KEPT_BYTES_MAX = 8_000_000
"""Of an answer; the rest of it is read and forgotten."""


class Sender:
    """Sends requests, and counts the statuses of their answers."""

    def __init__(self, url: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.statuses: Counter[int] = Counter()
        self.known: set[str] = set()
        """Models that this one has made, or seen to be there."""
        self._client = httpx.Client(base_url=url, timeout=PATIENCE_SECONDS, verify=NO_TLS)
        address = httpx.URL(url)
        self._address = (address.host, address.port or 80)
        self._held: list[socket.socket] = []

    def close(self) -> None:
        for held in self._held:
            held.close()
        self._client.close()

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        self.ask("POST", path, body, headers)

    def get(self, path: str) -> None:
        self.ask("GET", path)

    def ask(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """The status, and the body unless it is large."""
        kept = bytearray()
        with self._client.stream(method, path, content=body or None, headers=headers) as answer:
            self.statuses[answer.status_code] += 1
            for part in answer.iter_raw():
                if len(kept) <= KEPT_BYTES_MAX:
                    kept += part
            return answer.status_code, bytes(kept)

    def hold(self, sent: bytes, timeout: float = 30) -> None:
        """Send these bytes, then neither read nor close, until others are held instead."""
        held = socket.create_connection(self._address, timeout=timeout)
        self._held.append(held)
        while len(self._held) > HELD_MAX:
            self._held.pop(0).close()
        held.sendall(sent)
