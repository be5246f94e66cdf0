"""Large answers are made from copies of models, as clients take them: those who take nothing do not fill the memory."""

import socket
from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
import pytest

from tests.support.api_keys import Holder, lines_of
from tests.support.process_usage import peak_bytes, restart_peak
from tests.support.service_process import Service, problem_of
from tests.support.waiting import eventually
from tests.web.test_budgets import gauge

pytestmark = pytest.mark.thorough

Start = Callable[..., Service]

DIMENSION = 60_000
LABELS = list(range(24))
"""So many that no form of it fits into what the system keeps for a connection."""
COPY_BYTES = 8 * (DIMENSION + 1) * len(LABELS)
PATIENT = {"request_timeout_seconds": 3_600}
"""An answer may be left untaken for longer than any test takes."""
FORMS = ["export", "export?format=sklearn", "export?format=onnx", "weights", "weights?largest=1000"]


def make_large(service: Service, name: str) -> None:
    service.create(name, labels=LABELS, features={"kind": "dense", "dimension": DIMENSION})
    for label in LABELS:
        service.learn(name, np.random.default_rng(label).normal(size=DIMENSION).round(3).tolist(), label)


def ask(service: Service, path: str, until: ExitStack, key: str = "") -> socket.socket:
    """Ask for something, and take only the head of the answer."""
    address = service.client.base_url
    untaken = until.enter_context(socket.socket())
    untaken.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    untaken.connect((address.host, address.port or 0))
    authorization = f"authorization: Bearer {key}\r\n" if key else ""
    untaken.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n{authorization}\r\n".encode())
    return untaken


def status(untaken: socket.socket) -> int:
    return int(untaken.recv(12)[9:])


@pytest.mark.parametrize("path", [form for form in FORMS if "largest" not in form])
def test_answers_that_nobody_takes_keep_no_more_copies_than_may_be(start: Start, path: str) -> None:
    service = start(copies_bytes_max=2 * COPY_BYTES, **PATIENT)
    make_large(service, "large")
    service.client.get(f"/models/large/{path}")
    restart_peak(service.process.pid)
    before = peak_bytes(service.process.pid)
    with ExitStack() as until:
        told = [status(ask(service, f"/models/large/{path}", until)) for _ in range(10)]
        assert told.count(200) == 2 and told.count(503) == 8
        assert gauge(service, "novikoff_budget_bytes", "copies") == 2 * COPY_BYTES
        assert peak_bytes(service.process.pid) - before < 4 * COPY_BYTES
        refused = service.client.get(f"/models/large/{path}")
        assert problem_of(refused) == (503, "overloaded") and refused.headers["retry-after"]
        assert service.learn("small", [1.0], 1)["rounds"] == 1
        assert service.client.get(f"/models/small/{path}").status_code == 200
    eventually(lambda: gauge(service, "novikoff_budget_bytes", "copies") == 0)
    assert service.client.get(f"/models/large/{path}").status_code == 200


@pytest.mark.thorough
def test_histories_that_nobody_takes_keep_no_more_models_than_may_be(start: Start) -> None:
    """The rounds of a history are made by a model of their own, which learns them again."""
    service = start(copies_bytes_max=COPY_BYTES, **PATIENT)
    make_large(service, "large")
    service.learn("small", [1.0], 1)
    with ExitStack() as until:
        told = [status(ask(service, "/models/large/history", until)) for _ in range(3)]
        assert told == [200, 503, 503]
        assert problem_of(service.client.get("/models/large/weights")) == (503, "overloaded")
        assert service.client.get("/models/small/history").status_code == 200
    eventually(lambda: gauge(service, "novikoff_budget_bytes", "copies") == 0)
    assert service.client.get("/models/large/history").status_code == 200


@pytest.mark.parametrize("path", FORMS)
@pytest.mark.thorough
def test_one_copy_is_made_however_little_room_there_is(start: Start, path: str) -> None:
    service = start(copies_bytes_max=0)
    make_large(service, "large")
    for _ in range(2):
        assert service.client.get(f"/models/large/{path}").status_code == 200
        eventually(lambda: gauge(service, "novikoff_budget_bytes", "copies") == 0)


def test_a_refused_export_takes_no_room(start: Start) -> None:
    service = start()
    service.create("slots", features={"kind": "hashed", "bits": 18})
    for form in ("sklearn", "onnx"):
        answer = service.client.get(f"/models/slots/export?format={form}")
        assert problem_of(answer) == (422, "invalid-request")
    assert gauge(service, "novikoff_budget_bytes", "copies") == 0


@pytest.mark.thorough
def test_a_tenant_whose_answers_wait_leaves_room_to_others(start: Start) -> None:
    calm, flood, owner = (
        Holder("calm", "read", "calm-"),
        Holder("flood", "read", "flood-"),
        Holder("owner", "admin"),
    )
    service = start(api_keys=lines_of(calm, flood, owner), copies_bytes_max=3 * COPY_BYTES, **PATIENT)
    for holder in (calm, owner):
        holder.at(service)
    service.client.headers.update(owner.headers)
    make_large(service, "flood-large")
    make_large(service, "calm-large")
    with ExitStack() as until:
        told = [status(ask(service, "/models/flood-large/weights", until, flood.secret)) for _ in range(4)]
        assert told == [200, 200, 503, 503]
        assert calm.get("/models/calm-large/weights").status_code == 200
