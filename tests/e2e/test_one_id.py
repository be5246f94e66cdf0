"""One id, one example: whatever is sent with the same id at the same moment, and to whichever replica."""

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from service.events import RoundLearned, RoundRevealed
from tests.support.concurrent_requests import at_once
from tests.support.nats_servers import NatsServer
from tests.support.replicas import Replica
from tests.support.service_process import Service, problem_of

TIMES = 12
SAME, OTHER = [1.0, 2.0], [3.0, 4.0]
Example = tuple[str, tuple[float, ...]]
PATHS = {RoundRevealed: "/predict", RoundLearned: "/learn"}
TAKEN = (409, "prediction-id-taken")


def predict(features: list[float]) -> tuple[str, dict[str, Any]]:
    return "/predict", {"features": features}


def learn(features: list[float], label: int = -1) -> tuple[str, dict[str, Any]]:
    return "/learn", {"features": features, "label": label}


RACES = {
    "predict and learn": (predict(SAME), learn(SAME)),
    "predict and learn another example": (predict(SAME), learn(OTHER)),
    "predict two examples": (predict(SAME), predict(OTHER)),
    "learn two examples": (learn(SAME), learn(OTHER)),
    "predict twice": (predict(SAME), predict(SAME)),
    "learn twice": (learn(SAME), learn(SAME)),
}


@pytest.fixture(scope="module")
def replicas(nats_server: NatsServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Service]]:
    settings = nats_server.settings("one-id")
    started = [Replica(tmp_path_factory.mktemp("none"), **settings).start() for _ in range(2)]
    yield started
    for service in started:
        service.close()


def race(services: list[Service], model: str, chosen: str, kinds: str, others: int = 0) -> Example:
    """Send two kinds of requests with one id, `others` more of each too, then reveal it: what was accepted."""
    first, second = RACES[kinds]
    senders = [(services[0], first), (services[-1], second)]
    senders += [(services[at % len(services)], (first, second)[at // 2 % 2]) for at in range(4 * others)]
    answers = at_once([(one, path, {"model": model, "id": chosen, **body}) for one, (path, body) in senders])
    accepted = {
        (path, tuple(body["features"]))
        for (_, (path, body)), answer in zip(senders, answers, strict=True)
        if answer.status_code == 200
    }
    refusals = {problem_of(answer) for answer in answers if answer.status_code != 200}
    assert len(accepted) == 1, [answer.text for answer in answers]
    assert refusals == (set() if first == second else {TAKEN}), [answer.text for answer in answers]
    for one in services:
        one.reveal(chosen, -1)
    return accepted.pop()


def assert_learned(service: Service, model: str, accepted: dict[str, Example]) -> None:
    """Each id was learned once, with the features that were accepted."""
    learned = [
        (event.prediction_id, (PATHS[type(event)], struct.unpack("<2d", event.features)))
        for event in (recorded.event for recorded in service.recorded(model))
        if isinstance(event, RoundLearned | RoundRevealed) and event.prediction_id is not None
    ]
    assert learned == list(accepted.items())


@pytest.mark.parametrize("kinds", RACES)
def test_of_two_requests_with_one_id_on_two_replicas_one_counts(replicas: list[Service], kinds: str) -> None:
    model = kinds.replace(" ", "-")
    replicas[0].create(model)
    replicas[0].learn(model, SAME, 1)
    replicas[1].predict(model, SAME, min_version=1)
    ids = [f"{model}-{i}" for i in range(TIMES)]
    assert_learned(replicas[0], model, {chosen: race(replicas, model, chosen, kinds) for chosen in ids})


@pytest.mark.parametrize("kinds", RACES)
def test_an_id_that_another_replica_may_win_is_answered_by_nobody_before(
    replicas: list[Service], kinds: str
) -> None:
    """Several requests with one id at the same replica, while the cluster has not yet decided whose it is."""
    model = f"several-{kinds.replace(' ', '-')}"
    replicas[0].learn(model, SAME, 1)
    replicas[1].predict(model, SAME, min_version=1)
    ids = [f"{model}-{i}" for i in range(TIMES)]
    accepted = {chosen: race(replicas, model, chosen, kinds, others=2) for chosen in ids}
    assert_learned(replicas[0], model, accepted)


@pytest.mark.parametrize("kinds", RACES)
def test_of_two_requests_with_one_id_for_a_model_that_is_not_loaded_one_counts(
    start: Callable[..., Service], kinds: str
) -> None:
    service = start(models_loaded_max=1)
    model, other = "m", "other"
    service.learn(model, SAME, 1)
    accepted = {}
    for i in range(TIMES):
        service.learn(other, SAME, 1)  # which unloads the first
        chosen = f"{kinds.replace(' ', '-')}-{i}"
        accepted[chosen] = race([service], model, chosen, kinds, others=i % 2)
    assert_learned(service, model, accepted)
