"""The names that requests may be for, as their `Host` says it.

A web page may let its own name lead to the address of the service: then a browser takes the service for that page's,
and lets it send and read what it likes. But the browser says in `Host` which name it has called.
"""

import re
from collections.abc import Iterable

_LOOPBACK = rb"localhost|[a-z0-9-]+\.localhost|127(?:\.\d{1,3}){3}|\[::1\]"
_ADDRESS = rb"\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:.]+\]"
_NAME = re.compile(r"\*|(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*", re.IGNORECASE)


class HostNames:
    """`localhost` and the other names of this machine, those that are given, and if `addresses`, every IP address.

    `*.example.org` stands for all names below `example.org`, `*` for any. A port makes no difference. Addresses are
    safe: a page can choose where its name leads to, but no page has a name that is an address.

    >>> names = HostNames(["novikoff", "*.example.org"], addresses=False)
    >>> [names.allow(host) for host in (b"localhost:8000", b"Novikoff", b"a.example.org:80")]
    [True, True, True]
    >>> [names.allow(host) for host in (b"10.0.0.1", b"evil.example", b"")]
    [False, False, False]
    """

    def __init__(self, names: Iterable[str], *, addresses: bool) -> None:
        patterns = [_LOOPBACK, *map(_pattern, names), *([_ADDRESS] if addresses else [])]
        self._allowed = re.compile(rb"(?:%b)(?::\d*)?" % b"|".join(patterns), re.IGNORECASE)
        self._allowed_last = b"localhost"

    def allow(self, host: bytes) -> bool:
        """Whether a `Host` is one of these."""
        if host != self._allowed_last:
            if self._allowed.fullmatch(host) is None:
                return False
            self._allowed_last = host
        return True


def is_host_name(name: str) -> bool:
    """Whether a name can be given here: without a port."""
    return _NAME.fullmatch(name) is not None


def _pattern(name: str) -> bytes:
    if name == "*":
        return b".*"
    below = name.removeprefix("*.")
    literal = re.escape(f"[{below}]" if ":" in below else below).encode()
    return literal if below == name else rb"(?:[a-z0-9_-]+\.)+" + literal
