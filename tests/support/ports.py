"""Ports for servers, also for those that are stopped and started again."""

import socket

_reserved: list[socket.socket] = []


def free_ports(count: int) -> list[int]:
    """Ports on which nothing listens, reserved for this process as long as it runs.

    A socket that is bound and does not listen keeps the kernel from giving its port to another process, also while a
    server is down between two starts. A server that sets SO_REUSEADDR, as nearly all do, can listen there all the same.
    """
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("127.0.0.1", 0))
    _reserved.extend(sockets)
    return [one.getsockname()[1] for one in sockets]
