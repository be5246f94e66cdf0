"""create_app(settings): the only wiring."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING

import msgspec
from fastapi import FastAPI

from service.engine.engine import Engine
from service.engine.engine_settings import EngineSettings
from service.engine.fleet.attention import Attention
from service.engine.models.settings import ModelLimits
from service.engine.transfer.importing import Importing
from service.errors import StartError
from service.journal.protocol import Journal
from service.journals import make_journal
from service.runtime.byte_budget import Tenants
from service.runtime.cooperative import ended_tasks, keep_running
from service.runtime.timings import LoopPauses
from service.settings import Settings
from service.web import dashboard, problems
from service.web.access.guarding import allowed_origins, key_ring, make_gate
from service.web.access.tenant_corrections import TenantCorrections
from service.web.access.tenant_history import TenantHistory
from service.web.access.tenant_jobs import TenantJobs
from service.web.access.tenant_lists import TenantAttention, TenantWaitingList
from service.web.access.tenants import TenantBlocks, TenantModels, TenantRounds
from service.web.application import Application
from service.web.http.held_bytes import HeldBytes
from service.web.http.queries import KNOWN_ONLY
from service.web.http.traffic import SpanCounts, Traffic
from service.web.routes import (
    attention,
    challengers,
    corrections,
    docs,
    feed,
    going_back,
    health,
    history,
    jobs,
    metrics,
    model_paths,
    models,
    pending,
    rounds,
    stats,
    what_if,
    whoami,
)
from service.web.routes.model_settings import ModelSettings
from service.web.stream import endpoint as stream
from service.web.stream.held_answers import DiskRoom

if TYPE_CHECKING:
    from service.web.tracing import Tracing

log = logging.getLogger(__name__)


def create_app(settings: Settings, *, guarded: bool = True) -> Application:
    """The whole service; StartError if its data directory or its cluster cannot be had.

    Not `guarded`, it asks nobody for a key: for whoever runs it within a process of their own.
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
        background = [keep_running("measuring pauses", pauses.run())]
        if ring is not None:
            background.append(keep_running("following the keys", ring.follow()))
        try:
            yield
        finally:  # whoever runs the app within a process of their own may have failed meanwhile
            for task in background:
                task.cancel()
            await _close(engine, journal, settings.shutdown_seconds)
            if tracing is not None:
                await tracing.close()

    async def why_unready() -> str | None:
        if not engine.is_open:
            return "the service is starting or stopping"
        if ended := ended_tasks():
            return f"this replica has to be restarted, since it has stopped {ended[0]}"
        await journal.refresh()
        if (why := journal.why_out_of_touch) is not None:
            return why
        if journal.trouble is not None:
            return journal.trouble
        if journal.lag_events > settings.lag_events_max:
            return f"this replica is {journal.lag_events} events behind the journal"
        return pauses.why_unready()

    pauses = LoopPauses(seconds_max=settings.loop_pause_seconds_max)
    held = HeldBytes(
        connection_bytes_max=settings.connection_bytes_max,
        connections_bytes_max=settings.connections_bytes_max,
    )
    traffic = Traffic() if tracing is None else tracing.traffic()
    models_seen = TenantModels(engine.models)
    history_seen = TenantHistory(engine.past, engine.going_back, engine.record)
    rounds_seen = TenantRounds(engine.rounds)
    follow = feed.Feed(models_seen, engine.fleet, engine.clock, clients_max=settings.feeds_max)
    answers_room = _answers_room(settings, engine.fleet.tenants)
    collector = metrics.Collector(
        engine.fleet,
        journal,
        traffic,
        pauses,
        SpanCounts() if tracing is None else tracing.counts,
        memory_bytes=settings.memory_bytes,
        models_max=settings.metrics_models_max,
        queue_events_max=settings.queue_events_max,
        budgets={
            "pending": metrics.Budget(lambda: engine.fleet.waiting.budget.bytes, settings.pending_bytes_max),
            "models": metrics.Budget(
                lambda: engine.fleet.memory.models.bytes, settings.models_loaded_bytes_max
            ),
            "outcomes": metrics.Budget(
                lambda: engine.fleet.memory.outcomes.bytes, settings.outcomes_bytes_max
            ),
            "stream_answers": metrics.Budget(lambda: answers_room.used_bytes, answers_room.bytes_max),
            "connections": metrics.Budget(lambda: held.total, held.connections_bytes_max),
            "fit": metrics.Budget(None, settings.fit_memory_bytes_max),
            "copies": metrics.Budget(lambda: engine.copies.bytes, engine.copies.bytes_max),
        },
        rebuilds=engine.rebuilds,
        jobs=engine.jobs,
        streams_open=lambda: streaming.open_count,
        evicted=engine.rounds.expiry.evicted,
    )
    streaming = stream.StreamEndpoint(
        rounds_seen,
        TenantBlocks(engine.blocks),
        line_bytes_max=settings.line_bytes_max,
        upload_bytes_max=settings.upload_bytes_max,
        streams_max=settings.streams_max,
        tenants=engine.fleet.tenants,
        errors_max=settings.stream_errors_max,
        inflated_ratio_max=settings.inflated_ratio_max,
        inflated_bytes_max=settings.inflated_bytes_max,
        features_max=settings.features_max,
        answers_room=answers_room,
    )
    bodies = {
        "body_bytes_max": settings.body_bytes_max,
        "inflated_ratio_max": settings.inflated_ratio_max,
        "items_max": settings.items_max,
    }
    endpoints = rounds.endpoints(rounds_seen, **bodies)
    if tracing is not None:
        for endpoint in endpoints.values():
            endpoint.handle = tracing.noting_model(endpoint.handle)
    make = Application if tracing is None else tracing.application
    app = make(
        endpoints | model_paths.endpoints(rounds_seen, endpoints, **bodies),
        streaming,
        traffic=traffic,
        gate=gate,
        origins=origins,
        with_keys=ring is not None,
        on_stop=follow.stop,
        body_bytes_max=settings.body_bytes_max,
        upload_bytes_max=settings.upload_bytes_max,
        inflated_ratio_max=settings.inflated_ratio_max,
        title="Novikoff",
        version=version("novikoff"),
        description="Online learning over HTTP: predict, reveal, update.",
        lifespan=lifespan,
        telemetry={"tracing": False, "metrics": False, "logs": False},
        dependencies=KNOWN_ONLY,
        docs_url=None,
        redoc_url=None,
    )
    importing = Importing(limits, engine.clock, memory_bytes_max=settings.fit_memory_bytes_max)
    app.include_router(models.router(models_seen, history_seen, limits, importing, engine.copies))
    app.include_router(going_back.router(history_seen))
    app.include_router(corrections.router(TenantCorrections(engine.corrections, engine.forgetting)))
    tenant_jobs = TenantJobs(engine.jobs, engine.fits, engine.what_ifs, engine.warm_challengers)
    app.include_router(challengers.router(models_seen, tenant_jobs, limits, engine.clock))
    app.include_router(jobs.router(tenant_jobs, engine.clock))
    app.include_router(what_if.router(tenant_jobs, limits, engine.clock))
    app.include_router(history.router(history_seen))
    app.include_router(pending.router(TenantWaitingList(engine.waiting_list)))
    app.include_router(whoami.router())
    app.include_router(attention.router(TenantAttention(Attention(engine.fleet)), engine.clock))
    app.include_router(stats.router(models_seen, history_seen, engine.clock))
    app.include_router(feed.router(follow))
    app.include_router(metrics.router(collector, engine.fleet, why_unready))
    app.include_router(health.router(why_unready, lambda: len(engine.fleet.set_aside)))
    app.held = held
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


def _answers_room(settings: Settings, tenants: Tenants) -> DiskRoom:
    """On the disk of the journal, if that is here: the system's directory may be in memory."""
    directory = settings.data if settings.journal == "sqlite" else None
    return DiskRoom(settings.stream_answers_bytes_max, directory, tenants)


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
