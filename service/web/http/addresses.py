"""Addresses: which of them are proxies', and who it is that calls through one."""

import ipaddress
import re
from collections.abc import Iterable
from functools import lru_cache

from service.web.http.requests import Header

UNKNOWN = "unknown"

ADDRESS_CHARS_MAX = 64
"""No longer text is an address: one of IPv6 has at most 45 characters, and some more with a zone."""


class Proxies:
    """Addresses and networks whose word is taken for who calls: `X-Forwarded-For`.

    >>> proxies = Proxies(["127.0.0.0/8", "10.0.0.7"])
    >>> proxies.include("127.0.0.1"), proxies.include("10.0.0.8")
    (True, False)
    """

    def __init__(self, networks: Iterable[str]) -> None:
        """ValueError if one of them is no address and no network."""
        self._networks = [ipaddress.ip_network(network, strict=False) for network in networks]
        self._include = lru_cache(maxsize=1024)(self._is_in_networks)

    def include(self, address: str) -> bool:
        return len(address) <= ADDRESS_CHARS_MAX and self._include(address)

    def _is_in_networks(self, address: str) -> bool:
        parsed = _parsed(address)
        return parsed is not None and any(
            parsed.version == network.version and parsed in network for network in self._networks
        )

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

    What is no address, as a client may write it into `X-Forwarded-For`, is one caller however it is written: callers
    are kept in tables.

    >>> caller_of(("10.0.0.7", 1)), caller_of(("2001:db8::1", 1)), caller_of(("a" * 60_000, 1)), caller_of(None)
    ('10.0.0.7', '2001:db8::/64', 'unknown', 'unknown')
    """
    if client is None or len(client[0]) > ADDRESS_CHARS_MAX:
        return UNKNOWN
    return _caller(client[0])


@lru_cache(maxsize=1024)
def _caller(host: str) -> str:
    parsed = _parsed(host)
    if parsed is None:
        return UNKNOWN
    return str(parsed if parsed.version == 4 else ipaddress.ip_network((parsed, 64), strict=False))


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
