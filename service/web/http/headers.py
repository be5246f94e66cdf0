"""Headers of all routes: X-Request-ID, traceparent, and those that tell a browser to be careful."""

import re
from collections.abc import MutableMapping
from typing import Any, NamedTuple

from service.runtime import logs
from service.web.http.requests import Header, Send

REQUEST_ID = b"x-request-id"

_VALID_ID = re.compile(rb"[!-~]{1,128}")


def request_id_of(headers: list[Header]) -> bytes | None:
    """The id that a client gave: 1 to 128 visible ASCII characters, or it counts as none.

    >>> request_id_of([(b"x-request-id", b"abc-1")]), request_id_of([(b"x-request-id", b"a b")])
    (b'abc-1', None)
    """
    for name, value in headers:
        if name == REQUEST_ID:
            return value if _VALID_ID.fullmatch(value) else None
    return None


def with_request_id(send: Send, request_id: bytes) -> Send:
    """A `send` that puts the id into the answer's head; from now on it is in every line of the log as well."""
    logs.request_id.set(request_id.decode())
    header = (REQUEST_ID, request_id)

    async def send_identified(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), header]
        await send(message)

    return send_identified


TRACEPARENT = b"traceparent"

_VALID_PARENT = re.compile(
    rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)


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
        if name == TRACEPARENT:
            found = _VALID_PARENT.fullmatch(value)
            # A later version may have more behind what is known; version 00 may not.
            if found is None or (found[4] and value.startswith(b"00")):
                return None
            return Parent(found[1].decode(), found[2].decode(), bool(int(found[3], 16) & 1))
    return None


def log_trace_of(headers: list[Header]) -> None:
    """From now on every line of the log has the ids of the request's trace and span, if it came with good ones.

    >>> log_trace_of([(b"traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")])
    >>> logs.trace.get()
    ('4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7')
    >>> logs.trace.set(None) and None
    """
    parent = parent_of(headers)
    if parent is not None and logs.trace.get() is None:  # else there is a span of our own, within that one
        logs.trace.set(parent[:2])


_HOST = re.compile(rb"^https?://[^/]*/*")

NOSNIFF: Header = (b"x-content-type-options", b"nosniff")

DEFAULTS: dict[bytes, bytes] = {
    b"x-content-type-options": b"nosniff",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
}
"""For answers that do not set these themselves. Most are data that belongs to one caller, so they are not cached."""


def relative(header: Header) -> Header:
    """A `location` without its host, which the sender of the request may have made up.

    >>> relative((b"location", b"http://evil.example/stats?limit=3")), relative((b"location", b"http://a//evil.example"))
    ((b'location', b'/stats?limit=3'), (b'location', b'/evil.example'))
    """
    name, value = header
    return (name, _HOST.sub(b"/", value)) if name == b"location" else header


def secured(send: Send) -> Send:
    """A `send` that adds the defaults, and makes redirects relative."""

    async def send_secured(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = [relative(header) for header in message.get("headers", ())]
            said = {name for name, _ in headers}
            message["headers"] = [*headers, *(each for each in DEFAULTS.items() if each[0] not in said)]
        await send(message)

    return send_secured
