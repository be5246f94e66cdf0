"""Bodies of requests: JSON, and never larger than allowed."""

from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, NoReturn

from service.web.http.inflating import inflated, inflating_of
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
"""Where a scope has the body of a request that came in one piece with a plain head: JSON as it is, and no id."""
WHOLE_ANSWER = "novikoff.whole_answer"
"""Where the message that begins an answer has all of its body, if the scope has `WHOLE_BODY`: then none follows."""


def is_plain(headers: list[Header]) -> bool:
    """Whether a head says no more of a body than that it is JSON, and gives the request no id of its own and no trace.

    >>> is_plain([(b"content-type", JSON)]), is_plain([(b"content-type", JSON), (b"content-encoding", b"gzip")])
    (True, False)
    """
    told = [field for field in headers if field[0] in _TOLD]
    return told == [(b"content-type", JSON)]


_TOLD = frozenset({b"content-type", b"content-encoding", b"x-request-id", b"traceparent"})


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
    _check_headers(headers, bytes_max, accepted)
    inflating = inflating_of(encoding_of(headers), ratio_max=inflated_ratio_max)
    pieces = _pieces(receive, bytes_max)
    parts: list[bytes] = []
    size = 0
    async for part in pieces if inflating is None else inflated(pieces, inflating):
        parts.append(part)
        size += len(part)
        if size > bytes_max:
            _too_large(bytes_max)
    return b"".join(parts)


async def _pieces(receive: Receive, bytes_max: int) -> AsyncIterator[bytes]:
    size, more = 0, True
    while more:
        message = await receive()
        _check_presence(message)
        more = message.get("more_body", False)
        body: bytes = message.get("body", b"")
        size += len(body)
        if size > bytes_max:
            _too_large(bytes_max)
        yield body


def replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` for whoever wants to read the body once more."""
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


def _check_headers(headers: list[Header], bytes_max: int, accepted: frozenset[bytes]) -> None:
    """HttpError for another media type, or for a length that is too large."""
    media_type = b""
    for name, value in headers:
        if name == b"content-type":
            media_type = value
        elif name == b"content-length" and int(value) > bytes_max:
            _too_large(bytes_max)
    if media_type not in accepted and media_type_of(headers) not in accepted:
        wanted = " or ".join(sorted(each.decode() for each in accepted))
        raise HttpError("unsupported-media-type", f"send the body with content-type: {wanted}")


def _check_presence(message: MutableMapping[str, Any]) -> None:
    """The client is still there. Without its end a body may look whole all the same: lines, or columns."""
    if message["type"] == "http.disconnect":
        raise HttpError("malformed-json", "the body was cut off")


def _too_large(bytes_max: int) -> NoReturn:
    raise HttpError("body-too-large", f"a body may have {bytes_max} bytes at most")
