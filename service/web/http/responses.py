"""Responses: encoded JSON, problem documents for errors, and large JSON in slices, which may have to break off."""

import hashlib
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
from fastapi import Response
from fastapi.responses import StreamingResponse

from service.errors import NovikoffError, OutcomeUnknown
from service.runtime.byte_budget import Reservation
from service.runtime.cooperative import Turns
from service.web.http.headers import NOSNIFF
from service.web.http.requests import WHOLE_RESPONSE, Header, Receive, Scope, Send
from service.web.problems import MEDIA_TYPE, HttpError, headers_of, internal_error, problem_document

JSON: Header = (b"content-type", b"application/json")
PROBLEM: Header = (b"content-type", MEDIA_TYPE.encode())
NO_HEADERS: tuple[Header, ...] = ()


async def respond(
    send: Send, status: int, headers: tuple[Header, ...], content: bytes, *, at_once: bool = False
) -> None:
    """`at_once`: whether the server takes head and body in one message; see `WHOLE_RESPONSE`."""
    length = (b"content-length", b"%d" % len(content))
    headers = (*headers, NOSNIFF, length)
    head: dict[str, Any] = {"type": "http.response.start", "status": status, "headers": headers}
    if at_once:
        head[WHOLE_RESPONSE] = content
    await send(head)
    if not at_once:
        await send({"type": "http.response.body", "body": content})


async def respond_with(send: Send, error: Exception) -> int:
    """Tell a client of an error; the status."""
    status, headers, content = as_problem(error)
    await respond(send, status, headers, content)
    return status


def stopped() -> OutcomeUnknown:
    """The error of a request that was cancelled: uvicorn stops, and has waited for it for `shutdown_seconds`."""
    return OutcomeUnknown("the service stopped before this finished: the outcome is unknown")


def as_problem(error: Exception, sent: bytes = b"") -> tuple[int, tuple[Header, ...], bytes]:
    """The status, the headers and the content that tell a client of an error."""
    document = document_of(error, sent)
    status = document["status"]
    more = ((name.encode(), value.encode()) for name, value in headers_of(status).items())
    own = error.headers if isinstance(error, HttpError) else NO_HEADERS
    return status, (PROBLEM, *more, *own), msgspec.json.encode(document)


def document_of(error: Exception, sent: bytes = b"") -> dict[str, Any]:
    """The problem document of any error; what was `sent` is for the log, if the log may have it."""
    if isinstance(error, NovikoffError):
        return problem_document(error.code, error.detail, error.fields)
    return problem_document(*internal_error(error, sent))


_encode = msgspec.json.Encoder().encode


