"""POST /predict with "dry": what would be served, and nothing changed by it."""

from typing import Any

import pytest

from tests.support.service_process import Service, problem_of
from tests.web.test_bad_input import timeless

OVER_EVERY_JOURNAL = True


def dry(service: Service, model: str, features: Any, **more: Any) -> dict[str, Any]:
    return service.predict(model, features, dry=True, **more)


def test_a_dry_run_is_what_would_be_served_and_waits_for_nothing(service: Service, name: str) -> None:
    service.create(name, coverage=0.9, ask={"b": 1.0})
    for number in range(6):
        service.learn(name, [1.0 - number % 2, 2.0], -1 if number % 2 else 1)
    before, events = timeless(service.stats(name)), service.get(f"/models/{name}/events")
    tried = dry(service, name, [1.0, -2.0], explain=2)
    assert timeless(service.stats(name)) == before and service.get(f"/models/{name}/events") == events
    made = service.predict(name, [1.0, -2.0], explain=2)
    del made["ask"]  # a dry run has no label that could be asked for, only the chance of it
    assert tried == made | {"prediction_id": None}
    assert service.stats(name)["rounds"]["pending"] == 1


def test_a_dry_run_makes_no_model(service: Service, name: str) -> None:
    answer = service.client.post("/predict", json={"model": name, "features": [1.0], "dry": True})
    assert problem_of(answer) == (404, "unknown-model")
    assert service.client.get(f"/models/{name}").status_code == 404


@pytest.mark.parametrize("learner", [{}, {"algorithm": "auto"}])
def test_a_dry_run_fixes_no_dimension(service: Service, name: str, learner: dict[str, Any]) -> None:
    service.create(name, **({"learner": learner} if learner else {}))
    assert dry(service, name, [1.0, 2.0, 3.0], explain=3)["label"] == 1
    assert service.get(f"/models/{name}")["dimension"] is None
    service.predict(name, [1.0, 2.0])
    refused = service.client.post("/predict", json={"model": name, "features": [1.0], "dry": True})
    assert problem_of(refused) == (422, "invalid-request")
    assert refused.json()["errors"][0]["field"] == "features"


def test_a_strict_model_is_tried_while_a_label_is_due(service: Service, name: str) -> None:
    service.create(name, protocol="strict")
    service.predict(name, [1.0])
    assert dry(service, name, [1.0])["prediction_id"] is None


def test_an_id_for_a_dry_run_is_refused(service: Service, name: str) -> None:
    service.learn(name, [1.0], 1)
    body = {"model": name, "features": [1.0], "dry": True, "id": "mine"}
    refused = service.client.post("/predict", json=body)
    assert problem_of(refused) == (422, "invalid-request")
    assert refused.json()["errors"][0]["field"] == "id"


def test_several_dry_runs_are_one_request(service: Service, name: str) -> None:
    service.learn(name, [1.0], -1)
    items = [{"model": name, "features": [x], "dry": True} for x in (1.0, -1.0)]
    answers = service.post("/predict", {"items": items})["items"]
    assert [each["label"] for each in answers] == [-1, 1]
    assert service.stats(name)["rounds"]["pending"] == 0
