"""Where the service listens, and whether others than this machine can reach it there."""

import errno
import ipaddress
import os
import socket

from service.errors import AddressUnusable


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens there.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    return all(ipaddress.ip_address(address).is_loopback for *_, address in _addresses(host, 0))


def is_for_this_machine(host: str, published: str) -> bool:
    """Whether only this machine can reach what listens on `host` or, in a container, is `published` by it.

    >>> is_for_this_machine("0.0.0.0", "127.0.0.1:8000"), is_for_this_machine("0.0.0.0", "[::1]:8000")
    (True, True)
    >>> is_for_this_machine("0.0.0.0", "8000"), is_for_this_machine("0.0.0.0", ""), is_for_this_machine("::1", "")
    (False, False, True)
    """
    return is_loopback(published.rpartition(":")[0].strip("[]") if published else host)


def listen(host: str, port: int) -> list[socket.socket]:
    """Sockets bound to every address of a host; AddressUnusable if one cannot be had."""
    sockets: list[socket.socket] = []
    try:
        for family, address in _addresses(host, port):
            bound = socket.socket(family, socket.SOCK_STREAM)
            sockets.append(bound)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            bound.bind((address, port))
    except OSError as error:
        for bound in sockets:
            bound.close()
        why = os.strerror(error.errno) if error.errno else str(error)
        remedy = "; choose another port with --port" if error.errno == errno.EADDRINUSE else ""
        raise AddressUnusable(f"cannot listen on {host}, port {port}: {why.lower()}{remedy}") from None
    return sockets


def _addresses(host: str, port: int) -> list[tuple[socket.AddressFamily, str]]:
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise AddressUnusable(f"cannot listen on {host}: {error}") from None
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))
