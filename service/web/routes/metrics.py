"""GET /metrics for Prometheus: everything is read at scrape time, nothing is counted twice for it."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from functools import cached_property
from heapq import nlargest
from importlib.metadata import version
from itertools import chain
from typing import Any

from fastapi import APIRouter, Response
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, exposition
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from service.engine.fleet.fleet import Fleet
from service.engine.fleet.live import Counts, Live
from service.engine.jobs.jobs import Jobs
from service.engine.replay.rebuilds import Rebuilds, is_forgetting, is_rebuilding
from service.journal.protocol import Figures, Journal
from service.runtime.byte_budget import ByteBudget
from service.runtime.cooperative import Turns
from service.runtime.timings import LoopPauses, Timings
from service.web.access.declarations import access
from service.web.access.keys import Role
from service.web.access.tenants import prefix
from service.web.http.requests import Send

ROUTES_MAX = 200
"""Method, route and status together; there are fewer, whatever clients send."""

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Traffic:
    """Timings by method, route and status: a dictionary look-up and three additions a request."""

    def __init__(self) -> None:
        self.timings: dict[tuple[str, str, int], Timings] = {}

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        key = (method, route, status)
        timings = self.timings.get(key)
        if timings is None:
            if method not in METHODS or len(self.timings) >= ROUTES_MAX:
                key = ("OTHER", "other", status)
            timings = self.timings.setdefault(key, Timings())
        timings.observe(seconds)


@dataclass(slots=True)
class SpanCounts:
    """What became of the spans of requests; see `service/web/tracing.py`."""

    sent: int = 0
    dropped_at_once: int = 0
    """Too many waited."""
    dropped_unsent: int = 0
    """The endpoint did not take them."""


class Watched:
    """A `send` that remembers the status."""

    def __init__(self, send: Send, *, status: int = 500) -> None:
        """`status`: that of a request which gets no answer."""
        self._send = send
        self.status = status

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)


@dataclass(eq=False, kw_only=True)
class Collector:
    """Figures of the busiest loaded models, of the journal, of the requests and of the event loop."""

    fleet: Fleet
    journal: Journal
    traffic: Traffic
    pauses: LoopPauses
    spans: SpanCounts
    memory_bytes: int
    models_max: int
    queue_events_max: int
    budgets: Mapping[str, ByteBudget]
    fit_memory_bytes_max: int
    rebuilds: Rebuilds
    jobs: Jobs
    streams_open: Callable[[], int]
    evicted: Mapping[str, int]

    def __post_init__(self) -> None:
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self.registry.register(self)

    def describe(self) -> list[Metric]:
        """Empty, since prometheus_client would call `collect` otherwise, at the cost of a whole scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        yield from self.of_models(list(self.fleet.loaded.values()))
        figures = self.journal.figures
        for kind, name, text, value in _SINGLE:
            yield kind(f"novikoff_{name}", text, value(self, figures))
        for kind, name, text, label, values in _LABELLED:
            family = kind(f"novikoff_{name}", text, labels=[label])
            for of, number in values(self, figures).items():
                family.add_metric([of], number)
            yield family
        requests = HistogramMetricFamily(
            "novikoff_request_seconds", "How long requests took.", labels=["method", "route", "status"]
        )
        for (method, route, status), timings in self.traffic.timings.items():
            _add(requests, [method, route, str(status)], timings)
        commits = HistogramMetricFamily(
            "novikoff_journal_commit_seconds", "How long group commits took.", labels=[]
        )
        _add(commits, [], figures.commits)
        pauses = HistogramMetricFamily(
            "novikoff_loop_pause_seconds", "Delay of the event loop, measured 50 times a second.", labels=[]
        )  # fmt: skip
        _add(pauses, [], self.pauses.timings)
        yield from (requests, commits, pauses)

    def of_models(self, loaded: list[Live]) -> Iterator[Metric]:
        pending = sum(live.waiting for live in loaded)
        yield InfoMetricFamily("novikoff", "The running version.", {"version": version("novikoff")})
        yield GaugeMetricFamily("novikoff_models_loaded", "Models in memory.", len(loaded))
        yield GaugeMetricFamily("novikoff_pending", "Pending predictions of all models in memory.", pending)
        busiest = nlargest(self.models_max, loaded, lambda live: live.model.revealed)
        looks = [Look(live) for live in busiest]
        for kind, name, text, value in _FIGURES:
            family = kind(f"novikoff_model_{name}", text, labels=["model"])
            for look in looks:
                figure = value(look)
                if figure is not None:
                    family.add_metric([look.model.name], figure)
            yield family


