"""Whatever the OTLP endpoint does, requests do not notice; spans that it does not take are dropped and counted."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from service.errors import InvalidSettings
from service.settings import load_settings
from service.web.tracing import Tracing
from tests.support.forkserver import environment
from tests.support.otlp_receiver import Receiver, metric
from tests.support.service_process import Service
from tests.support.waiting import PATIENCE_SECONDS, eventually


def test_an_endpoint_that_hangs_costs_clients_nothing_and_the_stop_a_bounded_time(
    start: Callable[..., Service],
) -> None:
    receiver = Receiver()
    receiver.hold()
    service = start(otlp_endpoint=receiver.url, otlp_spans_max=1, otlp_seconds_max=2)
    service.learn("m", [1.0], 1)
    assert receiver.held.wait(PATIENCE_SECONDS)
    eventually(
        lambda: (
            bool(service.learn("m", [1.0], 1))
            and metric(service, 'novikoff_spans_dropped_total{reason="queue"}') > 0
            and metric(service, 'novikoff_spans_dropped_total{reason="endpoint"}') > 0
        )
    )
    assert service.stop() == 0
    receiver.close()


def test_an_endpoint_that_is_down_or_refuses_is_told_in_the_log_and_counted(
    start: Callable[..., Service],
) -> None:
    refusing = Receiver()
    refusing.status = 400
    service = start(otlp_endpoint=refusing.url, otlp_seconds_max=0.5)
    service.learn("m", [1.0], 1)
    told = "spans were dropped: the OTLP endpoint did not accept them"
    service.wait_for_log(told)
    refused = metric(service, 'novikoff_spans_dropped_total{reason="endpoint"}')
    refusing.close()
    service.learn("m", [1.0], 1)  # now nobody listens there
    eventually(lambda: metric(service, 'novikoff_spans_dropped_total{reason="endpoint"}') > refused)
    assert service.stop() == 0
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


@pytest.mark.slow
def test_the_extra_is_imported_only_for_an_endpoint_and_is_told_of_if_it_is_missing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_EXTRA, "serve", "--port", "0"],
        env=environment(otlp_endpoint="http://127.0.0.1:1", data=tmp_path / "data"),
        capture_output=True, text=True, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    kind, *modules = done.stdout.split()
    assert kind == "Application", done.stderr
    assert not [m for m in modules if m.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))]
    assert done.returncode == 2
    assert done.stderr.startswith("novikoff: otlp_endpoint needs the extra `otel`: pip install ")


def test_the_variables_of_opentelemetry_itself_count_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    receiver = Receiver()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-token=abc")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    tracing = Tracing(receiver.url, share=1.0, waiting_max=3, seconds_max=PATIENCE_SECONDS)
    tracing.start()
    scope = {"type": "http", "method": "GET", "headers": [], "query_string": b""}
    span = tracing.begin(scope)
    assert span is not None
    tracing.end(span, scope, 503)
    asyncio.run(tracing.close())
    span_id = f"{span.get_span_context().span_id:016x}"
    received = receiver.wait_for(lambda one: one.span_id == span_id)
    assert received.resource["service.name"] == "mine" and received.is_error
    assert receiver.headers[0]["x-token"] == "abc"
    receiver.close()


def test_an_endpoint_that_is_no_address_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidSettings, match="NOVIKOFF_OTLP_ENDPOINT: "):
        load_settings(otlp_endpoint="collector:4318")
