"""An OTLP receiver: a real HTTP server that decodes the spans which are sent to it."""

import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan

from tests.support.service_process import Service
from tests.support.waiting import eventually

SERVER = OtlpSpan.SPAN_KIND_SERVER


class Received(NamedTuple):
    """A span as it came."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any]
    seconds: float
    is_error: bool
    resource: dict[str, Any]


class Receiver:
    """Takes spans on a free port of this machine. While `holding` it reads requests and answers none."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        self.headers: list[dict[str, str]] = []
        self.paths: set[str] = set()
        self.status = 200
        self.held = threading.Event()
        """Set once a request is being held."""
        self._free = threading.Event()
        self._free.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if not receiver._free.is_set():
                    receiver.held.set()
                    receiver._free.wait()
                receiver._take(self, body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def hold(self) -> None:
        self._free.clear()

    def close(self) -> None:
        self._free.set()
        self._server.shutdown()
        self._server.server_close()

    def _take(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        self.paths.add(handler.path)
        self.headers.append({name.lower(): value for name, value in handler.headers.items()})
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = _attributes(group.resource.attributes)
            for within in group.scope_spans:
                self.spans += [_received(span, resource) for span in within.spans]
        try:
            handler.send_response(self.status)
            handler.send_header("content-length", "0")
            handler.end_headers()
        except OSError:
            pass  # the client has given up

    def wait_for(self, what: Callable[[Received], bool]) -> Received:
        """The first span of this kind, as soon as it has come."""
        eventually(lambda: any(map(what, self.spans)), otherwise="no such span came")
        return next(filter(what, self.spans))


def _received(span: OtlpSpan, resource: dict[str, Any]) -> Received:
    assert span.kind == SERVER
    return Received(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        _attributes(span.attributes),
        (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
        span.status.code == 2,
        resource,
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


def metric(service: Service, line: str) -> float:
    found = re.search(rf"^{re.escape(line)} (\S+)$", service.client.get("/metrics").text, re.MULTILINE)
    assert found is not None, line
    return float(found[1])