_SINGLE: tuple[tuple[type[Any], str, str, Callable[[Collector, Figures], float]], ...] = (
    (GaugeMetricFamily, "models_damaged", "Damaged models, no longer served.",
     lambda c, _: len(c.fleet.set_aside)),
    (GaugeMetricFamily, "rebuilds_pending", "Models in memory with corrections that are not in force.",
     lambda c, _: sum(map(is_rebuilding, c.fleet.loaded.values()))),
    (CounterMetricFamily, "rebuild_failures", "Rebuilds that failed.", lambda c, _: c.rebuilds.rebuild_failures),
    (GaugeMetricFamily, "forgettings_pending", "Models in memory whose forgotten rounds are not erased yet.",
     lambda c, _: sum(map(is_forgetting, c.fleet.loaded.values()))),
    (CounterMetricFamily, "forgetting_failures", "Forgettings that failed.",
     lambda c, _: c.rebuilds.forgetting_failures),
    (GaugeMetricFamily, "jobs_running", "Jobs that run.", lambda c, _: c.jobs.running),
    (GaugeMetricFamily, "streams_open", "Streams that are open.", lambda c, _: c.streams_open()),
    (GaugeMetricFamily, "journal_queue_events", "Events queued for the disk.", lambda _, journal: journal.queued),
    (GaugeMetricFamily, "journal_queue_events_max", "The most events that may be queued before clients get 503.",
     lambda c, _: c.queue_events_max),
    (CounterMetricFamily, "journal_failures", "Group commits that failed.", lambda _, journal: journal.failures),
    (CounterMetricFamily, "journal_checkpoint_failures", "Failed checkpoints of the SQLite WAL.",
     lambda _, journal: journal.checkpoint_failures),
    (CounterMetricFamily, "journal_damage_found", "Damage found in the journal.",
     lambda _, journal: journal.damage_found),
    (GaugeMetricFamily, "journal_lag_events", "Events in the journal that this replica has not applied yet.",
     lambda c, _: c.journal.lag_events),
    (GaugeMetricFamily, "journal_connected", "1 if the journal is reachable.",
     lambda _, journal: journal.is_connected),
    (GaugeMetricFamily, "loop_pause_longest_seconds", "The longest event-loop stall of the last 30 seconds.",
     lambda c, _: c.pauses.longest_seconds),
    (GaugeMetricFamily, "memory_bytes_max", "The memory that budgets are shares of.", lambda c, _: c.memory_bytes),
    (CounterMetricFamily, "spans_sent", "Spans that the OTLP endpoint took.", lambda c, _: c.spans.sent),
)  # fmt: skip

_LABELLED: tuple[tuple[type[Any], str, str, str, Callable[[Collector, Figures], Mapping[str, float]]], ...] = (
    (CounterMetricFamily, "jobs_ended", "Finished jobs.", "state", lambda c, _: c.jobs.ended),
    (GaugeMetricFamily, "journal_bytes", "How large the journal is on disk, and its write-ahead log.", "of",
     lambda _, journal: journal.file_bytes),
    (GaugeMetricFamily, "budget_bytes", "Bytes in use of what is limited in bytes.", "of",
     lambda c, _: {name: budget.bytes for name, budget in c.budgets.items()}),
    # The system alone knows what fits use.
    (GaugeMetricFamily, "budget_bytes_max", "The limit of each budget in bytes.", "of",
     lambda c, _: {name: each.bytes_max for name, each in c.budgets.items()} | {"fit": c.fit_memory_bytes_max}),
    (CounterMetricFamily, "predictions_evicted", "Predictions evicted before they expired.", "limit",
     lambda c, _: c.evicted),
    (CounterMetricFamily, "spans_dropped", "Spans that were dropped.", "reason",
     lambda c, _: {"queue": c.spans.dropped_at_once, "endpoint": c.spans.dropped_unsent}),
)  # fmt: skip


