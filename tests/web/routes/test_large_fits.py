"""Fits whose bodies are large: read where nobody else waits for it, and answered like small ones."""

import json
import os
import signal
import time
from collections.abc import Callable
from threading import Thread
from typing import Any

import httpx
import pytest

from service.engine.jobs.fit_process import READ_HERE_BYTES_MAX, UnreadFit, encode_examples
from service.engine.models.model import Model
from service.events import ModelCreated
from tests.support.process_usage import cpu_seconds
from tests.support.service_process import NO_TLS, Service
from tests.support.waiting import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.slow

Start = Callable[..., Service]

JSON = {"content-type": "application/json"}
NDJSON = {"content-type": "application/x-ndjson"}
PADDING = b" " * READ_HERE_BYTES_MAX
"""Makes any body large, and changes nothing else."""


def fitted(service: Service, name: str, body: bytes, kind: dict[str, str], query: str = "") -> httpx.Response:
    """What a fit is answered, once there is room for one."""
    answers: list[httpx.Response] = []

    def has_room() -> bool:
        answers.append(service.client.post(f"/models/{name}/fit{query}", content=body, headers=kind))
        return answers[-1].status_code not in (409, 503)

    eventually(has_room, otherwise="there is never room for a fit")
    return answers[-1]


def done(service: Service, job: dict[str, Any]) -> dict[str, Any]:
    eventually(lambda: service.get(f"/jobs/{job['id']}")["state"] != "running")
    return service.get(f"/jobs/{job['id']}")


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"nonsense",
        b'{"examples": [',
        b'{"examples": [], "source": "history"}',
        b'{"source": "elsewhere"}',
        b'{"examples": []}',
        b'{"examples": [{"features": [1.0], "label": 1}]}',
        b'{"examples": [{"features": [1.0, 1e999], "label": 1}]}',
        b'{"examples": [{"features": [1.0, 2.0], "label": "x"}]}',
        b'{"examples": [{"features": [1.0, 2.0], "label": 1.5}]}',
        b'{"examples": [{"features": [1.0, 2.0]}]}',
        b'{"examples": [{"features": [1.0, 2.0], "label": 1, "colour": 2}]}',
        b'{"examples": [{"features": [1.0, 2.0], "label": 1}], "speed": 3}',
        b'{"examples": [{"features": [1.0, 2.0], "label": 1}], "passes_max": 0}',
        b'\xff',
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_as_for_a_small_one(service: Service, name: str, body: bytes) -> None:
    service.learn(name, [1.0, 2.0], 1)
    small, large = fitted(service, name, body, JSON), fitted(service, name, body + PADDING, JSON)
    assert small.status_code == large.status_code >= 400
    assert small.json() == large.json()


def test_a_bad_line_is_told_by_its_number(service: Service, name: str) -> None:
    service.learn(name, [1.0, 2.0], 1)
    lines = b'{"features": [1.0, 2.0], "label": 1}\n' * 10_000 + b'{"features": [1.0, 2.0]}\n'
    refused = fitted(service, name, lines, NDJSON)
    assert refused.status_code == 422 and refused.json()["errors"][0]["field"] == "examples[10000]"
    assert fitted(service, name, lines[:-25], NDJSON, "?speed=3").json()["errors"][0]["field"] == "speed"
    assert service.stats(name)["version"] == 1


@pytest.mark.parametrize("as_lines", [False, True])
def test_a_large_fit_gives_what_a_small_one_gives(service: Service, name: str, as_lines: bool) -> None:
    examples = [
        {"features": [1.0, (i * 7 % 11) - 5.0], "label": 1 if i * 7 % 11 > 5 else -1} for i in range(200)
    ]
    if as_lines:
        body, kind, query = "\n".join(map(json.dumps, examples)).encode(), NDJSON, "?passes_max=50"
    else:
        body, kind, query = json.dumps({"examples": examples, "passes_max": 50}).encode(), JSON, ""
    weights = []
    for model, sent in ((f"{name}-small", body), (f"{name}-large", body + b"\n" + PADDING)):
        service.create(model)
        answer = fitted(service, model, sent, kind, query)
        assert answer.status_code == 202, answer.text
        assert answer.json()["examples"] == 200 and answer.json()["options"]["passes_max"] == 50
        assert done(service, answer.json())["state"] == "done"
        weights.append(service.weights(model))
        service.assert_replay_equals_live(model)
    assert weights[0] == weights[1]


def test_the_service_itself_does_not_read_a_large_fit(start: Start) -> None:
    """It uses less processor time than the reading takes, which others would have to wait for."""
    service = start()
    service.create("m", features={"kind": "dense", "dimension": 20})
    example = {"features": [0.123456789 + i for i in range(20)], "label": 1}
    body = json.dumps({"examples": [example] * 80_000, "passes_max": 1}).encode()
    assert len(body) > 20_000_000

    began = time.process_time()
    (created,) = [each.event for each in service.recorded("m")]
    assert isinstance(created, ModelCreated)
    sent = UnreadFit(body, is_lines=False, options={}).read()
    assert sent.examples is not None and len(encode_examples(Model(created), sent.examples)) == 80_000
    reading = time.process_time() - began

    before = cpu_seconds(service.process.pid)
    job = fitted(service, "m", body, JSON)
    used = cpu_seconds(service.process.pid) - before
    assert job.status_code == 202 and job.json()["examples"] == 80_000
    # A fifth of it, for taking the body; one and a fifth if the service were to read it itself.
    assert used < reading * 2 / 3, f"{used:.2f} s of the processor, where reading takes {reading:.2f} s"


@pytest.mark.thorough
def test_while_a_large_fit_is_read_others_are_answered(start: Start) -> None:
    service = start()
    service.create("m", features={"kind": "dense", "dimension": 20})
    example = {"features": [0.123456789 + i for i in range(20)], "label": 1}
    body = json.dumps({"examples": [example] * 50_000}).encode()
    answers: list[httpx.Response] = []

    def fit() -> None:
        answers.append(service.client.post("/models/m/fit", content=body, headers=JSON))

    def are_answered() -> bool:
        """While the process that reads stands still; on a slow machine it may have read all of it before."""
        fitting = Thread(target=fit)
        fitting.start()
        eventually(lambda: service.child_running("fit_process") > 0, not_yet=ValueError)
        reader = service.child_running("fit_process")
        os.kill(reader, signal.SIGSTOP)
        with httpx.Client(base_url=service.url, timeout=PATIENCE_SECONDS, verify=NO_TLS) as other:
            served = [other.get("/livez").status_code for _ in range(20)]
        was_reading = fitting.is_alive()
        os.kill(reader, signal.SIGCONT)
        fitting.join()
        assert answers[-1].status_code == 202 and served == [200] * 20
        cancelled = service.client.delete(answers[-1].headers["location"])
        assert cancelled.json()["state"] in ("cancelled", "failed")
        return was_reading

    eventually(are_answered)
