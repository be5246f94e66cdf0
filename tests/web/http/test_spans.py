"""With an OTLP endpoint each request leaves a span there."""

import os
from collections.abc import Callable, Iterator

import pytest

from tests.support.otlp_receiver import Received, Receiver, metric
from tests.support.service_process import Service
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

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
    trace_id = new_trace()
    for path in (f"/models/{'x' * 5_000}", "/stats?model=", f"/feed?model={'x' * 200}", "/stats?xmodel=1"):
        assert traced.client.get(path, headers=traceparent(trace_id)).status_code < 500
    eventually(lambda: [span.trace_id for span in receiver.spans].count(trace_id) == 4)
    assert not [span for span in receiver.spans if span.trace_id == trace_id and MODEL in span.attributes]


def test_what_its_client_does_not_record_leaves_no_span(traced: Service, receiver: Receiver) -> None:
    unrecorded, recorded = new_trace(), new_trace()
    for trace_id, flags in ((unrecorded, "00"), (recorded, "01")):
        traced.client.get("/livez", headers=traceparent(trace_id, flags=flags))
    receiver.wait_for(lambda span: span.trace_id == recorded)
    assert unrecorded not in {span.trace_id for span in receiver.spans}


def test_spans_are_counted_and_go_to_the_path_for_traces(traced: Service, receiver: Receiver) -> None:
    traced.client.get("/livez")
    eventually(lambda: metric(traced, "novikoff_spans_sent_total") > 0)
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
