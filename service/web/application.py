"""The app that uvicorn calls: FastAPI, with a short way to the busiest routes."""

from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import Any

from fastapi import FastAPI
from starlette.routing import BaseRoute, Route
from starlette.types import Message, Receive, Scope, Send

from service import logs
from service.errors import NovikoffError, StartError
from service.web.access.gate import ROUND, Gate
from service.web.access.guarding import across_origins
from service.web.http import request_ids
from service.web.http.bodies import JSON_ONLY, JSON_OR_LINES, has_body, read_body, replay
from service.web.http.endpoint import Endpoint, respond_with
from service.web.http.security_headers import secured
from service.web.http.traffic import Traffic, Watched
from service.web.routes import openapi
from service.web.stream import endpoint as stream


class Application(FastAPI):
    """A FastAPI app whose busiest routes are reached without its router and middleware.

    `on_stop` is called as soon as the server is told to stop, before it waits for requests under way.
    """

    def __init__(
        self,
        endpoints: dict[str, Endpoint[Any]],
        streaming: stream.StreamEndpoint,
        *,
        traffic: Traffic,
        gate: Gate | None,
        origins: frozenset[str],
        with_keys: bool,
        on_stop: Callable[[], None],
        body_bytes_max: int,
        upload_bytes_max: int,
        **options: Any,
    ) -> None:
        # The routes below are the same endpoints: they answer wrong methods, and requests under a prefix.
        fast: dict[str, Endpoint[Any] | stream.StreamEndpoint] = {**endpoints, "/stream": streaming}
        routes = (Route(path, endpoint, methods=["POST"]) for path, endpoint in fast.items())
        super().__init__(routes=list[BaseRoute](routes), **options)
        self._described = endpoints
        self._endpoints = fast
        self._traffic = traffic
        self._gate = gate
        self._with_keys = with_keys
        self._entry = across_origins(self._dispatch, origins) if origins else self._dispatch
        self._body_bytes_max = body_bytes_max
        self._upload_bytes_max = upload_bytes_max
        self._document: dict[str, Any] | None = None
        self.on_stop = on_stop
        self.start_error: StartError | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._entry(scope, receive, send)

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, self._without_traceback(send))
            return
        began = perf_counter()
        endpoint = self._endpoints.get(scope["path"]) if scope["method"] == "POST" else None
        request_id = request_ids.sent(scope["headers"])
        if endpoint is not None:
            if request_id is not None:
                send = request_ids.identified(send, request_id)
            try:
                if self._gate is not None:
                    send = self._gate.admit(scope, ROUND, send)
                status = await endpoint(scope, receive, send)
            except NovikoffError as error:
                status = await respond_with(send, error)
            self._traffic.observe("POST", scope["path"], status, perf_counter() - began)
            return
        identified = request_ids.identified(send, request_id or logs.new_request_id().encode())
        watched = Watched(secured(identified))
        route = await self._call_slowly(scope, receive, watched)
        self._traffic.observe(scope["method"], route, watched.status, perf_counter() - began)

    def _without_traceback(self, send: Send) -> Send:
        """Leave a StartError to whoever has started the app: it is one line."""

        async def told(message: Message) -> None:
            if message["type"] == "lifespan.startup.failed" and self.start_error is not None:
                message = {**message, "message": ""}
            await send(message)

        return told

    async def _call_slowly(self, scope: Scope, receive: Receive, send: Send) -> str:
        """Through FastAPI, with a body that is bounded and JSON; the route that it came to."""
        route = "unknown"
        if scope["method"] == "HEAD" and scope["path"] != "/feed":  # whose answer has no end
            scope = {**scope, "method": "GET"}  # the protocol sends the head of the answer and no more
        try:
            if self._gate is not None:
                needed = self._gate.needed(scope)
                route = needed.route
                send = self._gate.admit(scope, needed, send)
            if has_body(scope["headers"]):
                upload = scope["method"] == "PUT" or scope["path"].endswith("/fit")
                limit = self._upload_bytes_max if upload else self._body_bytes_max
                accepted = JSON_OR_LINES if upload else JSON_ONLY
                receive = replay(await read_body(scope, receive, limit, accepted), receive)
        except NovikoffError as error:
            await respond_with(send, error)
            return route
        with suppress(
            Exception
        ):  # the app has logged and answered it, and raises it for servers that do neither
            await super().__call__(scope, receive, send)
        return getattr(scope.get("route"), "path", route)

    def openapi(self) -> dict[str, Any]:
        if self._document is None:
            self._document = openapi.document(self, self._described, with_keys=self._with_keys)
        return self._document
