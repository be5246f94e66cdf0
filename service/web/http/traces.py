"""traceparent (W3C Trace Context): which trace a request belongs to, and lines of the log that name it."""

import re
from typing import NamedTuple

from service.runtime import logs
from service.web.http.bodies import Header

HEADER = b"traceparent"

_VALID = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


class Parent(NamedTuple):
    """The span of the client in which a request was sent, and whether it is recorded there."""

    trace_id: str
    span_id: str
    is_sampled: bool


def parent_of(headers: list[Header]) -> Parent | None:
    """What a request says of its trace, if it says something good.

    >>> parent_of([(b"traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")])
    Parent(trace_id='4bf92f3577b34da6a3ce929d0e0e4736', span_id='00f067aa0ba902b7', is_sampled=True)
    >>> parent_of([(b"traceparent", b"00-4bf92f35-00f067aa0ba902b7-01")])
    """
    for name, value in headers:
        if name == HEADER:
            found = _VALID.fullmatch(value)
            # A later version may have more behind what is known; version 00 may not.
            if found is None or (found[4] and value.startswith(b"00")):
                return None
            return Parent(found[1].decode(), found[2].decode(), bool(int(found[3], 16) & 1))
    return None


def take(headers: list[Header]) -> None:
    """From now on every line of the log has the ids of the request's trace and span, if it came with good ones.

    >>> take([(b"traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")])
    >>> logs.trace.get()
    ('4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7')
    >>> logs.trace.set(None) and None
    """
    parent = parent_of(headers)
    if parent is not None and logs.trace.get() is None:  # else there is a span of our own, within that one
        logs.trace.set(parent[:2])