class Json(Response):
    """A JSON answer, encoded at once."""

    media_type = "application/json"

    def __init__(self, content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(_encode(content), status, headers)


def etag_of(body: bytes) -> str:
    return f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'


def unless_known(body: bytes, etag: str, if_none_match: str | None, headers: Mapping[str, str]) -> Response:
    """A body with its ETag, or 304 if the client has it already."""
    known = {tag.strip().removeprefix("W/") for tag in (if_none_match or "").split(",")}
    if etag in known or "*" in known:
        kept = {name: value for name, value in headers.items() if name != "content-type"}
        return Response(status_code=304, headers={**kept, "etag": etag})
    return Response(body, headers={**headers, "etag": etag})


def timestamp(at: int) -> str:
    """Microseconds since 1970 as people and parsers read them.

    >>> timestamp(1_700_000_000_123_456)
    '2023-11-14T22:13:20.123456Z'
    """
    return datetime.fromtimestamp(at / 1e6, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


BREAK_OFF = "novikoff.response.break_off"
"""The message that closes a connection amid an answer."""

log = logging.getLogger(__name__)


HEAD_ONLY = "novikoff.head_only"
"""In the scope of a request that wants no body: it is a GET to the routes."""


class BreakingOff(StreamingResponse):
    """An answer in parts. What is wrong with the first is the answer instead; if a later one fails, that is logged,
    and the client finds the body without its end. Of what nobody wants, no more parts are made."""

    @classmethod
    async def of(cls, parts: AsyncIterator[bytes], media_type: str) -> "BreakingOff":
        first = await anext(parts, b"")

        async def all_parts() -> AsyncIterator[bytes]:
            yield first
            async for part in parts:
                yield part

        return cls(all_parts(), media_type=media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if HEAD_ONLY in scope:
            self.body_iterator = _nothing()
        await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        except NovikoffError as error:
            log.warning("a response was aborted: %s", error.detail)
            await send({"type": BREAK_OFF})


async def _nothing() -> AsyncIterator[bytes]:
    nothing: tuple[bytes, ...] = ()
    for part in nothing:
        yield part


PART_BYTES = 65_536
SLICE_NUMBERS = 4_096


class SlicedJson(BreakingOff):
    """A JSON answer that is encoded as it is sent."""

    def __init__(self, content: Any, room: Reservation | None = None) -> None:
        """`room`: what the content takes, released at its end."""
        super().__init__(in_turns(json_slices(content), room), media_type="application/json")


async def in_turns(parts: Iterator[bytes], room: Reservation | None = None) -> AsyncIterator[bytes]:
    """Parts of an answer, put together to some 64 KB, made when those before were sent; others have their turns in
    between.

    `room`: what it takes.
    """
    turns, gathered = Turns(), bytearray()
    try:
        for part in parts:
            gathered += part
            if len(gathered) >= PART_BYTES or turns.is_over:
                yield bytes(gathered)
                gathered.clear()
                await turns.give()
        yield bytes(gathered)
    finally:
        if room is not None:
            room.release()


def json_slices(value: Any) -> Iterator[bytes]:
    """The JSON of a value in parts; arrays in it are lists of numbers, and functions what they return.

    >>> b"".join(json_slices({"w": [np.array([0.5, 0.0])], "n": {}, "i": np.arange(3), "f": lambda: [1]}))
    b'{"w":[[0.5,0.0]],"n":{},"i":[0,1,2],"f":[1]}'
    """
    if callable(value):
        yield _encode(value())
    elif isinstance(value, np.ndarray):
        yield from _numbers(value)
    elif isinstance(value, dict):
        yield from _joined(
            b"{", ((b",%s:" % _encode(key), part) for key, part in value.items()), b"}", bool(value)
        )
    elif isinstance(value, list) and (len(value) > SLICE_NUMBERS or _is_nested(value)):
        yield from _list(value)
    else:
        yield _encode(value)


def _list(value: list[Any]) -> Iterator[bytes]:
    """A list may be long, as that of names: it is looked through in slices, too."""
    yield b"["
    for start in range(0, len(value), SLICE_NUMBERS):
        some = value[start : start + SLICE_NUMBERS]
        if _is_nested(some):
            yield from _joined(b"," if start else b"", ((b",", part) for part in some), b"", True)
        else:
            yield (b"," if start else b"") + _encode(some)[1:-1]
    yield b"]"


def _is_nested(value: list[Any]) -> bool:
    return any(isinstance(part, dict | np.ndarray) for part in value)


def _joined(
    opening: bytes, parts: Iterator[tuple[bytes, Any]], closing: bytes, some: bool
) -> Iterator[bytes]:
    yield opening
    before = 1 if some else 0  # the first comma is left out
    for lead, part in parts:
        yield lead[before:]
        before = 0
        yield from json_slices(part)
    yield closing


def _numbers(array: np.ndarray[Any, Any]) -> Iterator[bytes]:
    yield b"["
    for start in range(0, len(array), SLICE_NUMBERS):
        text = _encode(array[start : start + SLICE_NUMBERS].tolist())
        yield (b"," if start else b"") + text[1:-1]
    yield b"]"
