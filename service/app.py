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
from starlette.types import Receive, Scope, Send

from service import logs
from service.engine.engine import Engine, Rules
from service.journal.protocol import Journal
from service.journals import make_journal
from service.settings import Settings
from service.web import (
    dashboard,
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
from service.web.fast import Endpoint, as_problem, respond
from service.web.model_settings import ModelLimits, ModelSettings
from service.web.problems import HttpError
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
        self._body_bytes_max = body_bytes_max
        self._upload_bytes_max = upload_bytes_max
        self._document: dict[str, Any] | None = None
        self.on_stop = on_stop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        began = perf_counter()
        endpoint = self._endpoints.get(scope["path"]) if scope["method"] == "POST" else None
        request_id = request_ids.sent(scope["headers"])
        if endpoint is not None:
            if request_id is not None:
                send = request_ids.identified(send, request_id)
            status = await endpoint(scope, receive, send)
            self._traffic.observe("POST", scope["path"], status, perf_counter() - began)
            return
        watched = Watched(request_ids.identified(send, request_id or logs.new_request_id().encode()))
        await self._call_slowly(scope, receive, watched)
        route = getattr(scope.get("route"), "path", "unknown")
        self._traffic.observe(scope["method"], route, watched.status, perf_counter() - began)

    async def _call_slowly(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Through FastAPI, with a body that is bounded and JSON."""
        if has_body(scope["headers"]):
            upload = scope["method"] == "PUT" or scope["path"].endswith("/fit")
            limit = self._upload_bytes_max if upload else self._body_bytes_max
            accepted = JSON_OR_LINES if upload else JSON_ONLY
            try:
                receive = replay(await read_body(scope, receive, limit, accepted), receive)
            except HttpError as error:
                await respond(send, *as_problem(error))
                return
        with suppress(
            Exception
        ):  # the app has logged and answered it, and raises it for servers that do neither
            await super().__call__(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        if self._document is None:
            self._document = openapi.document(self, self._described)
        return self._document


def create_app(settings: Settings) -> Application:
    """The whole service; StartError if its data directory or its cluster cannot be had."""
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
            features_max=settings.features_max,
            feature_abs_max=settings.feature_abs_max,
            jobs_max=settings.jobs_max,
            models_loaded_max=settings.models_loaded_max,
            snapshot_every_events=settings.snapshot_every_events,
        ),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await engine.open()
        yield
        await _close(engine, journal, settings.shutdown_seconds)

    def why_unready() -> str | None:
        if not engine.is_open:
            return "the service is starting or stopping"
        if journal.lag_events > settings.lag_events_max:
            return f"this replica is {journal.lag_events} events behind the journal"
        return None

    traffic = Traffic()
    follow = feed.Feed(engine.models, engine.fleet, engine.clock, clients_max=settings.feeds_max)
    collector = metrics.Collector(
        engine.fleet,
        journal,
        traffic,
        models_max=settings.metrics_models_max,
        queue_events_max=settings.queue_events_max,
    )
    streaming = stream.StreamEndpoint(
        engine.rounds,
        engine.blocks,
        line_bytes_max=settings.line_bytes_max,
        upload_bytes_max=settings.upload_bytes_max,
        streams_max=settings.streams_max,
    )
    app = Application(
        rounds.endpoints(engine.rounds, body_bytes_max=settings.body_bytes_max, items_max=settings.items_max),
        streaming,
        traffic=traffic,
        on_stop=follow.stop,
        body_bytes_max=settings.body_bytes_max,
        upload_bytes_max=settings.upload_bytes_max,
        title="Novikoff",
        version=version("novikoff"),
        description="Online learning over HTTP: predict, reveal, update.",
        lifespan=lifespan,
        telemetry={"tracing": False, "metrics": False, "logs": False},
        redoc_url=None,
    )
    app.include_router(models.router(engine.models, limits))
    app.include_router(jobs.router(engine.jobs, engine.clock))
    app.include_router(stats.router(engine.models, engine.clock))
    app.include_router(feed.router(follow))
    app.include_router(metrics.router(collector))
    app.include_router(health.router(why_unready))
    app.include_router(dashboard.router())
    problems.install(app)
    return app


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
