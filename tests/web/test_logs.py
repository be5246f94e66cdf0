"""What the service writes to its log, and what it does not."""

import asyncio
import json
import os
import re
import resource
import signal
import socket
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from service.engine.models.model import Model
from service.events import AnyEvent, ModelCreated, RoundLearned, RoundsLearned, features_of
from service.journal.protocol import Recorded
from tests.e2e.test_rebuilds import stopped_worker
from tests.support.service_process import NO_TLS, Service, problem_of
from tests.support.waiting import PATIENCE_SECONDS, eventually
from tests.web.routes.test_corrections import correct, lived

Start = Callable[..., Service]

SECRET = "secret-41"  # as in conftest.py


def lines_of(service: Service) -> list[dict[str, Any]]:
    """The log of a service that writes JSON and has ended."""
    found = [json.loads(line) for line in service.log]
    for line in found:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
        assert line["level"] in ("debug", "info", "warning", "error", "critical")
        assert line["logger"] and line["message"]
    return found


def test_a_start_and_a_stop_are_a_line_each(start: Start) -> None:
    service = start(log_format="json", durability="process")
    assert service.stop() == 0
    began, ended = lines_of(service)
    assert began["level"] == ended["level"] == "info"
    assert began["address"] == service.url and service.url in began["message"]
    assert began["version"] == version("novikoff") and began["durability"] == "process"
    assert began["data"] == str(service.data)
    assert ended["message"] == "stopped" and ended["ran_seconds"] > 0


def test_on_a_console_a_line_has_its_time_its_level_and_its_fields(start: Start) -> None:
    service = start()
    service.stop()
    began, ended = service.log
    assert re.match(r"20\d\d-\S+Z info     running on http://127.0.0.1:\d+ ", began)
    assert " durability=power" in began and f" data={service.data}" in began
    assert re.search(r"Z info     stopped ran_seconds=[\d.]+\n", ended)


