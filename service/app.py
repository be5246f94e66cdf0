"""create_app(settings): the only wiring."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING

import msgspec
from fastapi import Depends, FastAPI

from service.engine.engine import Engine
from service.engine.engine_settings import EngineSettings
from service.engine.fleet.attention import Attention
from service.engine.models.settings import ModelLimits
from service.engine.transfer.importing import Importing
from service.errors import StartError
from service.journal.protocol import Journal
from service.journals import make_journal
from service.runtime.byte_budget import ByteBudget
from service.runtime.cooperative import ended_tasks, keep_running
from service.runtime.timings import LoopPauses
from service.settings import Settings
from service.web import dashboard, problems
from service.web.access.gate import allowed_origins, key_ring, make_gate
from service.web.access.tenants import TenantCorrections, TenantRounds, check_path
from service.web.application import Application
from service.web.http.requests import RequestLimits, check_query
from service.web.routes import (
    audit_trail,
    challengers,
    corrections,
    docs,
    feed,
    health,
    history,
    jobs,
    metrics,
    models,
    pending,
    rounds,
    stats,
)
from service.web.routes.metrics import SpanCounts, Traffic
from service.web.routes.model_settings import ModelSettings
from service.web.routes.openapi import TAGS
from service.web.stream import endpoint as stream
from service.web.stream.held_answers import AnswerFiles

if TYPE_CHECKING:
    from service.web.tracing import Tracing

log = logging.getLogger(__name__)


def create_app(settings: Settings, *, guarded: bool = True) -> Application:
    """The whole service; StartError if its data directory or its cluster cannot be had.

    Not `guarded`, it needs no API key: for programs that run it within their own process.
    """
    ring = key_ring(settings) if guarded else None
    origins = allowed_origins(settings)
    gate = make_gate(settings, ring, origins) if guarded else None
    tracing = _tracing(settings)
    journal = make_journal(settings)
    limits = msgspec.convert(settings, ModelLimits, from_attributes=True)
    engine = Engine(
        journal,
        msgspec.convert(settings, EngineSettings, from_attributes=True),
        default_settings={kind: ModelSettings(features=kind).complete(limits) for kind in ("dense", "named")},
        tenants=ring.prefixes if ring is not None else lambda: (),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            await engine.open()
        except StartError as error:
            app.start_error = error
            raise
        if tracing is not None:
            tracing.start()
        background = [keep_running("measuring event-loop stalls", pauses.run())]
        if ring is not None:
            background.append(keep_running("watching the key file", ring.follow()))
        try:
            yield
        finally:  # a program that runs the app within its own process may have failed meanwhile
            for task in background:
                task.cancel()
            await _close(engine, journal, settings.shutdown_seconds)
            if tracing is not None:
                await tracing.close()

    async def why_unready() -> str | None:
        if not engine.is_open:
            return "the service is starting or stopping"
        if ended := ended_tasks():
            return f"restart this replica: it stopped {ended[0]}"
        await journal.refresh()
        if (why := journal.why_out_of_touch) is not None:
            return why
        if journal.trouble is not None:
            return journal.trouble
        if journal.lag_events > settings.lag_events_max:
            return f"this replica is {journal.lag_events} events behind the journal"
        return pauses.why_unready()

    pauses = LoopPauses(seconds_max=settings.loop_pause_seconds_max)
    held = ByteBudget(settings.connections_bytes_max)
    traffic = Traffic() if tracing is None else tracing.traffic()
    rounds_seen = TenantRounds(engine.rounds)
    follow = feed.Feed(engine.models, engine.fleet, engine.clock, clients_max=settings.feeds_max)
    held_answers = ByteBudget(settings.stream_answers_bytes_max, engine.fleet.tenants)
    # On the disk of the journal, if that is here: the system's directory may be in memory.
    answer_files = AnswerFiles(held_answers, settings.data if settings.journal == "sqlite" else None)
    collector = metrics.Collector(
        fleet=engine.fleet,
        journal=journal,
        traffic=traffic,
        pauses=pauses,
        spans=SpanCounts() if tracing is None else tracing.counts,
        memory_bytes=settings.memory_bytes,
        models_max=settings.metrics_models_max,
        queue_events_max=settings.queue_events_max,
        budgets={
            "pending": engine.fleet.waiting.budget,
            "models": engine.fleet.memory.models,
            "outcomes": engine.fleet.memory.outcomes,
            "stream_answers": held_answers,
            "connections": held,
            "copies": engine.copies,
        },
        fit_memory_bytes_max=settings.fit_memory_bytes_max,
        rebuilds=engine.rebuilds,
        jobs=engine.jobs,
        streams_open=lambda: streaming.open_count,
        evicted=engine.rounds.expiry.evicted,
    )
    request_limits = msgspec.convert(settings, RequestLimits, from_attributes=True)
    streaming = stream.StreamEndpoint(
        rounds_seen,
        engine.blocks,
        limits=request_limits,
        tenants=engine.fleet.tenants,
        answer_files=answer_files,
    )
    make: Callable[..., Application] = Application
    endpoints = rounds.endpoints(rounds_seen, request_limits)
    if tracing is not None:
        make = tracing.application
        endpoints = rounds.endpoints(rounds_seen, request_limits, tracing.noting_model)
    app = make(
        endpoints | rounds.endpoints_in_models(rounds_seen, endpoints, request_limits),
        streaming,
        traffic=traffic,
        gate=gate,
        origins=origins,
        with_keys=ring is not None,
        on_stop=follow.stop,
        limits=request_limits,
        held=held,
        title="Novikoff",
        version=version("novikoff"),
        description="Online learning over HTTP: predict, reveal, update.",
        openapi_tags=TAGS,
        lifespan=lifespan,
        telemetry={"tracing": False, "metrics": False, "logs": False},
        dependencies=[Depends(check_query), Depends(check_path)],
        docs_url=None,
        redoc_url=None,
    )
    importing = Importing(limits, engine.clock, memory_bytes_max=settings.fit_memory_bytes_max)
    app.include_router(
        models.router(engine.models, engine.past, engine.going_back, limits, importing, engine.copies)
    )
    app.include_router(corrections.router(TenantCorrections(engine.corrections), engine.forgetting))
    app.include_router(challengers.router(engine.models, engine.warm_challengers, limits, engine.clock))
    app.include_router(jobs.router(engine.jobs, engine.fits, engine.what_ifs, limits, engine.clock))
    app.include_router(audit_trail.router(engine.models))
    app.include_router(history.router(engine.record))
    app.include_router(pending.router(engine.waiting_list))
    app.include_router(stats.router(engine.models, engine.past, Attention(engine.fleet), engine.clock))
    app.include_router(feed.router(follow))
    app.include_router(metrics.router(collector, why_unready))
    app.include_router(health.router(why_unready, lambda: len(engine.fleet.set_aside)))
    app.include_router(dashboard.router())
    app.include_router(docs.router(app.title))
    problems.install(app)
    return app


def _tracing(settings: Settings) -> "Tracing | None":
    """What sends a span of each request, if there is an endpoint; only then OpenTelemetry is imported."""
    if not settings.otlp_endpoint:
        return None
    from service.web.tracing import Tracing

    return Tracing(
        settings.otlp_endpoint,
        share=settings.otlp_share,
        waiting_max=settings.otlp_spans_max,
        seconds_max=settings.otlp_seconds_max,
    )


async def _close(engine: Engine, journal: Journal, seconds: float) -> None:
    """Let the engine finish, however long it takes, as long as the disk takes what it is given."""
    closing = asyncio.create_task(engine.close())
    finished = -1
    while not closing.done() and journal.finished > finished:
        finished = journal.finished
        await asyncio.wait([closing], timeout=seconds)
    if not closing.done():
        log.critical("the disk has not responded for %g seconds: stopping without it", seconds)
        os._exit(1)
    closing.result()
