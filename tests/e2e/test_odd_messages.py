"""What a replica does with messages that it cannot understand: of a newer version, damaged, or ahead of its clock."""

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import numpy as np
import pytest

from service.engine.clock import AHEAD_MAX_US
from service.engine.names import made_at
from service.events import ModelReset, PredictionsExpired, RoundLearned
from service.journal.codec import encode
from service.journal.jetstream.messages import wrap
from service.journal.jetstream.subjects import Subjects
from service.journal.seals import seal
from tests.support.nats_servers import NatsServer
from tests.support.replicas import Replica
from tests.support.service_process import Service, problem_of
from tests.support.waiting import PATIENCE_SECONDS, eventually

YEARS_US = 10 * 365 * 86_400 * 10**6


class Cluster:
    """A service's streams, and what somebody else writes into them."""

    def __init__(self, server: NatsServer, prefix: str, directory: Path) -> None:
        self.server = server
        self.prefix = prefix
        self.subjects = Subjects(prefix)
        self.services: list[Service] = []
        self._directory = directory

    def start(self, **settings: Any) -> Service:
        given = {"nats_seconds": 5, **settings}
        service = Replica(self._directory, **self.server.settings(self.prefix), **given)
        self.services.append(service)
        return service.start()

    def ask(self, subject: str, payload: bytes) -> bytes:
        """Publish, or ask the servers for something."""

        async def asking() -> bytes:
            client = await nats.connect(self.server.url)
            answer = await client.request(subject, payload, timeout=PATIENCE_SECONDS)
            await client.close()
            return answer.data

        answer = asyncio.run(asking())
        assert b'"error"' not in answer, answer
        return answer

    def append(self, service: Service, model: str, event: object) -> None:
        life = service.recorded(model)[0].seq
        subject = self.subjects.event(life, model, None)
        self.ask(subject, seal(wrap(os.urandom(12), encode(event)), subject))


@pytest.fixture
def cluster(nats_server: NatsServer, tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(nats_server, f"odd{time.time_ns()}", tmp_path)
    yield cluster
    for service in cluster.services:
        service.close()


def damaged_round(model: str) -> RoundLearned:
    return RoundLearned(model, time.time_ns() // 1000, None, 1, np.ones(7).tobytes())


def of_a_newer_version(model: str) -> tuple[str, str, int]:
    return ("brand-new", model, time.time_ns() // 1000)


@pytest.mark.smoke
def test_an_event_of_a_newer_version_stops_the_replica_and_is_never_skipped(cluster: Cluster) -> None:
    service = cluster.start()
    service.learn("m", [1.0, 2.0], 1)
    service.learn("n", [1.0, 2.0], 1)
    cluster.append(service, "m", of_a_newer_version("m"))
    assert service.wait_for_end() == 1, "".join(service.log)
    assert "cannot be applied: stopping" in "".join(service.log)


def test_a_replica_that_starts_on_an_event_of_a_newer_version_says_so(cluster: Cluster) -> None:
    service = cluster.start()
    service.learn("m", [1.0, 2.0], 1)
    cluster.append(service, "m", of_a_newer_version("m"))
    assert service.wait_for_end() == 1
    service.log.clear()
    with pytest.raises(AssertionError):
        service.start()
    assert service.wait_for_end() == 2, "".join(service.log)
    assert "written by a newer version" in service.log[-1] and "Traceback" not in "".join(service.log)


@pytest.mark.smoke
def test_only_the_model_with_the_damage_is_set_aside_also_after_a_restart(cluster: Cluster) -> None:
    service = cluster.start()
    service.learn("m", [1.0, 2.0], 1)
    service.learn("n", [1.0, 2.0], 1)
    cluster.append(service, "m", damaged_round("m"))
    eventually(lambda: service.client.get("/stats/m").status_code == 503)
    assert problem_of(service.client.get("/stats/m")) == (503, "model-damaged")
    assert service.learn("n", [1.0, 2.0], 1)["rounds"] == 2
    service.restart()
    assert problem_of(service.client.get("/stats/m")) == (503, "model-damaged")
    assert service.learn("n", [1.0, 2.0], 1)["rounds"] == 3
    service.assert_replay_equals_live("n")


def test_an_id_that_cannot_be_read_lets_no_request_hang(cluster: Cluster) -> None:
    service = cluster.start()
    service.learn("m", [1.0, 2.0], 1)
    subject = cluster.subjects.id("odd")
    cluster.ask(subject, seal(b"\xc1", subject))
    example = {"model": "m", "features": [1.0, 2.0], "id": "odd"}
    for path, body in (
        ("/learn", {**example, "label": 1}),
        ("/predict", example),
        ("/feedback", {"prediction_id": "odd", "label": 1}),
    ):
        assert service.refused(path, body) == (503, "journal-unavailable"), path
    assert service.learn("m", [1.0, 2.0], 1)["rounds"] == 2


def test_a_stream_that_is_gone_is_told_of_and_ends_no_part_of_the_service(cluster: Cluster) -> None:
    service = cluster.start(models_loaded_max=1)
    service.learn("a", [1.0, 2.0], 1)
    service.learn("b", [1.0, 2.0], 1)
    cluster.ask(f"$JS.API.STREAM.DELETE.{cluster.subjects.state}", b"")
    answer = service.client.get("/stats/a")
    assert problem_of(answer) == (503, "journal-unavailable")
    assert "stream not found" in answer.json()["detail"]
    service.wait_for_log("housekeeping is postponed")
    assert not any("background task" in line for line in service.log), "".join(service.log)


def test_a_clock_that_is_years_ahead_takes_no_other_along(cluster: Cluster) -> None:
    a, b = cluster.start(), cluster.start()
    a.learn("m", [1.0, 2.0], 1)
    a.learn("n", [1.0, 2.0], 1)
    ahead = time.time_ns() // 1000 + YEARS_US
    row = np.ones(2).tobytes()
    cluster.append(a, "m", RoundLearned("m", ahead, None, -1, row))
    cluster.append(a, "m", PredictionsExpired("m", ahead + 1, 1, ahead + 1))
    cluster.append(a, "m", ModelReset("m", ahead + 2))
    cluster.append(a, "m", RoundLearned("m", ahead + 3, None, -1, row))
    for replica in (a, b):
        eventually(lambda replica=replica: replica.stats("m")["rounds"]["revealed"] == 1)  # type: ignore[misc]
        replica.wait_for_log("seconds ahead of the system clock")
        made = made_at(replica.predict("n", [1.0, 2.0])["prediction_id"])
        assert made is not None and made <= time.time_ns() // 1000 + AHEAD_MAX_US
    for server, other in ((a, b), (b, a)):
        served = server.predict("m", [1.0, 2.0])["prediction_id"]
        assert other.reveal(served, 1)["label"] == 1, "what is ahead voids nothing that comes after it"
    version = a.stats("m")["version"]
    eventually(lambda: b.stats("m")["version"] == version)
    for replica in (a, b):
        replica.assert_replay_equals_live("m")
    a.restart()
    made = made_at(a.predict("n", [1.0, 2.0])["prediction_id"])
    assert made is not None and made <= time.time_ns() // 1000 + AHEAD_MAX_US
