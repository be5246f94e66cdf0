"""Plain ASGI endpoints for the routes that are called most.

No router, no middleware and no request object stand between the server and the handler: on 2 cores a
FastAPI route that does nothing takes longer than predicting does.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import msgspec

from service.engine.decoding import UNDECODABLE, raise_problem
from service.errors import InvalidRequest
from service.web.access.declarations import Access
from service.web.access.rate_limits import charge
from service.web.http.requests import (
    WHOLE_BODY,
    Header,
    Receive,
    RequestLimits,
    Scope,
    Send,
    parameters,
    read_body,
)
from service.web.http.responses import JSON, NO_HEADERS, as_problem, document_of, respond

Body = TypeVar("Body")

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
        limits: RequestLimits,
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
        self._encode = msgspec.json.Encoder().encode
        self.handle = handle
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Answer a request; the status that it was answered with."""
        status = 200
        body = b""
        headers: tuple[Header, ...]
        answer: object
        try:
            if scope["query_string"]:
                parameters(scope["query_string"], known=())
            body = scope.get(WHOLE_BODY, b"")
            if not 0 < len(body) <= self._limits.body_bytes_max:
                body = await read_body(
                    scope,
                    receive,
                    self._limits.body_bytes_max,
                    inflated_ratio_max=self._limits.inflated_ratio_max,
                )
            try:
                request = self._decode(body)
            except UNDECODABLE as error:
                if ITEMS_UNKNOWN not in str(error):
                    raise_problem(error, self.body)
                answer, more = await self._many(body), NO_HEADERS
            else:
                answer, more = await self.handle(request)
            content = self._encode(answer)
            headers = (JSON, *more)
        except Exception as error:
            status, headers, content = as_problem(error, body)
        await respond(send, status, headers, content, at_once=WHOLE_BODY in scope)
        return status

    async def _many(self, body: bytes) -> dict[str, list[object]]:
        """Several requests in one: an answer each, in their order; a bad one spoils only itself."""
        try:
            items = msgspec.json.decode(body, type=Items).items
        except UNDECODABLE as error:
            raise_problem(error)
        if len(items) > self._limits.items_max:
            raise InvalidRequest.at("items", f"at most {self._limits.items_max} are taken at once")
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
            answer, _ = await self.handle(request)
        except Exception as error:
            return await _failed(error, item)
        return answer

    def _decoded(self, item: msgspec.Raw) -> Body:
        try:
            return self._decode(item)
        except UNDECODABLE as error:
            raise_problem(error, self.body)


async def _failed(error: Exception, item: msgspec.Raw) -> object:
    return {"error": document_of(error, bytes(item))}