def test_what_is_not_http_is_told_in_a_line(start: Start) -> None:
    service = start(log_format="json")
    address = service.client.base_url
    with socket.create_connection((address.host, address.port or 0), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(b"this is not HTTP\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 400 ")
    service.stop()
    (line,) = (line for line in lines_of(service) if line["message"].startswith("refused: "))
    assert line["level"] == "warning" and "HTTP/1.1" in line["message"] and line["others"] == 0


def test_a_drift_is_a_line_with_its_model_and_its_round(start: Start) -> None:
    service = start(log_format="json")
    rounds = [{"features": [1.0], "label": 1 if i < 1000 else -1 if i % 2 else 1} for i in range(2000)]
    body = "\n".join(map(json.dumps, rounds)).encode()
    headers = {"content-type": "application/x-ndjson"}
    service.client.post("/stream?model=wind&answers=summary", content=body, headers=headers)
    drifts = service.stats("wind")["drift"]["count"]
    assert drifts >= 1
    service.stop()
    told = [line for line in lines_of(service) if line["message"].startswith("drift")]
    assert [line["drifts"] for line in told] == list(range(1, drifts + 1))
    assert all(line["level"] == "warning" and line["model"] == "wind" for line in told)


def test_a_drift_is_told_with_the_round_that_it_was_found_at_also_within_a_block(start: Start) -> None:
    service = start(log_format="json")
    good, bad = (
        {"features": [1.0], "label": 1},
        [{"features": [1.0], "label": 1 - 2 * (i % 2)} for i in range(500)],
    )
    rounds = [good] * 900 + bad + [good] * 2500 + bad + [good] * 300
    body = "\n".join(map(json.dumps, rounds)).encode()
    headers = {"content-type": "application/x-ndjson"}
    service.client.post("/stream?model=wind&answers=summary", content=body, headers=headers)
    found = rises_one_by_one(service.recorded("wind"))
    assert len(found) >= 2
    assert service.stats("wind")["drift"]["last_round"] == found[-1]

    def trail() -> list[int]:
        events = service.get("/models/wind/events?limit=1000")["events"]
        return [event["round"] for event in events if event["kind"] == "drift"]

    eventually(lambda: trail() == found, otherwise=f"{trail()} instead of {found}")
    service.stop()
    told = [line for line in lines_of(service) if line["message"].startswith("drift")]
    assert [line["round"] for line in told] == found
    assert [line["drifts"] for line in told] == list(range(1, len(found) + 1))


def rises_one_by_one(recorded: list[Recorded]) -> list[int]:
    """At which rounds the error is found to have risen, if none of them is learned together with another."""
    created = recorded[0].event
    assert isinstance(created, ModelCreated)
    model, found = Model(created), []
    for event in (each.event for each in recorded[1:]):
        alone: list[AnyEvent] = [event]
        if isinstance(event, RoundsLearned):
            sent = zip(event.labels, features_of(event), strict=True)
            alone = [RoundLearned("wind", event.at, None, label, features) for label, features in sent]
        for each in alone:
            model.apply(each)
            if model.statistics.drift_count > len(found):
                found.append(model.revealed)
    return found


def test_an_overload_is_told_once_a_second_however_many_clients_it_meets(start: Start) -> None:
    service = start(log_format="json", queue_events_max=1)
    service.learn("m", [1.0], 1)

    answered: list[httpx.Response] = []

    async def crowd() -> None:
        limits = httpx.Limits(max_connections=50)
        async with httpx.AsyncClient(
            base_url=service.url, timeout=PATIENCE_SECONDS, verify=NO_TLS, limits=limits
        ) as client:
            body = {"items": [{"model": "m", "features": [1.0], "label": 1}] * 100}

            async def send() -> None:
                answered.append(await client.post("/learn", json=body))

            await asyncio.gather(*(send() for _ in range(20)))

    writer = service.writer_pid
    os.kill(writer, signal.SIGSTOP)
    sending = Thread(target=lambda: asyncio.run(crowd()))
    sending.start()
    try:
        eventually(
            lambda: len(answered) > 10
        )  # those of which no item was taken; the others wait for the disk
    finally:
        os.kill(writer, signal.SIGCONT)
        sending.join()
    items = [item for answer in answered for item in answer.json()["items"]]
    refused = [item["error"]["status"] for item in items if "error" in item]
    assert len(items) == 2_000 and len(refused) > 1_000 and set(refused) == {503}
    service.stop()
    *told, ended = lines_of(service)
    overloads = [line for line in told if line["message"].startswith("overloaded")]
    seconds = ended["ran_seconds"]
    assert 1 <= len(overloads) <= seconds + 1
    assert overloads[0]["level"] == "warning" and overloads[0]["others"] == 0
    assert sum(1 + line["others"] for line in overloads) <= len(refused)


def test_a_journal_that_cannot_be_written_is_told_and_so_is_its_recovery(start: Start) -> None:
    service = start(log_format="json")
    service.learn("m", [1.0], 1)
    soft, hard = resource.prlimit(service.writer_pid, resource.RLIMIT_FSIZE)
    resource.prlimit(service.writer_pid, resource.RLIMIT_FSIZE, (1, hard))
    body = {"model": "m", "features": [1.0], "label": 1}
    for _ in range(20):
        assert service.client.post("/learn", json=body).status_code == 503
    resource.prlimit(service.writer_pid, resource.RLIMIT_FSIZE, (soft, hard))
    service.learn("m", [1.0], 1)
    assert "novikoff_journal_failures_total 20.0" in service.client.get("/metrics").text
    service.stop()
    _, failed, *more, ended = lines_of(service)
    assert failed["level"] == "error" and failed["message"].startswith("the journal cannot be written: ")
    assert failed["events"] == 1
    assert sum(line["message"] == "the journal can be written again" for line in more) == 1
    assert sum(line["level"] == "error" for line in more) <= ended["ran_seconds"], (
        "one a second, and not one each"
    )


def test_a_journal_process_that_dies_is_a_line_before_the_service_ends(start: Start) -> None:
    service = start(log_format="json")
    os.kill(service.writer_pid, signal.SIGKILL)
    assert service.wait_for_end() == 1
    assert lines_of(service)[-1]["level"] == "critical"


def begin_fit(service: Service) -> None:
    noise = [{"features": [1.0, float(i)], "label": 1 if i % 2 else -1} for i in range(2000)]
    body = {"examples": noise, "passes_max": 1_000_000, "algorithm": "online"}
    assert service.client.post("/models/m/fit", json=body).status_code in (202, 409)


def begin_what_if(service: Service) -> None:
    body = {"grid": [{"learner": {"algorithm": "arow"}}]}
    assert service.client.post("/models/m/replay", json=body).status_code in (202, 409)


def begin_rebuild(service: Service) -> None:
    correct(service, "m-5", -1)
    correct(service, "m-5", 1)


JOBS = [("fit_process", begin_fit), ("play_process", begin_what_if), ("play_process", begin_rebuild)]


@pytest.mark.parametrize("victim", ["service", "child"])
@pytest.mark.parametrize(("module", "begin"), JOBS)
def test_a_kill_amid_a_job_leaves_no_traceback(
    start: Start, module: str, begin: Callable[[Service], None], victim: str
) -> None:
    """The process of the job is stopped while the service is killed, so that it finds it gone when it goes on."""
    service = start(log_format="json")
    lived(service, "m", wrong={}, rounds=40)
    child = None
    while child is None:  # it may be done before it can be stopped
        begin(service)
        child = stopped_worker(service, module)
    if victim == "child":
        os.kill(child, signal.SIGKILL)
        eventually(lambda: not Path(f"/proc/{child}").exists())
        service.learn("m", [1.0, 1.0], 1)
        service.stop()
        assert lines_of(service)[-1]["message"] == "stopped"
        return
    service.process.kill()
    os.kill(child, signal.SIGCONT)
    service.kill()  # its log ends when no process has it open any more
    assert [line["level"] for line in lines_of(service)] in (["info"], ["info", "info"])


def test_an_interrupt_from_the_keyboard_ends_the_processes_of_jobs_and_leaves_no_traceback(
    start: Start,
) -> None:
    service = start(log_format="json")
    lived(service, "m", wrong={}, rounds=40)
    begin_fit(service)
    eventually(lambda: service.child_running("fit_process") > 0, not_yet=ValueError)
    for process in (service.child_running("fit_process"), service.writer_pid, service.pid):
        if os.getpgid(process) == os.getpgid(
            service.pid
        ):  # a terminal interrupts the group in its foreground
            os.kill(process, signal.SIGINT)
    service.wait_for_end()
    assert [line["message"] for line in lines_of(service)][1:] == ["stopped"]


# Requests


@pytest.mark.parametrize("path", ["/predict", "/stream?model=m", "/models"])
def test_the_id_of_a_request_comes_back_with_its_answer(path: str, service: Service) -> None:
    for chosen in ("a", "~" * 128, "0b7d:4/!\"'\\{}"):
        answer = service.client.post(path, content=b"{", headers={"x-request-id": chosen})
        assert answer.headers.get_list("x-request-id") == [chosen]


@pytest.mark.parametrize("bad", ["", "a b", "~" * 129, "é".encode(), b"a\tb"])
def test_an_id_that_is_not_visible_ascii_counts_as_none(bad: str | bytes, service: Service) -> None:
    slow = service.client.get("/livez", headers={"x-request-id": bad})
    assert re.fullmatch(r"[0-9a-f]{32}", slow.headers["x-request-id"])
    fast = service.client.post("/predict", content=b"{", headers={"x-request-id": bad})
    assert fast.status_code == 415 and "x-request-id" not in fast.headers


def test_requests_without_an_id_get_one_but_for_the_fast_routes(service: Service, name: str) -> None:
    ids = {service.client.get(path).headers["x-request-id"] for path in ("/livez", "/", "/nowhere", "/stats")}
    assert len(ids) == 4
    answer = service.client.post("/predict", json={"model": name, "features": [1.0]})
    assert answer.status_code == 200 and "x-request-id" not in answer.headers


def test_an_unforeseen_error_is_one_line_with_the_request_and_without_features(
    spoiled: Start,
) -> None:
    service = spoiled(log_format="json")
    slow = service.client.get("/models", headers={"x-request-id": "slow-1"})
    assert problem_of(slow) == (500, "internal-error") and slow.headers["x-request-id"] == "slow-1"
    assert "slow-1" in slow.json()["detail"]
    line = b'{"model": "m", "features": [4141.5]}\n'
    kind = {"content-type": "application/x-ndjson"}
    fast = service.client.post("/stream", content=line, headers=kind | {"x-request-id": "fast-1"})
    assert fast.json()["error"]["code"] == "internal-error" and "fast-1" in fast.json()["error"]["detail"]
    made = service.client.post("/stream", content=line, headers=kind).json()["error"]["detail"]
    service.stop()
    _, first, second, third, _ = lines_of(service)
    assert (first["request_id"], second["request_id"]) == ("slow-1", "fast-1")
    assert re.fullmatch(r"[0-9a-f]{32}", third["request_id"]) and third["request_id"] in made
    for told in (first, second, third):
        assert told["level"] == "error" and told["message"].startswith("unexpected error: ")
        assert 'File "' in told["exception"]
    assert SECRET not in "".join(service.log) and "4141" not in "".join(service.log)


def test_lines_name_the_trace_that_a_request_belongs_to(spoiled: Start) -> None:
    service = spoiled(log_format="json")
    trace_id, span_id = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    good = f"00-{trace_id}-{span_id}-01"
    later = f"cc-{trace_id}-{span_id}-01-more"
    bad = (f"00-{'0' * 32}-{span_id}-01", f"ff-{trace_id}-{span_id}-01", f"{good}-more", "no trace")
    body = {"model": "m", "features": [1.0]}
    for traceparent in (good, later, *bad):
        headers = {"traceparent": traceparent}
        assert service.client.get("/models", headers=headers).status_code == 500
        assert service.client.post("/predict", json=body, headers=headers).status_code == 500
    service.stop()
    told = [(line.get("trace_id"), line.get("span_id")) for line in lines_of(service) if "exception" in line]
    assert told == [(trace_id, span_id)] * 4 + [(None, None)] * 2 * len(bad)


def test_what_clients_sent_is_in_the_log_only_if_asked_for(spoiled: Start) -> None:
    service = spoiled(log_features="true")
    body = {"model": "m", "features": [4141.5]}
    assert service.refused("/predict", body) == (500, "internal-error")
    service.stop()
    log = "".join(service.log)
    assert re.search(r' error    unexpected error: \w+ request_id=[0-9a-f]{32} sent="{.*4141\.5.*}"\n', log)
    assert "Traceback (most recent call last):" in log and SECRET in log


def test_an_id_does_not_stay_with_the_connection(spoiled: Start) -> None:
    service = spoiled(log_format="json")
    head = b"POST /stream HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\n"
    line = b'{"model": "m", "features": [1.0]}\n'
    request = head + b"content-length: %d\r\n%s\r\n" + line
    url = httpx.URL(service.url)
    with socket.create_connection((url.host, url.port)) as connection:
        # Both at once: the second begins within the answer of the first.
        first = request % (len(line), b"x-request-id: mine\r\n")
        connection.sendall(first + request % (len(line), b"connection: close\r\n"))
        connection.settimeout(PATIENCE_SECONDS)
        while connection.recv(65536):
            pass
    service.stop()
    ids = [line["request_id"] for line in lines_of(service) if line["level"] == "error"]
    assert ids[0] == "mine" and len(ids) == 2 and ids[1] != "mine"
