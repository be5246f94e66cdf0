"""What a request may have beside its head: a body of a known media type and size, and known query parameters."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, MutableMapping
from typing import Any, NoReturn, TypeVar
from urllib.parse import parse_qsl

import msgspec
from fastapi import Request

from service.errors import InvalidRequest, unknown
from service.web.http.compression import inflated, inflating_of
from service.web.problems import HttpError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

Header = tuple[bytes, bytes]

JSON = b"application/json"
NDJSON = b"application/x-ndjson"
JSON_ONLY = frozenset({JSON})
JSON_OR_LINES = frozenset({JSON, NDJSON})


WHOLE_BODY = "novikoff.whole_body"
"""Where a scope has the body of a request that came in one piece and is plain: see `is_plain_json`."""

WHOLE_RESPONSE = "novikoff.whole_response"
"""Where the message that begins a response has all of its body, if the scope has WHOLE_BODY: then none follows."""


def is_plain_json(headers: list[Header]) -> bool:
    """Whether a head says no more of a body than that it is JSON, and gives the request no id of its own and no trace.

    >>> plain = [(b"content-type", JSON)]
    >>> is_plain_json(plain), is_plain_json([*plain, (b"content-encoding", b"gzip")])
    (True, False)
    """
    return [field for field in headers if field[0] in _NOT_PLAIN] == [(b"content-type", JSON)]


_NOT_PLAIN = frozenset({b"content-type", b"content-encoding", b"x-request-id", b"traceparent"})


class RequestLimits(msgspec.Struct, frozen=True):
    """How large requests may be, and how many streams may be open: the settings of the same names."""

    body_bytes_max: int
    upload_bytes_max: int
    inflated_bytes_max: int
    inflated_ratio_max: int
    line_bytes_max: int
    items_max: int
    features_max: int
    streams_max: int
    stream_errors_max: int


async def read_body(
    scope: Scope,
    receive: Receive,
    bytes_max: int,
    accepted: frozenset[bytes] = JSON_ONLY,
    *,
    inflated_ratio_max: int,
) -> bytes:
    """The body of a request, inflated if it is gzip; refused before it is read when it says that it is too large.

    The limit is for what came and for what it stands for.
    """
    headers = scope["headers"]
    inflating = inflating_of(_checked_encoding(headers, bytes_max, accepted), ratio_max=inflated_ratio_max)
    if inflating is not None:
        pieces = inflated(_pieces(receive, bytes_max), inflating)
    else:
        body, more = await _piece(receive)
        if not more and len(body) <= bytes_max:
            return body
        pieces = _pieces(receive, bytes_max, body, more=more)
    parts: list[bytes] = []
    size = 0
    async for part in pieces:
        parts.append(part)
        size += len(part)
        if size > bytes_max:
            _too_large(bytes_max)
    return b"".join(parts)


async def _pieces(
    receive: Receive, bytes_max: int, first: bytes = b"", *, more: bool = True
) -> AsyncIterator[bytes]:
    """The pieces of a body, of which the `first` has come."""
    yield first
    size = len(first)
    while more:
        body, more = await _piece(receive)
        size += len(body)
        if size > bytes_max:
            _too_large(bytes_max)
        yield body


async def _piece(receive: Receive) -> tuple[bytes, bool]:
    """The next piece of a body, and whether there are more."""
    message = await receive()
    if (
        message["type"] == "http.disconnect"
    ):  # without its end a body may look whole all the same: lines, or columns
        raise HttpError("malformed-json", "the body ended too early")
    return message.get("body", b""), message.get("more_body", False)


def replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` for reading the body once more."""
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def again() -> MutableMapping[str, Any]:
        return next(messages, None) or await receive()

    return again


def has_body(headers: list[Header]) -> bool:
    return any(name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
               for name, value in headers)  # fmt: skip


def encoding_of(headers: list[Header]) -> bytes:
    """The Content-Encoding, with commas if there are several."""
    return b", ".join(value for name, value in headers if name == b"content-encoding")


def media_type_of(headers: list[Header]) -> bytes:
    """The content type without its parameters."""
    value = next((value for name, value in headers if name == b"content-type"), b"")
    return value.split(b";", 1)[0].strip().lower()


def _checked_encoding(headers: list[Header], bytes_max: int, accepted: frozenset[bytes]) -> bytes:
    """The Content-Encoding; HttpError for another media type, or for a length that is too large."""
    media_type = encoding = b""
    for name, value in headers:
        if name == b"content-type":
            media_type = value
        elif name == b"content-encoding":
            encoding = encoding_of(headers)
        elif name == b"content-length" and int(value) > bytes_max:
            _too_large(bytes_max)
    if media_type not in accepted and media_type_of(headers) not in accepted:
        wanted = " or ".join(sorted(each.decode() for each in accepted))
        raise HttpError("unsupported-media-type", f"send the body with content-type: {wanted}")
    return encoding


def _too_large(bytes_max: int) -> NoReturn:
    raise HttpError("body-too-large", f"the body exceeds {bytes_max} bytes")


T = TypeVar("T")


def parameters(query: bytes, known: Collection[str]) -> dict[str, str]:
    """The parameters of a query; InvalidRequest for one that is not known or comes more than once.

    >>> parameters(b"model=spam&label=", {"model", "label"})
    {'model': 'spam', 'label': ''}
    >>> parameters(b"limit", ())
    Traceback (most recent call last):
    service.errors.InvalidRequest: limit: unknown parameter
    """
    found: dict[str, str] = {}
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name not in known:
            raise InvalidRequest.at(name[:200], unknown(name[:200], known, "parameter"))
        if name in found:
            raise InvalidRequest.at(name[:200], "appears more than once")
        found[name] = value
    return found


def checks_query(endpoint: T) -> T:
    """For the handler of a route whose query is checked beside its body."""
    endpoint.checks_query = True  # type: ignore[attr-defined]
    return endpoint


async def check_query(request: Request) -> None:
    """A dependency of every route: its query has the parameters that it declares, once, and no others."""
    route = request.scope["route"]
    if not hasattr(route.endpoint, "checks_query"):
        known = {parameter.alias for parameter in route.dependant.query_params}
        parameters(request.scope["query_string"], known)
