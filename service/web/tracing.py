"""Traces (OpenTelemetry): a span of each request goes to an OTLP endpoint over HTTP. Needs the extra `otel`.

This module is imported only if there is an endpoint, so that requests cost nothing more where there is none.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from functools import wraps
from importlib.metadata import version
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

from starlette.types import Receive, Scope, Send

from service.engine.names import is_name
from service.errors import InvalidSettings
from service.runtime import logs
from service.runtime.logs import LogLimiter
from service.web.application import Application
from service.web.http.headers import TRACEPARENT
from service.web.routes.metrics import METHODS, SpanCounts, Traffic, Watched

try:
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import ReadableSpan, Span, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:
    raise InvalidSettings(
        "otlp_endpoint needs the extra `otel`: pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
    ) from None

BATCH_SPANS = 512
BATCH_SECONDS = 1.0
"""How long a span waits for others that are sent together with it."""

LOG_SECONDS = 60.0
PATH = "/v1/traces"
METHOD, ROUTE, STATUS = "http.request.method", "http.route", "http.response.status_code"
MODEL = "novikoff.model"
"""Only if the request is about one model."""

log = logging.getLogger(__name__)

models: ContextVar[set[str] | None] = ContextVar("models", default=None)
"""The models that the present request is about, if it is recorded."""

Handle = Callable[[Any], Awaitable[tuple[Any, Any]]]


class Tracing(SpanExporter):
    """Begins spans and sends them on, in a thread of the SDK, from `start` to `close`.

    `share`: of the requests that come without a trace, this part gets one. Those with a trace are recorded if their
    clients record them. At most `waiting_max` spans wait to be sent; later ones are dropped then, and counted.
    """

    def __init__(self, endpoint: str, *, share: float, waiting_max: int, seconds_max: float) -> None:
        """`seconds_max`: how long one export may take, and all those together that are left in the end."""
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # the line below says so once a minute
        address = endpoint.rstrip("/")
        self._exporter = OTLPSpanExporter(
            address if address.endswith(PATH) else address + PATH, timeout=seconds_max
        )
        self._sampler = ParentBased(TraceIdRatioBased(share))
        self._waiting_max = waiting_max
        self._seconds_max = seconds_max
        self._log_limit = LogLimiter(LOG_SECONDS)
        self._ended = 0
        self.counts = SpanCounts()

    def start(self) -> None:
        own = {
            "service.name": "novikoff",
            "service.version": version("novikoff"),
            "service.instance.id": os.urandom(8).hex(),
        }
        self._provider = TracerProvider(
            self._sampler, Resource(own).merge(OTELResourceDetector().detect()), shutdown_on_exit=False
        )
        self._provider.add_span_processor(
            BatchSpanProcessor(
                self,
                max_queue_size=self._waiting_max,
                schedule_delay_millis=BATCH_SECONDS * 1e3,
                max_export_batch_size=min(BATCH_SPANS, self._waiting_max),
            )
        )
        self._tracer = self._provider.get_tracer("novikoff", version("novikoff"))

    async def close(self) -> None:
        """Send what is left, for `seconds_max` at most; what has not gone by then is dropped."""
        ending = Thread(target=self._provider.shutdown, daemon=True)
        ending.start()
        await asyncio.to_thread(ending.join, self._seconds_max)

    def application(self, *parts: Any, **options: Any) -> Application:
        return TracedApplication(self, *parts, **options)

    def traffic(self) -> Traffic:
        return TracedTraffic()

    def noting_model(self, handle: Handle) -> Handle:
        """A handler that notes the model which its body or its answer names."""

        @wraps(handle)
        async def noting(body: Any) -> tuple[Any, Any]:
            try:
                answer, headers = await handle(body)
            except Exception:
                note_model(getattr(body, "model", None))
                raise
            note_model(answer.model)
            return answer, headers

        return noting

    def begin(self, scope: Scope) -> Span | None:
        """The span of a request; None if none is wanted, or too many wait."""
        headers = scope["headers"]
        parent = {name.decode(): value.decode("latin-1") for name, value in headers if name == TRACEPARENT}
        method = scope["method"] if scope["method"] in METHODS else "_OTHER"
        span = self._tracer.start_span(
            method,
            TraceContextTextMapPropagator().extract(parent),
            trace.SpanKind.SERVER,
            {METHOD: method, ROUTE: "unknown"},
        )
        if not isinstance(span, Span):
            return None
        if self._ended - self.counts.sent - self.counts.dropped_unsent >= self._waiting_max:
            self.counts.dropped_at_once += 1
            return None
        return span

    def end(self, span: Span, scope: Scope, status: int) -> None:
        """The request has been answered with this status, 0 if it was never answered."""
        note_model(scope.get("path_params", {}).get("model"))
        if b"model=" in scope["query_string"]:
            asked = parse_qs(scope["query_string"].decode("latin-1"))
            note_model(asked.get("model", [None])[0])
        if len(noted := models.get() or ()) == 1:
            span.set_attribute(MODEL, *noted)
        if status:
            span.set_attribute(STATUS, status)
        if status >= 500 or not status:
            span.set_status(trace.StatusCode.ERROR)
        span.update_name(f"{span.name} {(span.attributes or {})[ROUTE]!s}")
        self._ended += 1
        span.end()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        done = SpanExportResult.FAILURE
        try:
            done = self._exporter.export(spans)
        finally:
            if done is SpanExportResult.SUCCESS:
                self.counts.sent += len(spans)
            else:
                self.counts.dropped_unsent += len(spans)
                if (others := self._log_limit.turn()) is not None:
                    fields = {"spans": len(spans), "others": others}
                    log.warning("spans were dropped: the OTLP endpoint did not accept them", extra=fields)
        return done

    def shutdown(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


def note_model(model: object) -> None:
    """Note the model of the request, or of one of its items; what cannot be a model's name is passed over."""
    if (noted := models.get()) is not None and is_name(model):
        noted.add(str(model))


class TracedTraffic(Traffic):
    """Traffic that gives the current span the route that its request came to."""

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        super().observe(method, route, status, seconds)
        trace.get_current_span().set_attribute(ROUTE, route)


class TracedApplication(Application):
    """The same, and each request leaves a span, also one that the app answers without a route."""

    def __init__(self, tracing: Tracing, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        span = self._tracing.begin(scope) if scope["type"] == "http" else None
        if span is None:
            await super().__call__(scope, receive, send)
            return
        ids = span.get_span_context()
        models.set(set())
        logs.trace.set((f"{ids.trace_id:032x}", f"{ids.span_id:016x}"))
        watched = Watched(send, status=0)
        with trace.use_span(span, record_exception=False, set_status_on_exception=False):
            try:
                await super().__call__(scope, receive, watched)
            finally:
                self._tracing.end(span, scope, watched.status)
