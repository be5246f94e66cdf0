"""Plain ASGI endpoints for the routes that are called most.

No router, no middleware and no request object stand between the server and the handler: on 2 cores a
FastAPI route that does nothing takes longer than predicting does.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import msgspec

from service.engine.decoding import UNDECODABLE, raise_problem
from service.errors import InvalidRequest, NovikoffError
from service.web.access.declarations import Access
from service.web.access.rate_limits import charge
from service.web.http.bodies import Header, Receive, Scope, Send, read_body
from service.web.http.security_headers import NOSNIFF
from service.web.problems import MEDIA_TYPE, HttpError, headers_of, internal_error, problem_document

Body = TypeVar("Body")

JSON: Header = (b"content-type", b"application/json")
PROBLEM: Header = (b"content-type", MEDIA_TYPE.encode())


NO_HEADERS: tuple[Header, ...] = ()

ITEMS_UNKNOWN = "unknown field `items`"
"""What the decoder says of a request that is several in one."""


class Items(msgspec.Struct, forbid_unknown_fields=True):
    items: list[msgspec.Raw]


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
        access: Access,
        body_bytes_max: int,
        items_max: int,
        statuses: tuple[int, ...] = (),
        replays: bool = False,
    ) -> None:
        self.access = access
        self.body = body
        self.answer = answer
        self.help = inspect.getdoc(handle)
        self.statuses = statuses
        self.replays = replays
        self._decode = msgspec.json.Decoder(body).decode
        self._items_max = items_max
        self._encode = msgspec.json.Encoder().encode
        self._handle = handle
        self._body_bytes_max = body_bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Answer a request; the status that it was answered with."""
        status = 200
        body = b""
        headers: tuple[Header, ...]
        answer: object
        try:
            body = await read_body(scope, receive, self._body_bytes_max)
            try:
                request = self._decode(body)
            except UNDECODABLE as error:
                if ITEMS_UNKNOWN not in str(error):
                    raise_problem(error)
                answer, more = await self._many(body), NO_HEADERS
            else:
                answer, more = await self._handle(request)
            content = self._encode(answer)
            headers = (JSON, *more)
        except Exception as error:
            status, headers, content = as_problem(error, body)
        await respond(send, status, headers, content)
        return status

    async def _many(self, body: bytes) -> dict[str, list[object]]:
        """Several requests in one: an answer each, in their order; a bad one spoils only itself."""
        try:
            items = msgspec.json.decode(body, type=Items).items
        except UNDECODABLE as error:
            raise_problem(error)
        if len(items) > self._items_max:
            raise InvalidRequest.at("items", f"at most {self._items_max} are taken at once")
        charge(len(items) - 1)
        # Each runs up to its journal entry before the next begins, so they keep their order and share a
        # commit; but a model's first item may have to wait for the model, and the others wait with it.
        tasks: list[asyncio.Task[object]] = []
        models: set[str | None] = set()
        for item in items:
            try:
                request = self._decoded(item)
            except Exception as error:
                tasks.append(asyncio.create_task(_failed(error, item)))
                continue
            tasks.append(asyncio.create_task(self._one_of_many(request, item)))
            model = getattr(request, "model", None)
            if model not in models:
                models.add(model)
                await asyncio.wait(tasks[-1:])
        return {"items": await asyncio.gather(*tasks)}

    async def _one_of_many(self, request: Body, item: msgspec.Raw) -> object:
        try:
            answer, _ = await self._handle(request)
        except Exception as error:
            return await _failed(error, item)
        return answer

    def _decoded(self, item: msgspec.Raw) -> Body:
        try:
            return self._decode(item)
        except UNDECODABLE as error:
            raise_problem(error)


async def _failed(error: Exception, item: msgspec.Raw) -> object:
    return {"error": document_of(error, bytes(item))}


async def respond(send: Send, status: int, headers: tuple[Header, ...], content: bytes) -> None:
    length = (b"content-length", b"%d" % len(content))
    await send({"type": "http.response.start", "status": status, "headers": (*headers, NOSNIFF, length)})
    await send({"type": "http.response.body", "body": content})


async def respond_with(send: Send, error: Exception) -> int:
    """Tell a client of an error; the status."""
    status, headers, content = as_problem(error)
    await respond(send, status, headers, content)
    return status


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
