"""Clients that do nothing but keep a service busy."""

from bench.load import sockets, wrk
from bench.load.work import Load, Work


def tool() -> str:
    """What makes the load."""
    return "wrk" if wrk.is_here() else "a Python client, since wrk is missing: it takes a core to itself"


def run(port: int, work: Work, seconds: float, connections: int) -> Load:
    """Keep this many connections busy with work, by wrk where it is installed."""
    return (wrk if wrk.is_here() else sockets).run(port, work, seconds, connections)
