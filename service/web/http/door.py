"""Which connections are let in: so many in all, so many from one address, and a few more for probes only."""

from collections import Counter
from typing import NamedTuple, Protocol

from service.web.http.addresses import Proxies, caller_of

PROBES = frozenset({"/livez", "/readyz"})
PROBE_CONNECTIONS = 16
"""Connections beyond `connections_max` that may ask for a probe, so that nobody takes a busy service for a dead one."""

Refusal = tuple[str, str]
"""The code and the detail of a problem."""


class Place(NamedTuple):
    """What a connection was let in as. `address`: the one that it is counted for, None if it is counted for none."""

    address: str | None
    for_probes: bool


class Connection(Protocol):
    client: tuple[str, int] | None
    place: Place | None

    def refuse(self, refusal: Refusal) -> None:
        """Say why, and close."""


class Door:
    """Gives connections their places. Those for probes go to the newest: who asks for a probe does so at once."""

    def __init__(self, connections_max: int, per_address_max: int, proxies: Proxies) -> None:
        self._connections_max = connections_max
        self._per_address_max = per_address_max
        self._proxies = proxies
        self._taken = 0
        self._by_address: Counter[str] = Counter()
        self._probing: list[Connection] = []
        self.is_full: Refusal = "overloaded", f"{connections_max} clients are connected; try again later"

    def enter(self, connection: Connection) -> None:
        """Give a connection its place, or refuse it."""
        address = None
        if connection.client is not None and not self._proxies.include(connection.client[0]):
            address = caller_of(connection.client)
            if self._by_address[address] >= self._per_address_max:
                detail = f"at most {self._per_address_max} connections are taken from one address"
                connection.refuse(("rate-limited", detail))
                return
            self._by_address[address] += 1
        connection.place = Place(address, for_probes=self._taken >= self._connections_max)
        if not connection.place.for_probes:
            self._taken += 1
            return
        self._probing.append(connection)
        if len(self._probing) > PROBE_CONNECTIONS:
            self._probing[0].refuse(self.is_full)
            self.leave(self._probing[0])

    def leave(self, connection: Connection) -> None:
        """Take the place back, if it has one."""
        place, connection.place = connection.place, None
        if place is None:
            return
        if place.for_probes:
            self._probing.remove(connection)
        else:
            self._taken -= 1
        if place.address is not None:
            self._by_address[place.address] -= 1
            if not self._by_address[place.address]:
                del self._by_address[place.address]
