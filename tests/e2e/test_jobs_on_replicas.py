"""A fit runs on one replica of a cluster, and every replica tells of it and cancels it."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api_keys import Holder, lines_of
from tests.support.nats_servers import NatsCluster, NatsServer
from tests.support.replicas import Replica, answered
from tests.support.service_process import Service, problem_of
from tests.support.waiting import eventually

ENDLESS = {
    # Both labels for one point: no weights are right for all, so every pass has mistakes and another one follows.
    "examples": [{"features": [1.0, 0.5], "label": label} for label in (1, -1)] * 200,
    "passes_max": 1_000_000,
    "algorithm": "online",
}


@pytest.fixture(scope="module")
def replicas(nats_cluster: NatsCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Service]]:
    settings = nats_cluster.settings("jobs")
    data = tmp_path_factory.mktemp("none")
    started = [Replica(data, **settings).start() for _ in range(2)]
    yield started
    for service in started:
        service.close()


def fit(service: Service, model: str, body: dict[str, Any]) -> str:
    return str(service.post(f"/models/{model}/fit", body)["id"])


@pytest.mark.smoke
def test_every_replica_tells_how_far_a_job_is_and_what_came_of_it(replicas: list[Service]) -> None:
    one, other = replicas
    one.create("told")
    examples = [{"features": [float(i), 1.0], "label": 1 if i > 5 else -1} for i in range(10)]
    job = fit(one, "told", {"examples": examples, "passes_max": 1000})
    assert other.get(f"/jobs/{job}")["model"] == "told"
    eventually(lambda: other.get(f"/jobs/{job}")["state"] == "done")
    assert other.get(f"/jobs/{job}") == one.get(f"/jobs/{job}")


def test_another_replica_cancels_a_job(replicas: list[Service]) -> None:
    one, other = replicas
    one.create("cancelled")
    job = fit(one, "cancelled", ENDLESS)
    eventually(lambda: other.get(f"/jobs/{job}")["progress"] is not None)
    answer = answered(lambda: other.client.delete(f"/jobs/{job}"))
    assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
    assert one.get(f"/jobs/{job}")["state"] == "cancelled"
    assert one.stats("cancelled")["version"] == 0


def test_a_job_that_no_replica_has_is_unknown(replicas: list[Service]) -> None:
    one, other = replicas
    one.create("known")
    job = fit(one, "known", {"examples": ENDLESS["examples"], "passes_max": 1})
    elsewhere = ("e" if job[0] == "f" else "f") + job[1:]
    for unknown in ("nonsense", job[:-1], job + "0", elsewhere, f"{job[:20]}-", "a-b.c>*"):
        answer = answered(lambda unknown=unknown: other.client.get(f"/jobs/{unknown}"))  # type: ignore[misc]
        assert problem_of(answer) == (404, "unknown-job"), unknown


def test_a_replica_that_hangs_with_its_job_is_told_apart_from_one_that_is_gone(
    nats_cluster: NatsCluster, replicas: list[Service], tmp_path: Path
) -> None:
    third = Replica(tmp_path, **nats_cluster.settings("jobs")).start()
    try:
        third.create("hanging")
        job = fit(third, "hanging", ENDLESS)
        third.process.send_signal(signal.SIGSTOP)
        assert problem_of(replicas[0].client.get(f"/jobs/{job}")) == (503, "journal-unavailable")
        third.process.send_signal(signal.SIGCONT)
        eventually(lambda: replicas[0].client.get(f"/jobs/{job}").status_code == 200)
        third.kill()  # of which the servers tell each other in their own time
        eventually(lambda: problem_of(replicas[0].client.get(f"/jobs/{job}")) == (404, "unknown-job"))
    finally:
        third.close()


LIMITED = """
authorization {
  users: [{
    user: replica, password: secret
    permissions: { publish: ["novikoff.>", "$JS.API.>", "_INBOX.>"], subscribe: ["novikoff.>", "_INBOX.>"] }
  }]
}
"""


def test_a_user_with_no_more_subjects_than_the_documents_name_is_enough(tmp_path: Path) -> None:
    server = NatsServer(tmp_path / "nats", more=LIMITED).start()
    server.wait_until_healthy()
    settings = {**server.settings("novikoff"), "nats_user": "replica", "nats_password": "secret"}
    started: list[Service] = []
    try:
        started += [Replica(tmp_path, **settings).start() for _ in range(2)]
        one, other = started
        other.reveal(one.predict("limited", [1.0, 0.5])["prediction_id"], 1)
        job = fit(one, "limited", {"examples": ENDLESS["examples"], "passes_max": 1})
        assert other.get(f"/jobs/{job}")["model"] == "limited"
        assert "denied" not in (server.directory / "log").read_text().lower()
    finally:
        for service in started:
            service.close()
        server.kill()


def test_a_tenant_does_not_learn_of_anothers_job_by_asking_another_replica(
    nats_cluster: NatsCluster, tmp_path: Path
) -> None:
    acme, rival = Holder("acme", "admin", prefix="acme-"), Holder("rival", "admin", prefix="rival-")
    settings = {**nats_cluster.settings("tenants"), "api_keys": lines_of(acme, rival)}
    started = [Replica(tmp_path, **settings).start() for _ in range(2)]
    try:
        one, other = started
        mine, theirs = acme.at(one), rival.at(other)
        mine.post("/models", {"model": "acme-spam"})
        job = mine.post("/models/acme-spam/fit", ENDLESS).json()["id"]
        for ask in (lambda: theirs.get(f"/jobs/{job}"), lambda: theirs.client.delete(f"/jobs/{job}")):
            assert problem_of(answered(ask)) == (404, "unknown-job")
        assert mine.get(f"/jobs/{job}").json()["state"] == "running"
    finally:
        for service in started:
            service.close()
