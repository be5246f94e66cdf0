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
from service.journal.protocol import Journal
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


class Collector:
    """Figures of the busiest loaded models, of the journal, of the requests and of the event loop."""

    def __init__(
        self,
        fleet: Fleet,
        journal: Journal,
        traffic: Traffic,
        pauses: LoopPauses,
        spans: SpanCounts,
        *,
        memory_bytes: int,
        models_max: int,
        queue_events_max: int,
        budgets: Mapping[str, ByteBudget],
        fit_memory_bytes_max: int,
        rebuilds: Rebuilds,
        jobs: Jobs,
        streams_open: Callable[[], int],
        evicted: Mapping[str, int],
    ) -> None:
        self._fleet = fleet
        self._journal = journal
        self._traffic = traffic
        self._pauses = pauses
        self._spans = spans
        self._memory_bytes = memory_bytes
        self._models_max = models_max
        self._queue_events_max = queue_events_max
        self._budgets = budgets
        self._fit_memory_bytes_max = fit_memory_bytes_max
        self._rebuilds = rebuilds
        self._jobs = jobs
        self._streams_open = streams_open
        self._evicted = evicted
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self.registry.register(self)

    def describe(self) -> list[Metric]:
        """Empty, since prometheus_client would call `collect` otherwise, at the cost of a whole scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        yield from self.of_models(list(self._fleet.loaded.values()))
        damaged = len(self._fleet.set_aside)
        yield GaugeMetricFamily("novikoff_models_damaged", "Damaged models, no longer served.", damaged)
        yield from self._of_work()
        yield from self._of_journal()
        yield from self._of_requests()
        yield from self._of_loop()
        yield from self._of_budgets()
        yield from self._of_spans()

    def of_models(self, loaded: list[Live]) -> Iterator[Metric]:
        pending = sum(live.waiting for live in loaded)
        yield InfoMetricFamily("novikoff", "The running version.", {"version": version("novikoff")})
        yield GaugeMetricFamily("novikoff_models_loaded", "Models in memory.", len(loaded))
        yield GaugeMetricFamily("novikoff_pending", "Pending predictions of all models in memory.", pending)
        busiest = nlargest(self._models_max, loaded, lambda live: live.model.revealed)
        looks = [Look(live) for live in busiest]
        for kind, name, text, value in _FIGURES:
            family = kind(f"novikoff_model_{name}", text, labels=["model"])
            for look in looks:
                figure = value(look)
                if figure is not None:
                    family.add_metric([look.model.name], figure)
            yield family

    def _of_work(self) -> Iterator[Metric]:
        rebuilds, loaded = self._rebuilds, self._fleet.loaded.values()
        yield GaugeMetricFamily(
            "novikoff_rebuilds_pending", "Models in memory with corrections that are not in force.",
            sum(map(is_rebuilding, loaded)),
        )  # fmt: skip
        yield CounterMetricFamily(
            "novikoff_rebuild_failures", "Rebuilds that failed.", rebuilds.rebuild_failures
        )
        yield GaugeMetricFamily(
            "novikoff_forgettings_pending", "Models in memory whose forgotten rounds are not erased yet.",
            sum(map(is_forgetting, loaded)),
        )  # fmt: skip
        yield CounterMetricFamily(
            "novikoff_forgetting_failures", "Forgettings that failed.", rebuilds.forgetting_failures
        )
        yield GaugeMetricFamily("novikoff_jobs_running", "Jobs that run.", self._jobs.running)
        jobs = CounterMetricFamily("novikoff_jobs_ended", "Finished jobs.", labels=["state"])
        for state, count in self._jobs.ended.items():
            jobs.add_metric([state], count)
        yield jobs
        yield GaugeMetricFamily("novikoff_streams_open", "Streams that are open.", self._streams_open())

    def _of_journal(self) -> Iterator[Metric]:
        figures = self._journal.figures
        sizes = GaugeMetricFamily(
            "novikoff_journal_bytes", "How large the journal is on disk, and its write-ahead log.", labels=["of"]
        )  # fmt: skip
        for name, size in figures.file_bytes.items():
            sizes.add_metric([name], size)
        yield sizes
        yield GaugeMetricFamily(
            "novikoff_journal_queue_events", "Events queued for the disk.", figures.queued
        )
        yield GaugeMetricFamily(
            "novikoff_journal_queue_events_max", "The most events that may be queued before clients get 503.",
            self._queue_events_max,
        )  # fmt: skip
        yield CounterMetricFamily("novikoff_journal_failures", "Group commits that failed.", figures.failures)
        yield CounterMetricFamily(
            "novikoff_journal_checkpoint_failures", "Failed checkpoints of the SQLite WAL.",
            figures.checkpoint_failures,
        )  # fmt: skip
        yield CounterMetricFamily(
            "novikoff_journal_damage_found", "Damage found in the journal.",
            figures.damage_found,
        )  # fmt: skip
        yield GaugeMetricFamily(
            "novikoff_journal_lag_events", "Events in the journal that this replica has not applied yet.",
            self._journal.lag_events,
        )  # fmt: skip
        yield GaugeMetricFamily(
            "novikoff_journal_connected", "1 if the journal is reachable.", figures.is_connected
        )
        commits = HistogramMetricFamily(
            "novikoff_journal_commit_seconds", "How long group commits took.", labels=[]
        )
        _add(commits, [], figures.commits)
        yield commits

    def _of_requests(self) -> Iterator[Metric]:
        requests = HistogramMetricFamily(
            "novikoff_request_seconds", "How long requests took.", labels=["method", "route", "status"]
        )
        for (method, route, status), timings in self._traffic.timings.items():
            _add(requests, [method, route, str(status)], timings)
        yield requests

    def _of_budgets(self) -> Iterator[Metric]:
        used = GaugeMetricFamily(
            "novikoff_budget_bytes", "Bytes in use of what is limited in bytes.", labels=["of"]
        )
        most = GaugeMetricFamily(
            "novikoff_budget_bytes_max", "The limit of each budget in bytes.", labels=["of"]
        )
        for name, budget in self._budgets.items():
            used.add_metric([name], budget.bytes)
            most.add_metric([name], budget.bytes_max)
        most.add_metric(["fit"], self._fit_memory_bytes_max)  # the system alone knows what fits use
        yield used
        yield most
        yield GaugeMetricFamily(
            "novikoff_memory_bytes_max", "The memory that budgets are shares of.", self._memory_bytes
        )
        evicted = CounterMetricFamily(
            "novikoff_predictions_evicted",
            "Predictions evicted before they expired.",
            labels=["limit"],
        )
        for limit, count in self._evicted.items():
            evicted.add_metric([limit], count)
        yield evicted

    def _of_spans(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "novikoff_spans_sent", "Spans that the OTLP endpoint took.", self._spans.sent
        )
        dropped = CounterMetricFamily("novikoff_spans_dropped", "Spans that were dropped.", labels=["reason"])
        dropped.add_metric(["queue"], self._spans.dropped_at_once)
        dropped.add_metric(["endpoint"], self._spans.dropped_unsent)
        yield dropped

    def _of_loop(self) -> Iterator[Metric]:
        pauses = HistogramMetricFamily(
            "novikoff_loop_pause_seconds",
            "Delay of the event loop, measured 50 times a second.",
            labels=[],
        )
        _add(pauses, [], self._pauses.timings)
        yield pauses
        yield GaugeMetricFamily(
            "novikoff_loop_pause_longest_seconds", "The longest event-loop stall of the last 30 seconds.",
            self._pauses.longest_seconds,
        )  # fmt: skip


class TenantCollector:
    """The metrics for a caller with a restricted key: those of the caller's models only."""

    def __init__(self, collector: Collector, fleet: Fleet, prefix: str) -> None:
        self._collector = collector
        self._loaded = [live for name, live in fleet.loaded.items() if name.startswith(prefix)]

    def collect(self) -> Iterator[Metric]:
        return self._collector.of_models(self._loaded)


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


def router(collector: Collector, fleet: Fleet, why_unready: Callable[[], Awaitable[str | None]]) -> APIRouter:
    routes = APIRouter(tags=["health"])

    @routes.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    @access(Role.READ, tenants=True)
    async def metrics() -> Response:
        """Figures for Prometheus."""
        if own := prefix():
            found = TenantCollector(collector, fleet, own).collect()
        else:
            is_ready = await why_unready() is None
            ready = GaugeMetricFamily("novikoff_ready", "1 if /readyz answers 200.", is_ready)
            found = chain([ready], collector.registry.collect())
        return Response(await _text_of(found), media_type=exposition.CONTENT_TYPE_LATEST)

    return routes
