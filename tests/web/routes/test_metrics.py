"""GET /metrics: counters only ever go up, and what the service works on is told."""

from collections.abc import Callable, Iterator

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.service_process import Service
from tests.support.waiting import PATIENCE_SECONDS, eventually
from tests.web.routes.test_corrections import correct, lived, rebuilt

Start = Callable[..., Service]

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scraped(service: Service) -> tuple[Series, Series]:
    """The counters, those of histograms too, and the gauges, each with its labels."""
    counters: Series = {}
    gauges: Series = {}
    for family in text_string_to_metric_families(service.client.get("/metrics").text):
        if family.name.startswith("novikoff") and family.type != "info":
            kept = gauges if family.type == "gauge" else counters
            kept |= {(each.name, tuple(each.labels.items())): each.value for each in family.samples}
    return counters, gauges


def of(series: Series, name: str) -> float:
    return series[f"novikoff_model_{name}", (("model", "m"),)]


def wrong_label_corrected(service: Service) -> None:
    correct(service, "m-5", -1)


def forgotten(service: Service) -> None:
    service.post("/models/m/forget", {"tag": "someone"})


def rolled_back(service: Service) -> None:
    service.post("/models/m/rollback", {"to": 10})


def reset(service: Service) -> None:
    service.post("/models/m/reset", {})


EVENTS = {
    "correction": wrong_label_corrected,
    "forgetting": forgotten,
    "rollback": rolled_back,
    "reset": reset,
}


@pytest.mark.parametrize("event", EVENTS)
def test_no_counter_goes_down_when_the_statistics_of_a_model_do(start: Start, event: str) -> None:
    service = start()
    lived(service, "m", wrong={5: 1}, rounds=40)
    for number in range(6):
        service.learn("m", [1.0, 1.0], -1 if number % 2 else 1, id=f"tagged-{number}", tag="someone")
    before, state_before = scraped(service)
    assert of(before, "revealed_total") == of(state_before, "state_revealed") == 46
    assert of(before, "mistakes_total") == of(state_before, "state_mistakes") > 0
    EVENTS[event](service)
    rebuilt_or_at_once = {"correction", "forgetting"}
    if event in rebuilt_or_at_once:
        rebuilt(service, "m")
    after, state_after = scraped(service)
    assert of(state_after, "state_mistakes") != of(state_before, "state_mistakes")
    assert {series for series, value in before.items() if after[series] < value} == set()
    for name in ("revealed_total", "mistakes_total", "updates_total", "drifts_total"):
        assert of(after, name) == of(before, name)
    told = service.learn("m", [3.0, 3.0], 1)
    counted, state = scraped(service)
    assert of(counted, "revealed_total") == of(before, "revealed_total") + 1
    assert of(counted, "mistakes_total") == of(before, "mistakes_total") + told["mistake"]
    assert (
        of(state, "state_revealed") == service.stats("m")["rounds"]["revealed"] != 47 or event == "correction"
    )


def test_a_model_that_is_loaded_again_counts_from_zero(start: Start) -> None:
    """From its statistics, which a correction has lowered, it would seem to have made all mistakes anew."""
    service = start(models_loaded_max=1)
    lived(service, "m", wrong={5: 1}, rounds=40)
    correct(service, "m-5", -1)
    rebuilt(service, "m")

    def is_unloaded() -> bool:
        service.learn("other", [1.0], 1)
        return 'model="m"' not in service.client.get("/metrics").text

    eventually(is_unloaded)
    assert service.stats("m")["rounds"]["revealed"] == 40
    counters, gauges = scraped(service)
    assert of(gauges, "state_revealed") == 40
    assert of(counters, "revealed_total") == of(counters, "mistakes_total") == 0
    service.learn("m", [1.0, 1.0], 1)
    assert of(scraped(service)[0], "revealed_total") == 1


def test_an_imported_model_has_not_done_here_what_it_has_done_elsewhere(start: Start) -> None:
    service = start()
    lived(service, "n", wrong={}, rounds=20)
    service.client.put("/models/m", json=service.get("/models/n/export")).raise_for_status()
    counters, gauges = scraped(service)
    assert of(gauges, "state_revealed") == 20 and of(counters, "revealed_total") == 0


def gauge(service: Service, name: str, **labels: str) -> float:
    counters, gauges = scraped(service)
    return (counters | gauges)[f"novikoff_{name}", tuple(labels.items())]


def test_rebuilds_that_wait_and_fail_are_counted(start: Start) -> None:
    service = start(fit_seconds_max=1e-6)
    lived(service, "m", wrong={5: 1}, rounds=40)
    assert gauge(service, "rebuilds_pending") == gauge(service, "rebuild_failures_total") == 0
    correct(service, "m-5", -1)
    assert gauge(service, "rebuilds_pending") == 1
    eventually(lambda: gauge(service, "rebuild_failures_total") == 1)
    assert gauge(service, "rebuilds_pending") == 1 and gauge(service, "forgettings_pending") == 0
    service.learn("m", [1.0, 1.0], 1, tag="someone")
    service.post("/models/m/forget", {"tag": "someone"})
    assert gauge(service, "forgettings_pending") == 1
    eventually(lambda: gauge(service, "forgetting_failures_total") == 1)
    assert gauge(service, "rebuild_failures_total") == 1


def test_jobs_and_streams_are_counted(start: Start) -> None:
    service = start()
    examples = [{"features": [1.0, float(i)], "label": 1 if i % 2 else -1} for i in range(2000)]
    endless = {"examples": examples, "passes_max": 1_000_000, "algorithm": "online"}
    service.learn("m", [1.0, 1.0], 1)
    job = service.post("/models/m/fit", endless)
    assert gauge(service, "jobs_running") == 1
    service.client.delete(f"/jobs/{job['id']}").raise_for_status()
    service.post("/models/m/fit", endless | {"passes_max": 1})
    eventually(lambda: gauge(service, "jobs_running") == 0)
    for state, count in (("done", 1), ("cancelled", 1), ("failed", 0)):
        assert gauge(service, "jobs_ended_total", state=state) == count

    def sent() -> Iterator[bytes]:
        yield b'{"model": "m", "features": [1.0, 2.0], "label": 1}\n'
        eventually(lambda: gauge(service, "streams_open") == 1)

    headers = {"content-type": "application/x-ndjson"}
    with httpx.Client(base_url=service.url, trust_env=False, timeout=PATIENCE_SECONDS) as client:
        assert client.post("/stream", content=sent(), headers=headers).status_code == 200
    eventually(lambda: gauge(service, "streams_open") == 0)


def test_the_size_of_the_journal_and_whether_the_service_is_ready_are_told(start: Start) -> None:
    service = start()
    service.learn("m", [1.0] * 1000, 1)
    assert (
        gauge(service, "journal_bytes", of="wal") == (service.data / "journal.sqlite-wal").stat().st_size > 0
    )
    assert gauge(service, "journal_bytes", of="file") == (service.data / "journal.sqlite").stat().st_size > 0
    assert gauge(service, "ready") == 1
    (service.data / "lock").unlink()
    assert service.client.get("/readyz").status_code == 503
    assert gauge(service, "ready") == 0
