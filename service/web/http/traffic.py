"""How many requests there were, how they ended and how long they took."""

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from service.runtime.timings import Timings
from service.web.http.bodies import Send

ROUTES_MAX = 200
"""Method, route and status together; there are fewer, whatever clients send."""

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Traffic:
    """Timings by method, route and status: a dictionary look-up and three additions a request."""

    def __init__(self) -> None:
        self.timings: dict[tuple[str, str, int], Timings] = {}

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        key = (method, route, status)
        timings = self.timings.get(key)
        if timings is None:
            if method not in METHODS or len(self.timings) >= ROUTES_MAX:
                key = ("OTHER", "other", status)
            timings = self.timings.setdefault(key, Timings())
        timings.observe(seconds)


@dataclass(slots=True)
class SpanCounts:
    """What became of the spans of requests; see `service/web/tracing.py`."""

    sent: int = 0
    dropped_at_once: int = 0
    """Too many waited."""
    dropped_unsent: int = 0
    """The endpoint did not take them."""


class Watched:
    """A `send` that remembers the status."""

    def __init__(self, send: Send, *, status: int = 500) -> None:
        """`status`: that of a request which gets no answer."""
        self._send = send
        self.status = status

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)
