"""traceparent (W3C Trace Context): lines of the log name the trace that a request belongs to."""

import re

from service import logs
from service.web.http.bodies import Header

HEADER = b"traceparent"

_VALID = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")


def take(headers: list[Header]) -> None:
    """From now on every line of the log has the ids of the request's trace and span, if it came with good ones.

    >>> take([(b"traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")])
    >>> logs.trace.get()
    ('4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7')
    >>> logs.trace.set(None) and None
    """
    for name, value in headers:
        if name == HEADER:
            found = _VALID.fullmatch(value)
            # A later version may have more behind what is known; version 00 may not.
            if found is not None and not (found[3] and value.startswith(b"00")):
                logs.trace.set((found[1].decode(), found[2].decode()))
            return
