"""`pending_ttl_seconds` of a model: its predictions wait for shorter or longer than the service says."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.service_process import Service, problem_of
from tests.support.waiting import eventually

Start = Callable[..., Service]

OVER_EVERY_JOURNAL = True

YEAR = 31_536_000.0
LONG = {"sqlite": YEAR, "jetstream": 600.0}
"""As long as the journal can keep predictions with a short time of the service."""


def predict(service: Service, model: str, count: int = 1) -> list[str]:
    return [service.predict(model, [1.0])["prediction_id"] for _ in range(count)]


def rounds(service: Service, model: str) -> tuple[int, int, int]:
    told = service.stats(model)["rounds"]
    return told["revealed"], told["pending"], told["expired"]


def unload(service: Service) -> None:
    """Use other models until there is no room left for the rest."""
    for other in ("other1", "other2", "other3"):
        service.learn(other, [1.0], 1)


def test_a_model_may_wait_for_a_shorter_time_than_the_service_or_for_a_longer_one(
    start: Start, journal: str
) -> None:
    service = start(pending_ttl_seconds=4)
    service.create("clicks", pending_ttl_seconds=1)
    service.create("charges", pending_ttl_seconds=LONG[journal])
    service.create("usual")
    clicks, charges, usual = (
        predict(service, "clicks", 2),
        predict(service, "charges", 2),
        predict(service, "usual"),
    )
    eventually(lambda: rounds(service, "usual") == (0, 0, 1), otherwise="the service's time is not over")
    assert rounds(service, "clicks") == (0, 0, 2)
    late = service.client.post("/feedback", json={"prediction_id": clicks[0], "label": 1})
    assert late.status_code == 410 and "1 seconds (`pending_ttl_seconds`)" in late.json()["detail"]
    late = service.client.post("/feedback", json={"prediction_id": usual[0], "label": 1})
    assert late.status_code == 410 and "4 seconds (`pending_ttl_seconds`)" in late.json()["detail"]
    assert service.reveal(charges[0], 1)["rounds"] == 1
    service.restart()
    assert service.reveal(charges[1], 1)["rounds"] == 2
    assert rounds(service, "clicks") == (0, 0, 2) and rounds(service, "charges") == (2, 0, 0)
    for model in ("clicks", "charges"):
        service.assert_replay_equals_live(model)


def test_the_time_of_a_model_holds_when_it_is_not_in_memory_and_after_a_restart(
    start: Start, journal: str
) -> None:
    service = start(pending_ttl_seconds=3, models_loaded_max=2)
    service.create("clicks", pending_ttl_seconds=1)
    service.create("soon", pending_ttl_seconds=1, on_expiry=-1)
    service.create("charges", pending_ttl_seconds=LONG[journal])
    predict(service, "clicks", 3)
    predict(service, "soon", 2)
    charges = predict(service, "charges", 3)
    unload(service)
    service.restart()
    usual = predict(service, "other1")
    unload(service)

    def told() -> dict[str, Any]:
        return dict(service.get("/stats?limit=1")["totals"]["rounds"])

    eventually(lambda: told()["pending"] == 3, otherwise="they wait still")
    assert (told()["expired"], told()["revealed"] >= 2) == (4, True)
    assert rounds(service, "clicks") == (0, 0, 3) and rounds(service, "soon") == (2, 0, 0)
    assert service.client.post("/feedback", json={"prediction_id": usual[0], "label": 1}).status_code == 410
    for number, prediction_id in enumerate(charges, 1):
        assert service.reveal(prediction_id, 1)["rounds"] == number


def test_models_that_wait_longer_are_evicted_like_others(start: Start, journal: str) -> None:
    service = start(pending_ttl_seconds=1, pending_total_max=10)
    service.create("charges", pending_ttl_seconds=LONG[journal])
    charges = predict(service, "charges", 5)
    usual = predict(service, "usual", 2)
    eventually(lambda: rounds(service, "usual") == (0, 0, 2))
    predict(service, "charges", 10)
    late = service.client.post("/feedback", json={"prediction_id": charges[0], "label": 1})
    assert late.status_code == 410 and "`pending_total_max`" in late.json()["detail"]
    assert service.client.post("/feedback", json={"prediction_id": usual[0], "label": 1}).status_code == 410


def test_copies_of_a_model_have_its_time(start: Start) -> None:
    service = start()
    service.create("charges", pending_ttl_seconds=60)
    service.learn("charges", [1.0], 1)
    assert service.get("/models/charges")["settings"]["pending_ttl_seconds"] == 60.0
    export = service.client.get("/models/charges/export").json()
    assert service.client.put("/models/copied", json=export).status_code == 201
    service.post("/models/charges/fork", {"as": "forked"})
    service.post("/models/charges/rollback", {"to": 0})
    service.restart()
    for model in ("charges", "copied", "forked"):
        assert service.get(f"/models/{model}")["settings"]["pending_ttl_seconds"] == 60.0
        service.assert_replay_equals_live(model)


@pytest.mark.parametrize("given", [0, 0.5, -1, YEAR + 1, "60", True])
def test_a_time_that_is_out_of_range_is_refused(start: Start, given: Any, name: str) -> None:
    service = start()
    answer = service.client.post("/models", json={"model": name, "pending_ttl_seconds": given})
    assert problem_of(answer) == (422, "invalid-request")
    assert [error["field"] for error in answer.json()["errors"]] == ["pending_ttl_seconds"]
    assert service.client.get(f"/models/{name}").status_code == 404


def test_a_cluster_refuses_a_time_that_is_longer_than_it_keeps_predictions(
    start: Start, journal: str
) -> None:
    service = start(pending_ttl_seconds=400)
    longer = {"model": "charges", "pending_ttl_seconds": 801}
    if journal == "sqlite":
        service.post("/models", longer)
        return
    answer = service.client.post("/models", json=longer)
    assert problem_of(answer) == (422, "invalid-request")
    assert answer.json()["errors"][0]["field"] == "pending_ttl_seconds"
    assert "at most 800" in answer.json()["errors"][0]["message"]
    service.create("charges", pending_ttl_seconds=800)
