"""With an OTLP endpoint each request leaves a span there, and whatever the endpoint does, requests do not notice."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextvars import copy_context
from pathlib import Path

import pytest

from service.errors import InvalidSettings
from service.settings import load_settings
from service.web.http.spans import SPAN_BYTES_MAX, Span, Spans
from tests.forking import environment
from tests.otlp import Received, Receiver
from tests.running import Service

PARENT = "00f067aa0ba902b7"
ROUTE, MODEL, STATUS = "http.route", "novikoff.model", "http.response.status_code"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture(scope="module")
def traced(receiver: Receiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that sends its spans to the receiver, and takes requests of one web site."""
    service = Service(
        tmp_path_factory.mktemp("traced") / "data",
        otlp_endpoint=receiver.url,
        otlp_seconds_max=60,
        cors_origins="https://example.org",
        log_format="json",
    )
    yield service.start()
    service.close()


def traceparent(trace_id: str, *, flags: str = "01") -> dict[str, str]:
    return {"traceparent": f"00-{trace_id}-{PARENT}-{flags}"}


def new_trace() -> str:
    return os.urandom(16).hex()


def about(span: Received) -> tuple[object, ...]:
    return span.name, span.attributes[ROUTE], span.attributes.get(STATUS), span.attributes.get(MODEL)


def metric(service: Service, line: str) -> float:
    found = re.search(rf"^{re.escape(line)} (\S+)$", service.client.get("/metrics").text, re.MULTILINE)
    assert found is not None, line
    return float(found[1])


REQUESTS = [
    ("POST", "/predict", {"model": "NAME", "features": [1.0]}, 200, "/predict", True),
    ("POST", "/learn", {"model": "NAME", "features": [1.0], "label": 1}, 200, "/learn", True),
    ("POST", "/models/NAME/learn", {"features": [1.0], "label": 1}, 200, "/models/{model}/learn", True),
    ("POST", "/models/NAME/predict", {"features": []}, 422, "/models/{model}/predict", True),
    ("POST", "/learn", {"model": "NAME", "features": [1.0], "label": "no label"}, 422, "/learn", True),
    ("POST", "/learn", {"model": "NAME", "features": [1.0], "label": []}, 422, "/learn", False),
    ("POST", "/feedback", {"prediction_id": "nobodys", "label": 1}, 404, "/feedback", False),
    ("GET", "/models/NAME", None, 200, "/models/{model}", True),
    ("GET", "/stats?limit=1", None, 200, "/stats", False),
    ("GET", "/livez", None, 200, "/livez", False),
    ("GET", "/nowhere", None, 404, "unknown", False),
    ("GET", "/feed?model=not-NAME", None, 404, "/feed", True),
    ("DELETE", "/models/NAME", None, 204, "/models/{model}", True),
]
"""Method, path, body, status, route, and whether a model is known."""


def test_a_request_leaves_a_span_within_that_of_its_client(
    traced: Service, receiver: Receiver, name: str
) -> None:
    traces = [new_trace() for _ in REQUESTS]
    for (method, path, body, status, *_), trace_id in zip(REQUESTS, traces, strict=True):
        named = None if body is None else body | ({"model": name} if "model" in body else {})
        answer = traced.client.request(
            method, path.replace("NAME", name), json=named, headers=traceparent(trace_id)
        )
        assert answer.status_code == status, answer.text
    for (method, path, _, status, route, has_model), trace_id in zip(REQUESTS, traces, strict=True):
        span = receiver.wait_for(lambda span: span.trace_id == trace_id)  # noqa: B023
        model = None if not has_model else f"not-{name}" if "not-" in path else name
        assert about(span) == (f"{method} {route}", route, status, model)
        assert span.parent_id == PARENT and span.attributes["http.request.method"] == method
        assert span.seconds > 0 and not span.is_error
        assert span.resource["service.name"] == "novikoff" and span.resource["service.version"]


def test_plain_requests_on_one_connection_get_a_trace_each(
    traced: Service, receiver: Receiver, name: str
) -> None:
    served = [traced.predict(f"plain-{name}", [1.0]) for _ in range(3)]
    traced.reveal(served[0]["prediction_id"], 1)

    def is_of_it(route: str) -> Callable[[Received], bool]:
        return lambda span: about(span)[1:] == (route, 200, f"plain-{name}")

    receiver.wait_for(is_of_it("/feedback"))  # its body names no model; the answer does
    spans = list(filter(is_of_it("/predict"), receiver.spans))
    assert len(spans) == 3 == len({span.trace_id for span in spans}) == len({span.span_id for span in spans})
    assert not any(span.parent_id for span in spans)


