"""Plain ASGI endpoints for the routes that are called most.

No router, no middleware and no request object stand between the server and the handler: on 2 cores a
FastAPI route that does nothing takes longer than predicting does.
"""

import inspect
import re
from collections.abc import Awaitable, Callable
from typing import Generic, NoReturn, TypeVar

import msgspec

from service.errors import FieldError, InvalidRequest, NovikoffError
from service.web.bodies import Header, Receive, Scope, Send, read_body
from service.web.problems import MEDIA_TYPE, HttpError, headers_of, internal_error, problem

Body = TypeVar("Body")

JSON: Header = (b"content-type", b"application/json")
PROBLEM: Header = (b"content-type", MEDIA_TYPE.encode())


class Endpoint(Generic[Body]):
    """POST with a JSON body: decode, handle, answer; every error a problem document.

    `answer`, `statuses` and `replays` (whether a retry gets the first answer again) are for the OpenAPI
    document, and so is the handler's docstring.
    """

    def __init__(
        self,
        body: type[Body],
        answer: type,
        handle: Callable[[Body], Awaitable[tuple[object, tuple[Header, ...]]]],
        *,
        body_bytes_max: int,
        statuses: tuple[int, ...] = (),
        replays: bool = False,
    ) -> None:
        self.body = body
        self.answer = answer
        self.help = inspect.getdoc(handle)
        self.statuses = statuses
        self.replays = replays
        self._decode = msgspec.json.Decoder(body).decode
        self._encode = msgspec.json.Encoder().encode
        self._handle = handle
        self._body_bytes_max = body_bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Answer a request; the status that it was answered with."""
        status = 200
        headers: tuple[Header, ...]
        try:
            body = await read_body(scope, receive, self._body_bytes_max)
            try:
                request = self._decode(body)
            except msgspec.MsgspecError as error:
                raise_problem(error)
            answer, more = await self._handle(request)
            content = self._encode(answer)
            headers = (JSON, *more)
        except Exception as error:
            status, headers, content = as_problem(error)
        await respond(send, status, headers, content)
        return status


async def respond(send: Send, status: int, headers: tuple[Header, ...], content: bytes) -> None:
    length = (b"content-length", b"%d" % len(content))
    await send({"type": "http.response.start", "status": status, "headers": (*headers, length)})
    await send({"type": "http.response.body", "body": content})


def as_problem(error: Exception) -> tuple[int, tuple[Header, ...], bytes]:
    """The status, the headers and the content that tell a client of an error."""
    if isinstance(error, NovikoffError):
        status, content = problem(error.code, error.detail, error.fields)
    else:
        status, content = problem(*internal_error(error))
    return status, (PROBLEM, *((k.encode(), v.encode()) for k, v in headers_of(status).items())), content


_PATH = re.compile(r"(?P<message>.*?)(?: - at `(?P<path>.*)`)?", re.DOTALL)
_FIELD = re.compile(r"Object (?:missing required|contains unknown) field `(?P<field>.*)`", re.DOTALL)


def raise_problem(error: msgspec.MsgspecError) -> NoReturn:
    """A decoder's complaint as ours, with the field that it is about."""
    if not isinstance(error, msgspec.ValidationError):
        raise HttpError("malformed-json", "the body is not valid JSON") from None
    found = _PATH.fullmatch(str(error))
    assert found is not None
    message, path = found["message"], (found["path"] or "").removeprefix("$").lstrip(".")
    named = _FIELD.fullmatch(message)
    if named is not None:
        field = f"{path}.{named['field']}".lstrip(".")[:200]
        message = "is missing" if "missing" in message else "is not known here"
    else:
        field = path or "body"
        message = message[:1].lower() + message[1:].replace("`", "")
    raise InvalidRequest(f"{field}: {message}", (FieldError(field, message),)) from None
