"""create_app(settings): the only wiring."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from service.engine.engine import Engine, Rules
from service.journal.sqlite import SqliteJournal
from service.settings import Settings
from service.web import health, models, openapi, problems, rounds, stats
from service.web.bodies import has_body, read_body, replay
from service.web.fast import Endpoint, as_problem, respond
from service.web.model_settings import default_settings
from service.web.problems import HttpError


class Application(FastAPI):
    """A FastAPI app whose busiest routes are reached without its router and middleware."""

    def __init__(self, endpoints: dict[str, Endpoint[Any]], *, body_bytes_max: int, **options: Any) -> None:
        # The routes below are the same endpoints: they answer wrong methods, and requests under a prefix.
        routes = (Route(path, endpoint, methods=["POST"]) for path, endpoint in endpoints.items())
        super().__init__(routes=list[BaseRoute](routes), **options)
        self._endpoints = endpoints
        self._body_bytes_max = body_bytes_max
        self._document: dict[str, Any] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            endpoint = self._endpoints.get(scope["path"])
            if endpoint is not None:
                await endpoint(scope, receive, send)
                return
        if scope["type"] == "http" and has_body(scope["headers"]):
            try:
                receive = replay(await read_body(scope, receive, self._body_bytes_max), receive)
            except HttpError as error:
                await respond(send, *as_problem(error))
                return
        await super().__call__(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        if self._document is None:
            self._document = openapi.document(self, self._endpoints)
        return self._document


def create_app(settings: Settings) -> Application:
    """The whole service; StartError if its data directory cannot be had."""
    journal = SqliteJournal(
        settings.data,
        durability=settings.durability,
        queue_events_max=settings.queue_events_max,
        events_kept_max=settings.events_kept_max,
        expired_remembered_max=settings.pending_max,
    )
    engine = Engine(
        journal,
        Rules(
            default_settings=default_settings() if settings.auto_create else None,
            wait_for_predictions=settings.durability_of_predictions == "strict",
            pending_ttl_seconds=settings.pending_ttl_seconds,
            pending_max=settings.pending_max,
            features_max=settings.features_max,
            feature_abs_max=settings.feature_abs_max,
            models_loaded_max=settings.models_loaded_max,
            snapshot_every_events=settings.snapshot_every_events,
        ),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await engine.open()
        yield
        await engine.close()

    app = Application(
        rounds.endpoints(engine.rounds, body_bytes_max=settings.body_bytes_max),
        body_bytes_max=settings.body_bytes_max,
        title="Novikoff",
        version=version("novikoff"),
        description="Online learning over HTTP: predict, reveal, update.",
        lifespan=lifespan,
        telemetry={"tracing": False, "metrics": False, "logs": False},
        redoc_url=None,
    )
    app.include_router(models.router(engine.models))
    app.include_router(stats.router(engine.models))
    app.include_router(health.router(lambda: engine.is_open))
    problems.install(app)
    return app