def test_several_models_in_one_request_are_named_by_none(traced: Service, receiver: Receiver) -> None:
    items = [{"model": model, "features": [1.0], "label": 1} for model in ("spans-a", "spans-b", "spans-a")]
    trace_id = new_trace()
    answer = traced.client.post("/learn", json={"items": items}, headers=traceparent(trace_id))
    assert answer.status_code == 200
    span = receiver.wait_for(lambda span: span.trace_id == trace_id)
    assert about(span) == ("POST /learn", "/learn", 200, None)


def test_a_stream_and_a_feed_are_a_span_each_that_ends_with_them(
    traced: Service, receiver: Receiver, name: str
) -> None:
    model, of_stream, of_feed = f"spans-{name}", new_trace(), new_trace()
    lines = b'{"features": [1.0, 2.0], "label": 1}\n' * 1_000
    answer = traced.client.post(
        f"/models/{model}/stream", content=lines,
        headers={"content-type": "application/x-ndjson"} | traceparent(of_stream),
    )  # fmt: skip
    assert answer.status_code == 200
    with traced.client.stream("GET", f"/feed?model={model}", headers=traceparent(of_feed)) as feed:
        assert any("snapshot" in line for line in feed.iter_lines())
        assert not [span for span in receiver.spans if span.trace_id == of_feed]
    stream = receiver.wait_for(lambda span: span.trace_id == of_stream)
    assert about(stream) == ("POST /models/{model}/stream", "/models/{model}/stream", 200, model)
    assert about(receiver.wait_for(lambda span: span.trace_id == of_feed)) == (
        "GET /feed", "/feed", 200, model,
    )  # fmt: skip


def test_what_no_route_answers_leaves_a_span_too(traced: Service, receiver: Receiver) -> None:
    asked = {"origin": "https://example.org", "access-control-request-method": "POST"}
    of_preflight, of_odd = new_trace(), new_trace()
    answer = traced.client.options("/predict", headers=asked | traceparent(of_preflight))
    assert answer.status_code == 200
    assert about(receiver.wait_for(lambda span: span.trace_id == of_preflight))[2] == 200
    traced.client.request("PROPFIND", "/models", headers=traceparent(of_odd))
    odd = receiver.wait_for(lambda span: span.trace_id == of_odd)
    assert odd.attributes["http.request.method"] == "_OTHER"


def test_a_name_that_no_model_can_have_is_not_in_a_span(traced: Service, receiver: Receiver) -> None:
    for path in (f"/models/{'x' * 5_000}", "/stats?model=", f"/feed?model={'x' * 200}", "/stats?xmodel=1"):
        trace_id = new_trace()
        assert traced.client.get(path, headers=traceparent(trace_id)).status_code < 500
        assert MODEL not in receiver.wait_for(lambda span: span.trace_id == trace_id).attributes  # noqa: B023


def test_what_its_client_does_not_record_leaves_no_span(traced: Service, receiver: Receiver) -> None:
    unrecorded, recorded = new_trace(), new_trace()
    for trace_id, flags in ((unrecorded, "00"), (recorded, "01")):
        traced.client.get("/livez", headers=traceparent(trace_id, flags=flags))
    receiver.wait_for(lambda span: span.trace_id == recorded)
    assert unrecorded not in {span.trace_id for span in receiver.spans}


def test_spans_are_counted_and_go_to_the_path_for_traces(traced: Service, receiver: Receiver) -> None:
    receiver.wait_for(lambda span: True)
    assert metric(traced, "novikoff_spans_sent_total") > 0
    assert metric(traced, 'novikoff_spans_dropped_total{reason="queue"}') == 0
    assert metric(traced, 'novikoff_spans_dropped_total{reason="endpoint"}') == 0
    assert receiver.paths == {"/v1/traces"}


