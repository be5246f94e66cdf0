"""Clients that are too slow: with a request's head, with its body, or in taking its answer.

Requests are not timed one by one. Every second a sweep looks at all connections and closes those that have made no
progress for too long, so a request that goes well costs nothing.
"""

import logging
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any, NamedTuple

from service.runtime.logs import LogLimiter
from service.web.problems import last_answer

SWEEP_SECONDS = 1.0
COUNTED_SECONDS_MAX = 2 * SWEEP_SECONDS
"""What passes between two sweeps counts up to this. If more has passed, the service was held up or the machine stopped,
and what clients have sent meanwhile lies unread: the next sweep will know of it."""
PROBE_SECONDS = 2.0

log = logging.getLogger(__name__)


class Wait(NamedTuple):
    """What a connection waits for its client to do, since when, and a value that changes with any progress."""

    what: str
    sign: object
    since: float

    def is_for(self, what: str, sign: object) -> bool:
        """Whether nothing has changed: objects by identity, since every empty body equals every other."""
        return self.what == what and (self.sign == sign if isinstance(sign, tuple) else self.sign is sign)


class SlowClients:
    """Ends the connections of uvicorn's whose clients take longer than they may.

    A request may take `request_seconds` to come, head and body each; an answer may go untaken as long, while nothing
    more of the request comes either. What still comes of a request that was answered is passed over as long. A stream
    may be silent for `stream_idle_seconds`. A connection may be idle for `keep_alive_seconds`; one that is there for a
    probe has to ask for it within `PROBE_SECONDS`.
    """

    def __init__(
        self,
        connections: Iterable[Any],
        *,
        request_seconds: float,
        stream_idle_seconds: float,
        keep_alive_seconds: float,
    ) -> None:
        self._connections = connections
        self._limits = {
            "head": request_seconds,
            "body": request_seconds,
            "answer": request_seconds,
            "rest": request_seconds,
            "line": stream_idle_seconds,
            "next request": keep_alive_seconds,
            "probe": PROBE_SECONDS,
        }
        self._waits: dict[Any, Wait] = {}
        self._swept_at: float | None = None
        self._counted_seconds = 0.0
        self._told = LogLimiter()

    def sweep(self, clock: Callable[[], float] = monotonic) -> None:
        now = self._counted(clock())
        waits: dict[Any, Wait] = {}
        for connection in list(self._connections):
            awaited = _awaited(connection)
            if awaited is None:
                continue
            wait = self._waits.get(connection)
            if wait is None or not wait.is_for(*awaited):
                wait = Wait(*awaited, since=now)
            waits[connection] = wait
            if now - wait.since > self._limits[wait.what]:
                self._end(connection, wait.what)
        self._waits = waits

    def _counted(self, now: float) -> float:
        """The time that counts for clients."""
        if self._swept_at is not None:
            self._counted_seconds += min(now - self._swept_at, COUNTED_SECONDS_MAX)
        self._swept_at = now
        return self._counted_seconds

    def _end(self, connection: Any, what: str) -> None:
        if what in ("next request", "rest"):
            connection.transport.close()
            return
        if what == "probe":
            connection.refuse(connection.door.is_full)
            return
        if (held_back := self._told.turn()) is not None:
            log.info("a client was too slow with its %s", what, extra={"others": held_back})
        if what in ("head", "body"):
            detail = f"the {what} of the request did not come within {self._limits[what]:g} seconds"
            connection.transport.write(last_answer("request-timeout", detail))
            connection.transport.close()
        else:
            connection.transport.abort()  # closing would wait for an answer to be taken


def _awaited(connection: Any) -> tuple[str, object] | None:
    """What the client of a connection has to do next, and something that changes as soon as it does it."""
    cycle = connection.cycle
    if untaken_bytes := connection.transport.get_write_buffer_size():
        # Many clients send everything before they take anything.
        return "answer", (untaken_bytes, cycle.came_bytes if cycle is not None else 0)
    if cycle is not None and cycle.response_complete and cycle.more_body:
        return "rest", cycle
    if cycle is None and connection.place is not None and connection.place.for_probes:
        return "probe", cycle
    if cycle is None or cycle.response_complete:
        return ("next request" if cycle and not connection.bytes_without_progress else "head"), cycle
    if not cycle.more_body:
        return None
    if not cycle.response_started:
        return "body", cycle
    return None if cycle.pieces else ("line", cycle.pieces)
