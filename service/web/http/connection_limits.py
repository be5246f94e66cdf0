"""What clients may take of the service whether they have a key or not: connections, and time on each of them."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from service.runtime.logs import LogLimiter
from service.web.http.addresses import Proxies, caller_of

PROBES = frozenset({"/livez", "/readyz"})
PROBE_CONNECTIONS = 16
"""Connections beyond `connections_max` that may ask for a probe, so that a busy service does not look dead."""

PROBE_SECONDS = 2.0
SWEEP_SECONDS = 1.0
COUNTED_SECONDS_MAX = 2 * SWEEP_SECONDS
"""What passes between two sweeps counts up to this. If more has passed, the service was held up or the machine stopped,
and what clients have sent meanwhile lies unread: the next sweep will know of it."""

Refusal = tuple[str, str]
"""The code and the detail of a problem."""

Awaited = tuple[str, int, int]
"""What a connection waits for its client to do, and numbers of which one changes with any progress."""

if TYPE_CHECKING:
    from service.web.http.connection import Connection

log = logging.getLogger(__name__)


class Place(NamedTuple):
    """What a connection was admitted as. `address`: the one that it is counted for, None if it is counted for none."""

    address: str | None
    for_probes: bool


class ConnectionLimiter:
    """Admits connections. Those for probes go to the newest: a client that asks for a probe does so at once."""

    def __init__(self, connections_max: int, per_address_max: int, proxies: Proxies) -> None:
        self._connections_max = connections_max
        self._per_address_max = per_address_max
        self._proxies = proxies
        self._admitted = 0
        self._by_address: Counter[str] = Counter()
        self._probing: list[Connection] = []
        self.is_full: Refusal = (
            "overloaded",
            f"{connections_max} clients are connected (`connections_max`); try again later",
        )

    def admit(self, connection: "Connection") -> None:
        """Give a connection its place, or refuse it."""
        address = None
        if connection.client is not None and not self._proxies.include(connection.client[0]):
            address = caller_of(connection.client)
            if self._by_address[address] >= self._per_address_max:
                detail = f"at most {self._per_address_max} connections from one address"
                connection.refuse(("rate-limited", detail))
                return
            self._by_address[address] += 1
        connection.place = Place(address, for_probes=self._admitted >= self._connections_max)
        if not connection.place.for_probes:
            self._admitted += 1
            return
        self._probing.append(connection)
        if len(self._probing) > PROBE_CONNECTIONS:
            self._probing[0].refuse(self.is_full)
            self.release(self._probing[0])

    def release(self, connection: "Connection") -> None:
        """Take the place back, if it has one."""
        place, connection.place = connection.place, None
        if place is None:
            return
        if place.for_probes:
            self._probing.remove(connection)
        else:
            self._admitted -= 1
        if place.address is not None:
            self._by_address[place.address] -= 1
            if not self._by_address[place.address]:
                del self._by_address[place.address]


class SlowClients:
    """Ends connections whose clients are too slow: with a request's head, with its body, or in taking its response.

    Requests are not timed one by one. Every second a sweep looks at all connections and closes those that have made no
    progress for too long, so a request that goes well costs nothing.

    A request may take `request_seconds` to come, head and body each; a response may go untaken as long, while nothing
    more of the request comes either. What still comes of a request that was answered is passed over as long. A stream
    may be silent for `stream_idle_seconds`. A connection may be idle for `keep_alive_seconds`; one that was admitted
    for a probe has to ask for it within `PROBE_SECONDS`.
    """

    def __init__(
        self,
        connections: Iterable["Connection"],
        *,
        request_seconds: float,
        stream_idle_seconds: float,
        keep_alive_seconds: float,
    ) -> None:
        self._connections = connections
        self._limits = {
            "head": request_seconds,
            "body": request_seconds,
            "response": request_seconds,
            "rest": request_seconds,
            "line": stream_idle_seconds,
            "next request": keep_alive_seconds,
            "probe": PROBE_SECONDS,
        }
        self._waits: dict[Connection, tuple[Awaited, float]] = {}
        """What each connection has waited for, and since when."""
        self._swept_at: float | None = None
        self._counted_seconds = 0.0
        self._log_limiter = LogLimiter()

    def sweep(self, clock: Callable[[], float] = monotonic) -> None:
        now = self._counted(clock())
        waits: dict[Connection, tuple[Awaited, float]] = {}
        for connection in list(self._connections):
            awaited = connection.awaited
            if awaited is None:
                continue
            before = self._waits.get(connection)
            since = before[1] if before is not None and before[0] == awaited else now
            waits[connection] = awaited, since
            if now - since > self._limits[awaited[0]]:
                self._end(connection, awaited[0])
        self._waits = waits

    def _counted(self, now: float) -> float:
        """The time that counts for clients."""
        if self._swept_at is not None:
            self._counted_seconds += min(now - self._swept_at, COUNTED_SECONDS_MAX)
        self._swept_at = now
        return self._counted_seconds

    def _end(self, connection: "Connection", what: str) -> None:
        if what in ("next request", "rest"):
            connection.close()
            return
        if what == "probe":
            detail = f"a connection that is kept for probes has {PROBE_SECONDS:g} seconds to ask for one"
            connection.refuse(("overloaded", detail))
            return
        if (held_back := self._log_limiter.turn()) is not None:
            log.info("a client was too slow with its %s", what, extra={"others": held_back})
        if what in ("head", "body"):
            detail = f"the {what} of the request did not come within {self._limits[what]:g} seconds"
            connection.refuse(("request-timeout", detail))
        else:
            connection.abort()  # closing would wait until the response is taken