class _Alone:
    """A registry with a single metric."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> list[Metric]:
        return [self._metric]


async def _text_of(metrics: Iterable[Metric]) -> bytes:
    """The exposition of metrics, one at a time: that of hundreds of models takes tens of milliseconds."""
    parts, turns = [], Turns()
    for metric in metrics:
        alone: Any = _Alone(metric)
        parts.append(exposition.generate_latest(alone))
        await turns.give()
    return b"".join(parts)


def _add(family: HistogramMetricFamily, labels: list[str], timings: Timings) -> None:
    buckets = [(str(bound), count) for bound, count in timings.cumulative()]
    family.add_metric(labels, [*buckets, ("+Inf", timings.count)], timings.seconds)


class Look:
    """A model, with what several of its figures are read from; each when the first of them is, so in its slice."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.model = live.model
        self.statistics = live.model.statistics

    @cached_property
    def counts(self) -> Counts:
        return self.live.counts

    @cached_property
    def delay_seconds(self) -> dict[str, float | None]:
        return self.statistics.delay.seconds()

    @cached_property
    def bound(self) -> dict[str, Any]:
        return self.model.bound_report()


DRIFT_STATES = {"stable": 0.0, "warning": 1.0, "drift": 2.0}

_FIGURES = (
    (CounterMetricFamily, "revealed", "Rounds revealed since the model was loaded.", lambda look: look.counts.revealed),
    (CounterMetricFamily, "expired", "Predictions that expired since then.", lambda look: look.counts.expired),
    (CounterMetricFamily, "mistakes", "Mistakes since then.", lambda look: look.counts.mistakes),
    (CounterMetricFamily, "updates", "Updates of the weights since then.", lambda look: look.counts.updates),
    (CounterMetricFamily, "drifts", "How often the error rose since then.", lambda look: look.counts.drifts),
    (GaugeMetricFamily, "state_revealed", "Rounds in the model's statistics.", lambda look: look.model.revealed),
    (GaugeMetricFamily, "state_mistakes", "Mistakes among them.", lambda look: look.model.mistakes),
    (GaugeMetricFamily, "state_updates", "Updates of the weights by them.", lambda look: look.model.updates),
    (GaugeMetricFamily, "drift_state", "0 stable, 1 warning, 2 drift.",
     lambda look: DRIFT_STATES[look.statistics.drift_state]),
    (GaugeMetricFamily, "pending", "Pending predictions.", lambda look: look.live.waiting),
    (GaugeMetricFamily, "oldest_pending_timestamp_seconds", "When the oldest of them was made.",
     lambda look: None if (at := look.live.oldest_waiting_at) is None else at / 1e6),
    (GaugeMetricFamily, "ewma_error_rate", "The exponentially weighted error rate.",
     lambda look: look.statistics.ewma_error_rate),
    (GaugeMetricFamily, "label_delay_p50_seconds", "Half of the labels came within this.",
     lambda look: look.delay_seconds["p50"]),
    (GaugeMetricFamily, "label_delay_p99_seconds", "99 of 100 labels came within this.",
     lambda look: look.delay_seconds["p99"]),
    (GaugeMetricFamily, "bound_used", "Updates as a share of the mistake bound.",
     lambda look: look.bound["used"]),
    (GaugeMetricFamily, "bound_exceeded", "1 if the stream cannot have the declared margin.",
     lambda look: look.bound["verdict"] == "exceeded"),
    (GaugeMetricFamily, "last_reveal_timestamp_seconds", "When the model last changed.",
     lambda look: look.model.updated_at / 1e6 if look.model.revealed else None),
)  # fmt: skip


def router(collector: Collector, why_unready: Callable[[], Awaitable[str | None]]) -> APIRouter:
    routes = APIRouter(tags=["health"])

    @routes.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    @access(Role.READ, tenants=True)
    async def metrics() -> Response:
        """Figures for Prometheus."""
        if own := prefix():
            loaded = collector.fleet.loaded.items()
            found = collector.of_models([live for name, live in loaded if name.startswith(own)])
        else:
            is_ready = await why_unready() is None
            ready = GaugeMetricFamily("novikoff_ready", "1 if /readyz answers 200.", is_ready)
            found = chain([ready], collector.registry.collect())
        return Response(await _text_of(found), media_type=exposition.CONTENT_TYPE_LATEST)

    return routes
