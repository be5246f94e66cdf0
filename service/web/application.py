"""The app that uvicorn calls: FastAPI, with a short way to the busiest routes."""

from asyncio import CancelledError
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from time import perf_counter
from typing import Any

from fastapi import FastAPI
from starlette.routing import BaseRoute, Route
from starlette.types import Message, Receive, Scope, Send

from service.engine.decoding import check_json
from service.errors import NovikoffError, StartError
from service.runtime import logs
from service.runtime.byte_budget import ByteBudget
from service.web.access.declarations import Body, RouteTable, access
from service.web.access.gate import Gate, across_origins
from service.web.access.keys import Role
from service.web.http.headers import log_trace_of, request_id_of, secured, with_request_id
from service.web.http.requests import (
    JSON_ONLY,
    JSON_OR_LINES,
    WHOLE_BODY,
    RequestLimits,
    has_body,
    read_body,
    replay,
)
from service.web.http.responses import HEAD_ONLY, respond_with, stopped
from service.web.routes import openapi
from service.web.routes.endpoint import Endpoint
from service.web.routes.metrics import Traffic, Watched
from service.web.routes.rounds import MODEL_PATH, PREFIX
from service.web.stream import endpoint as stream

Fast = Endpoint[Any] | stream.StreamEndpoint


class Application(FastAPI):
    """A FastAPI app whose busiest routes are reached without its router and middleware.

    `on_stop` is called as soon as the server gets a stop signal, before it waits for requests under way.
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
        limits: RequestLimits,
        held: ByteBudget,
        **options: Any,
    ) -> None:
        # The routes below are the same endpoints: they answer wrong methods, and requests under a prefix.
        fast: dict[str, Fast] = {
            **endpoints,
            "/stream": streaming,
            f"{PREFIX}/stream": streaming,
        }
        routes = (Route(path, endpoint, methods=["POST"]) for path, endpoint in fast.items())
        super().__init__(routes=list[BaseRoute](routes), **options)
        for route in self.routes:
            if isinstance(route, Route) and route.path == self.openapi_url:  # FastAPI has made it
                access(Role.OPEN)(route.endpoint)
        self._described = endpoints
        self._endpoints = {path: endpoint for path, endpoint in fast.items() if "{" not in path}
        self._of_models = {path: endpoint for path, endpoint in fast.items() if "{" in path}
        self._traffic = traffic
        self._gate = gate
        self._with_keys = with_keys
        self._entry = across_origins(self._dispatch, origins) if origins else self._dispatch
        self._inflated_ratio_max = limits.inflated_ratio_max
        self._bodies = {
            Body.JSON: (limits.body_bytes_max, JSON_ONLY),
            Body.UPLOAD: (limits.upload_bytes_max, JSON_OR_LINES),
        }
        self._document: dict[str, Any] | None = None
        self.on_stop = on_stop
        self.start_error: StartError | None = None
        self.held = held
        """What its connections may hold, for the server."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._entry(scope, receive, send)
        except CancelledError:  # by uvicorn: it stops, and has waited for requests under way for long enough
            if scope["type"] != "http":
                raise
            with suppress(RuntimeError):  # an answer has begun, and stays as it is
                await respond_with(send, stopped())

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, self._without_traceback(send))
            return
        began = perf_counter()
        endpoint, path = None, scope["path"]
        if scope["method"] == "POST":
            endpoint = self._endpoints.get(path)
            if endpoint is None:
                endpoint, path = self._find_in_model(scope)
        request_id = None
        if WHOLE_BODY not in scope:
            request_id = request_id_of(scope["headers"])
            log_trace_of(scope["headers"])
        if endpoint is not None:
            if request_id is not None:
                send = with_request_id(send, request_id)
            try:
                if self._gate is not None:
                    send = self._gate.admit(scope, endpoint.access, send)
                status = await endpoint(scope, receive, send)
            except NovikoffError as error:
                status = await respond_with(send, error)
            self._traffic.observe("POST", path, status, perf_counter() - began)
            return
        send = with_request_id(send, request_id or logs.new_request_id().encode())
        watched = Watched(secured(send))
        route = await self._call_slowly(scope, receive, watched)
        self._traffic.observe(scope["method"], route, watched.status, perf_counter() - began)

    def _find_in_model(self, scope: Scope) -> tuple[Fast | None, str]:
        """The endpoint of a path with a model in it, and the path as documents write it, if it is such a path."""
        found = MODEL_PATH.fullmatch(scope["path"])
        if found is None:
            return None, ""
        scope["path_params"] = {"model": found[1]}
        path = f"{PREFIX}/{found[2]}"
        return self._of_models[path], path

    def _without_traceback(self, send: Send) -> Send:
        """Leave a StartError to the caller that started the app: it is one line."""

        async def told(message: Message) -> None:
            if message["type"] == "lifespan.startup.failed" and self.start_error is not None:
                message = {**message, "message": ""}
            await send(message)

        return told

    async def _call_slowly(self, scope: Scope, receive: Receive, send: Send) -> str:
        """Through FastAPI, with a body that is bounded and JSON; the route that it came to."""
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET", HEAD_ONLY: True}  # the protocol sends no body
        declared, route = self.route_table.find(scope)
        try:
            if self._gate is not None:
                send = self._gate.admit(scope, declared, send)
            if declared.body in self._bodies and has_body(scope["headers"]):
                limit, accepted = self._bodies[declared.body]
                body = await read_body(
                    scope, receive, limit, accepted, inflated_ratio_max=self._inflated_ratio_max
                )
                if body and declared.body is Body.JSON:
                    check_json(body)
                receive = replay(body, receive)
        except NovikoffError as error:
            await respond_with(send, error)
            return route
        with suppress(
            Exception
        ):  # the app has logged and answered it, and raises it for servers that do neither
            await super().__call__(scope, receive, send)
        return getattr(scope.get("route"), "path", route)

    @cached_property
    def route_table(self) -> RouteTable:
        """What the routes declare, for the gate, the bodies and the document: all have to be there by now."""
        return RouteTable(self.routes)

    def openapi(self) -> dict[str, Any]:
        if self._document is None:
            self._document = openapi.document(
                self, self._described, self.route_table.declared, with_keys=self._with_keys
            )
        return self._document
