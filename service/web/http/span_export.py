"""Spans are sent to an OTLP endpoint, over HTTP, by a thread of its own. Needs the extra `otel`.

Whatever the endpoint does, requests do not notice: spans that it does not take in time are dropped and counted.
"""

import asyncio
import logging
import os
from importlib.metadata import version
from threading import Event, Thread
from time import monotonic

from service.errors import InvalidSettings
from service.logs import Seldom
from service.web.http.spans import Span, Spans

try:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExportResult
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
    from opentelemetry.trace.status import Status, StatusCode
except ImportError:
    raise InvalidSettings(
        "otlp_endpoint needs the extra `otel`: pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
    ) from None

BATCH_SPANS = 512
BATCH_SECONDS = 1.0
"""How long a span waits for others that are sent together with it."""

TELL_SECONDS = 60.0
PATH = "/v1/traces"

log = logging.getLogger(__name__)


class SpanExport:
    """Sends spans on, from `start` to `close`."""

    def __init__(self, spans: Spans, endpoint: str, *, seconds_max: float) -> None:
        """`seconds_max`: how long one export may take, and all those together that are left in the end."""
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # we tell of failures ourselves, seldom
        address = endpoint.rstrip("/")
        self._exporter = OTLPSpanExporter(
            address if address.endswith(PATH) else address + PATH, timeout=seconds_max
        )
        self._spans = spans
        self._seconds_max = seconds_max
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="spans", daemon=True)
        self._scope = InstrumentationScope("novikoff", version("novikoff"))
        own = {
            "service.name": "novikoff",
            "service.version": version("novikoff"),
            "service.instance.id": os.urandom(8).hex(),
        }
        self._resource = Resource(own).merge(OTELResourceDetector().detect())
        self._told = Seldom(TELL_SECONDS)

    def start(self) -> None:
        self._thread.start()

    async def close(self) -> None:
        """Send what is left, for `seconds_max` at most; what has not gone by then is dropped."""
        self._stopping.set()
        await asyncio.to_thread(self._thread.join, self._seconds_max)
        self._drop(len(self._spans.take(len(self._spans))))

    def _run(self) -> None:
        while True:
            deadline = monotonic() + BATCH_SECONDS
            while len(self._spans) < BATCH_SPANS and (left := deadline - monotonic()) > 0:
                if self._stopping.wait(min(left, BATCH_SECONDS / 10)):
                    break
            batch = self._spans.take(BATCH_SPANS)
            is_last = not batch or not self._send(batch)
            if self._stopping.is_set() and is_last:
                return

    def _send(self, batch: list[Span]) -> bool:
        """Whether the endpoint has taken them."""
        try:
            done = self._exporter.export([self._readable(span) for span in batch])
        except Exception:  # the thread has to go on
            log.error("spans could not be sent", exc_info=True)
            done = SpanExportResult.FAILURE
        if done is not SpanExportResult.SUCCESS:
            self._drop(len(batch))
            return False
        self._spans.sent += len(batch)
        return True

    def _drop(self, count: int) -> None:
        self._spans.dropped_unsent += count
        if count and (others := self._told.turn()) is not None:
            fields = {"spans": count, "others": others}
            log.warning("spans were dropped: the OTLP endpoint did not take them", extra=fields)

    def _readable(self, span: Span) -> ReadableSpan:
        """The span as the SDK has it. An answer from 500 on is an error; those before it are the client's."""
        attributes: dict[str, str | int] = {"http.request.method": span.method, "http.route": span.route}
        if span.status:
            attributes["http.response.status_code"] = span.status
        if span.model:
            attributes["novikoff.model"] = span.model
        return ReadableSpan(
            f"{span.method} {span.route}",
            context=_context(span.trace_id, span.span_id, is_remote=False),
            parent=_context(span.trace_id, span.parent_id, is_remote=True) if span.parent_id else None,
            resource=self._resource,
            attributes=attributes,
            kind=SpanKind.SERVER,
            status=Status(StatusCode.ERROR if span.status >= 500 or not span.status else StatusCode.UNSET),
            start_time=span.began_ns,
            end_time=max(span.began_ns, span.ended_ns),
            instrumentation_scope=self._scope,
        )


def _context(trace_id: str, span_id: str, *, is_remote: bool) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED)
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=is_remote, trace_flags=flags)