def test_only_a_share_of_requests_without_a_trace_is_recorded_if_asked_for(
    receiver: Receiver, start: Callable[..., Service]
) -> None:
    service = start(otlp_endpoint=f"{receiver.url}/v1/traces", otlp_share=0, otlp_seconds_max=60)
    service.predict("share-none", [1.0])
    trace_id = new_trace()
    service.client.get("/livez", headers=traceparent(trace_id))
    assert service.stop() == 0  # and what waited has been sent before it ended
    assert trace_id in {span.trace_id for span in receiver.spans}
    assert "share-none" not in {span.attributes.get(MODEL) for span in receiver.spans}


def test_an_endpoint_that_hangs_costs_clients_nothing_and_the_stop_a_bounded_time(
    start: Callable[..., Service],
) -> None:
    receiver = Receiver()
    receiver.hold()
    service = start(otlp_endpoint=receiver.url, otlp_spans_max=5, otlp_seconds_max=0.5)
    for _ in range(50):
        service.learn("m", [1.0], 1)
    assert receiver.held.wait(60)
    for _ in range(50):
        service.learn("m", [1.0], 1)
    assert service.stats("m")["rounds"]["revealed"] == 100
    assert metric(service, 'novikoff_spans_dropped_total{reason="queue"}') > 0
    assert service.stop() == 0
    receiver.close()


def test_an_endpoint_that_is_down_or_refuses_is_told_in_the_log_and_counted(
    start: Callable[..., Service],
) -> None:
    refusing = Receiver()
    refusing.status = 400
    service = start(otlp_endpoint=refusing.url, otlp_seconds_max=0.5)
    service.learn("m", [1.0], 1)
    refusing.wait_for(lambda span: True)
    refusing.close()
    service.learn("m", [1.0], 1)  # now nobody listens there
    assert service.stop() == 0
    assert "spans were dropped: the OTLP endpoint did not take them" in "".join(service.log)
    assert "Traceback" not in "".join(service.log)


def test_with_an_otlp_endpoint_lines_name_the_span_of_the_service_itself(
    spoiled: Callable[..., Service],
) -> None:
    receiver = Receiver()
    service = spoiled(log_format="json", otlp_endpoint=receiver.url, otlp_share=0, otlp_seconds_max=60)
    trace_id, span_id = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    headers = {"traceparent": f"00-{trace_id}-{span_id}-01"}
    assert service.client.get("/models", headers=headers).status_code == 500
    service.stop()
    receiver.close()
    (span,) = receiver.spans
    assert span.parent_id == span_id and span.is_error
    lines = map(json.loads, service.log)
    told = [(line.get("trace_id"), line.get("span_id")) for line in lines if "exception" in line]
    assert told == [(trace_id, span.span_id)]


WITHOUT_THE_EXTRA = """
import sys
from service.app import create_app
from service.cli import main
from service.settings import load_settings
kind = type(create_app(load_settings(otlp_endpoint=""))).__name__
print(kind, *sys.modules, flush=True)
sys.modules["opentelemetry.sdk.trace"] = None
main()
"""


def test_the_extra_is_imported_only_for_an_endpoint_and_is_told_of_if_it_is_missing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_EXTRA, "serve", "--port", "0"],
        env=environment(otlp_endpoint="http://127.0.0.1:1", data=tmp_path / "data"),
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    kind, *modules = done.stdout.split()
    assert kind == "Application", done.stderr
    assert not [m for m in modules if m.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))]
    assert done.returncode == 2
    assert done.stderr.startswith("novikoff: otlp_endpoint needs the extra `otel`: pip install ")


def test_spans_that_wait_are_bounded_in_number_and_in_bytes() -> None:
    copy_context().run(_fill_and_measure)


def _fill_and_measure() -> None:
    spans = Spans(share=1.0, waiting_max=3)
    scope = {"type": "http", "method": "X" * 10_000, "headers": [], "query_string": b"model=" + b"m" * 128}
    for _ in range(5):
        span = spans.begin(scope)
        assert span is not None
        spans.end(span, scope, 200)
    assert (len(spans), spans.dropped_at_once) == (3, 2)
    (oldest, *_) = spans.take(3)
    assert oldest.model == "m" * 128
    size = sys.getsizeof(oldest) + sum(sys.getsizeof(getattr(oldest, field)) for field in Span.__slots__)
    assert size < SPAN_BYTES_MAX


def test_an_endpoint_that_is_no_address_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidSettings, match="NOVIKOFF_OTLP_ENDPOINT: "):
        load_settings(otlp_endpoint="collector:4318")
