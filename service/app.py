"""create_app(settings): the only wiring."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from time import perf_counter
from typing import Any

from fastapi import FastAPI
from starlette.routing import BaseRoute, Route
from starlette.types import Message, Receive, Scope, Send

from service import logs
from service.background import ended_tasks, keep_running
from service.engine.engine import Engine, Rules
from service.errors import NovikoffError, StartError
from service.guarding import across_origins, allowed_origins, key_ring, make_gate
from service.journal.protocol import Journal
from service.journals import make_journal
from service.settings import Settings
from service.web import (
    dashboard,
    docs,
    feed,
    health,
    jobs,
    metrics,
    models,
    openapi,
    problems,
    request_ids,
    rounds,
    stats,
    stream,
)
from service.web.bodies import JSON_ONLY, JSON_OR_LINES, has_body, read_body, replay
from service.web.fast import Endpoint, respond_with
from service.web.gate import ROUND, Gate
from service.web.held_answers import DiskRoom
from service.web.model_settings import ModelLimits, ModelSettings
from service.web.security_headers import secured
from service.web.tenants import TenantBlocks, TenantJobs, TenantModels, TenantRounds
from service.web.traffic import Traffic, Watched

log = logging.getLogger(__name__)


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


def create_app(settings: Settings, *, guarded: bool = True) -> Application:
    """The whole service; StartError if its data directory or its cluster cannot be had.

    Not `guarded`, it asks nobody for a key: for whoever runs it within a process of their own.
    """
    ring = key_ring(settings) if guarded else None
    origins = allowed_origins(settings)
    gate = make_gate(settings, ring, origins) if guarded else None
    journal = make_journal(settings)
    limits = ModelLimits(
        names_max=min(settings.names_max, settings.weights_max),
        classes_max=settings.classes_max,
        covariance_dimension_max=settings.covariance_dimension_max,
        weights_max=settings.weights_max,
    )
    engine = Engine(
        journal,
        Rules(
            default_settings=_default_settings(limits) if settings.auto_create else {},
            wait_for_predictions=settings.durability_of_predictions == "strict",
            pending_ttl_seconds=settings.pending_ttl_seconds,
            pending_max=settings.pending_max,
            pending_total_max=settings.pending_total_max,
            features_max=settings.features_max,
            feature_abs_max=settings.feature_abs_max,
            jobs_max=settings.jobs_max,
            models_max=settings.models_max,
            models_loaded_max=settings.models_loaded_max,
            snapshot_every_events=settings.snapshot_every_events,
        ),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            await engine.open()
        except StartError as error:
            app.start_error = error
            raise
        following = keep_running("following the keys", ring.follow()) if ring is not None else None
        try:
            yield
        finally:  # whoever runs the app within a process of their own may have failed meanwhile
            if following is not None:
                following.cancel()
            await _close(engine, journal, settings.shutdown_seconds)

    async def why_unready() -> str | None:
        if not engine.is_open:
            return "the service is starting or stopping"
        if ended := ended_tasks():
            return f"this replica has to be restarted, since it has stopped {ended[0]}"
        await journal.look()
        if (why := journal.why_out_of_touch) is not None:
            return why
        if journal.lag_events > settings.lag_events_max:
            return f"this replica is {journal.lag_events} events behind the journal"
        return None

    traffic = Traffic()
    models_seen = TenantModels(engine.models)
    rounds_seen = TenantRounds(engine.rounds)
    follow = feed.Feed(models_seen, engine.fleet, engine.clock, clients_max=settings.feeds_max)
    collector = metrics.Collector(
        engine.fleet,
        journal,
        traffic,
        models_max=settings.metrics_models_max,
        queue_events_max=settings.queue_events_max,
    )
    streaming = stream.StreamEndpoint(
        rounds_seen,
        TenantBlocks(engine.blocks),
        line_bytes_max=settings.line_bytes_max,
        upload_bytes_max=settings.upload_bytes_max,
        streams_max=settings.streams_max,
        answers_room=_answers_room(settings),
    )
    app = Application(
        rounds.endpoints(rounds_seen, body_bytes_max=settings.body_bytes_max, items_max=settings.items_max),
        streaming,
        traffic=traffic,
        gate=gate,
        origins=origins,
        with_keys=ring is not None,
        on_stop=follow.stop,
        body_bytes_max=settings.body_bytes_max,
        upload_bytes_max=settings.upload_bytes_max,
        title="Novikoff",
        version=version("novikoff"),
        description="Online learning over HTTP: predict, reveal, update.",
        lifespan=lifespan,
        telemetry={"tracing": False, "metrics": False, "logs": False},
        docs_url=None,
        redoc_url=None,
    )
    app.include_router(models.router(models_seen, limits))
    app.include_router(jobs.router(TenantJobs(engine.jobs), engine.clock))
    app.include_router(stats.router(models_seen, engine.clock))
    app.include_router(feed.router(follow))
    app.include_router(metrics.router(collector, engine.fleet))
    app.include_router(health.router(why_unready))
    app.include_router(dashboard.router())
    app.include_router(docs.router(app.title))
    problems.install(app)
    return app


def _answers_room(settings: Settings) -> DiskRoom:
    """On the disk of the journal, if that is here: the system's directory may be in memory."""
    directory = settings.data if settings.journal == "sqlite" else None
    return DiskRoom(settings.stream_answers_bytes_max, directory)


async def _close(engine: Engine, journal: Journal, seconds: float) -> None:
    """Let the engine finish, however long it takes, as long as the disk takes what it is given."""
    closing = asyncio.create_task(engine.close())
    finished = -1
    while not closing.done() and journal.finished > finished:
        finished = journal.finished
        await asyncio.wait([closing], timeout=seconds)
    if not closing.done():
        log.critical("the disk has taken nothing for %g seconds: ending without it", seconds)
        os._exit(1)
    closing.result()


def _default_settings(limits: ModelLimits) -> dict[str, dict[str, Any]]:
    """What a model is made of that a first example makes, by the kind of its features."""
    return {kind: ModelSettings(features=kind).complete(limits) for kind in ("dense", "named")}
