"""Bodies of requests: JSON, and never larger than allowed."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NoReturn

from service.web.problems import HttpError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Header = tuple[bytes, bytes]


async def read_body(scope: Scope, receive: Receive, bytes_max: int) -> bytes:
    """The JSON body of a request, refused before it is read when it says that it is too large."""
    _check_headers(scope["headers"], bytes_max)
    message = await receive()
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):
        if len(body) > bytes_max:
            _too_large(bytes_max)
        return body
    parts = [body]
    size = len(body)
    while message.get("more_body"):
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > bytes_max:
            _too_large(bytes_max)
    return b"".join(parts)


def replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` for whoever wants to read the body once more."""
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def again() -> MutableMapping[str, Any]:
        return next(messages, None) or await receive()

    return again


def has_body(headers: list[Header]) -> bool:
    return any(name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
               for name, value in headers)  # fmt: skip


def _check_headers(headers: list[Header], bytes_max: int) -> None:
    media_type = b""
    for name, value in headers:
        if name == b"content-type":
            media_type = value
        elif name == b"content-length" and int(value) > bytes_max:
            _too_large(bytes_max)
    if media_type != b"application/json" and not _is_json(media_type):
        raise HttpError("unsupported-media-type", "send the body with content-type: application/json")


def _is_json(media_type: bytes) -> bool:
    return media_type.split(b";", 1)[0].strip().lower() == b"application/json"


def _too_large(bytes_max: int) -> NoReturn:
    raise HttpError("body-too-large", f"a body may have {bytes_max} bytes at most")
