"""How many models there may be, on several replicas: all of them count what is in the log."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.engine.fleet.models import MADE_AT_ONCE
from tests.support.concurrent_requests import at_once
from tests.support.nats_servers import NatsServer
from tests.support.service_process import Service, problem_of
from tests.support.waiting import eventually

MOST = 20


@pytest.fixture
def replicas(nats_server: NatsServer, tmp_path: Path) -> Iterator[list[Service]]:
    settings = nats_server.settings(f"most-{tmp_path.name}"[:32])
    started = [Service(tmp_path, models_max=MOST, **settings).start() for _ in range(3)]
    yield started
    for service in started:
        service.close()


def names(service: Service) -> list[str]:
    return [line["model"] for line in service.get("/models?limit=1000")["models"]]


def wait_until_all_know(replicas: list[Service], models: int) -> None:
    eventually(lambda: [len(names(one)) for one in replicas] == [models] * len(replicas))


def test_replicas_that_make_models_at_once_make_hardly_more_than_there_may_be(
    replicas: list[Service],
) -> None:
    answers = at_once(
        [(one, "/models", {"model": f"m{at}-{i}"}) for i in range(MOST) for at, one in enumerate(replicas)]
    )
    refused = [problem_of(answer) for answer in answers if answer.status_code != 201]
    made = len(answers) - len(refused)
    assert set(refused) == {(409, "too-many-models")}
    assert MOST <= made <= MOST + MADE_AT_ONCE * (len(replicas) - 1)
    wait_until_all_know(replicas, made)
    for at, replica in enumerate(replicas):
        assert replica.refused("/models", {"model": f"more-{at}"}) == (409, "too-many-models")


def test_models_that_others_have_made_and_deleted_count(replicas: list[Service]) -> None:
    a, b, c = replicas
    for life in range(2):
        for i in range(MOST):
            replica = replicas[i % 3]
            replica.create(f"m{i}")
            wait_until_all_know(replicas, i + 1)
        for replica in replicas:
            assert replica.refused("/models", {"model": "more"}) == (409, "too-many-models"), life
            assert replica.refused("/predict", {"model": "more", "features": [1.0]})[0] == 409
        b.learn("m0", [1.0], 1)
        for name in names(a):
            assert a.client.delete(f"/models/{name}").status_code == 204
        wait_until_all_know(replicas, 0)
    c.create("again")
