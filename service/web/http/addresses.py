"""Addresses: which of them are proxies', and who it is that calls through one."""

import ipaddress
import re
from collections.abc import Iterable
from functools import lru_cache

from service.web.http.bodies import Header

UNKNOWN = "unknown"


class Proxies:
    """Addresses and networks whose word is taken for who calls: `X-Forwarded-For`.

    >>> proxies = Proxies(["127.0.0.0/8", "10.0.0.7"])
    >>> proxies.include("127.0.0.1"), proxies.include("10.0.0.8")
    (True, False)
    """

    def __init__(self, networks: Iterable[str]) -> None:
        """ValueError if one of them is no address and no network."""
        self._networks = [ipaddress.ip_network(network, strict=False) for network in networks]
        self.include = lru_cache(maxsize=1024)(self._include)

    def _include(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        return any(parsed.version == network.version and parsed in network for network in self._networks)

    def caller(self, client: tuple[str, int] | None, headers: list[Header]) -> str | None:
        """Who calls, as `caller_of` names them; None for a proxy that does not say, or a program beside it.

        >>> proxies = Proxies(["127.0.0.1", "10.0.0.7"])
        >>> said = [(b"x-forwarded-for", b"1.1.1.1, 2.2.2.2, 10.0.0.7")]
        >>> proxies.caller(("127.0.0.1", 5), said), proxies.caller(("3.3.3.3", 5), said)
        ('2.2.2.2', '3.3.3.3')
        """
        if client is None or not self.include(client[0]):
            return caller_of(client)
        said = b",".join(value for name, value in headers if name == b"x-forwarded-for").decode("latin-1")
        # Each proxy adds whom it has heard from at the end: what is before the first foreign one may be made up.
        for address in reversed([each for each in re.split(r"[,\s]+", said) if each]):
            if not self.include(address):
                return caller_of((address, 0))
        return None


def caller_of(client: tuple[str, int] | None) -> str:
    """The caller that an address stands for. All of a /64 of IPv6 are one caller, since a host may use them all.

    >>> caller_of(("10.0.0.7", 1)), caller_of(("2001:db8::1", 1)), caller_of(None)
    ('10.0.0.7', '2001:db8::/64', 'unknown')
    """
    host = client[0] if client else UNKNOWN
    if ":" not in host:
        return host
    try:
        return str(ipaddress.ip_network((host.partition("%")[0], 64), strict=False))
    except ValueError:
        return UNKNOWN
