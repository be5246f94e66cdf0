"""`on_expiry`: a prediction whose label does not come in time is learned with a label that the model has chosen."""

import json
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from tests.support.service_process import Service, problem_of
from tests.support.waiting import eventually

OVER_EVERY_JOURNAL = True

Start = Callable[..., Service]

TTL_SECONDS = 1.0


def revealed(service: Service, name: str) -> int:
    return int(service.stats(name)["rounds"]["revealed"])


def test_what_nobody_reveals_is_learned_as_if_somebody_had(
    start: Start, shared_service: Service, name: str
) -> None:
    patient = shared_service
    service = start(pending_ttl_seconds=5 * TTL_SECONDS)
    examples = [[float(i), 1.0 - i] for i in range(6)]
    names = (f"{name}-{number}" for number in count())
    served: list[dict[str, Any]] = []

    def is_revealed_in_time() -> bool:
        """One of six, before any other is learned; on a machine that stops in between, of another model."""
        nonlocal name
        name = next(names)
        service.create(name, labels=["bought", "left"], on_expiry="left")
        served[:] = [service.predict(name, features) for features in examples]
        body = {"prediction_id": served[2]["prediction_id"], "label": "bought"}
        answer = service.client.post("/feedback", json=body)
        return answer.status_code == 200 and answer.json()["rounds"] == 1

    eventually(is_revealed_in_time)
    eventually(lambda: revealed(service, name) == 6)
    stats = service.stats(name)
    assert stats["rounds"] == {"predicted": 6, "revealed": 6, "pending": 0, "expired": 0}
    assert stats["version"] == 6
    lines = [json.loads(line) for line in service.client.get(f"/models/{name}/history").iter_lines()]
    assert [line["label"] for line in lines] == ["bought"] + 5 * ["left"]
    assert [line["prediction_id"] for line in lines[1:]] == [
        each["prediction_id"] for at, each in enumerate(served) if at != 2
    ]
    # The same rounds, revealed by a client in that order, make the same model; elsewhere, where nothing expires.
    patient.create(name, labels=["bought", "left"])
    twin = {tuple(x): patient.predict(name, x)["prediction_id"] for x in examples}
    for line in lines:
        patient.reveal(twin[tuple(line["features"])], line["label"])
    assert service.weights(name) == patient.weights(name)
    assert stats["confusion"] == patient.stats(name)["confusion"]


def test_a_label_that_comes_after_that_is_told_so_and_changes_nothing(start: Start, name: str) -> None:
    service = start(pending_ttl_seconds=TTL_SECONDS)
    service.create(name, on_expiry=-1)
    prediction_id = service.predict(name, [1.0])["prediction_id"]
    eventually(lambda: revealed(service, name) == 1)
    late = service.client.post("/feedback", json={"prediction_id": prediction_id, "label": 1})
    assert problem_of(late) == (409, "feedback-conflict")
    same = service.client.post("/feedback", json={"prediction_id": prediction_id, "label": -1})
    assert (same.status_code, same.headers["idempotent-replay"]) == (200, "true")
    assert revealed(service, name) == 1


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_models_that_are_not_loaded_learn_too_and_once(
    start: Start, name: str, journal: str, end: str
) -> None:
    if (journal, end) == ("jetstream", "kill"):
        pytest.skip("nobody knows what a replica that was killed had served: docs/scaling.md")
    service = start(pending_ttl_seconds=5 * TTL_SECONDS, durability_of_predictions="strict")
    names = (f"{name}.{number}" for number in count())

    def some_wait_at_the_end() -> bool:
        """On a machine that stops in between, those of other models."""
        nonlocal name
        name = next(names)
        service.create(name, on_expiry=1)
        service.create(f"{name}-not")
        for i in range(5):
            for model in (name, f"{name}-not"):
                service.predict(model, [float(i)])
        getattr(service, end)()
        learned = service.fold(name).revealed
        service.start()
        return learned < 5

    eventually(some_wait_at_the_end)
    listed = f"/stats?model={name}"

    def figures() -> list[dict[str, int]]:
        return [line["rounds"] for line in service.get(listed)["models"]]

    learned = {"predicted": 5, "revealed": 5, "pending": 0, "expired": 0}
    expired = {"predicted": 5, "revealed": 0, "pending": 0, "expired": 5}
    # Asking for its statistics would load the model; /metrics tells of those that are loaded, and loads none.
    told = f'novikoff_model_state_revealed{{model="{name}"}} 5'
    eventually(lambda: told in service.client.get("/metrics").text)
    eventually(lambda: figures() == [learned, expired])
    service.restart()
    assert figures() == [learned, expired]


def test_a_class_that_is_new_with_it_appears_and_one_too_many_expires(start: Start, name: str) -> None:
    service = start(pending_ttl_seconds=TTL_SECONDS, classes_max=2)
    service.create(name, labels=None, features="named", on_expiry="silence")
    service.create(f"{name}-full", labels=None, features="named", on_expiry="silence")
    for label in ("a", "b"):
        service.learn(f"{name}-full", {"x": 1.0}, label)
    for model in (name, f"{name}-full"):
        for _ in range(3):
            service.predict(model, {"x": 1.0})
    eventually(lambda: revealed(service, name) == 3)
    assert service.get(f"/models/{name}/weights")["labels"] == ["silence"]
    eventually(lambda: service.stats(f"{name}-full")["rounds"]["expired"] == 3)
    assert revealed(service, f"{name}-full") == 2


@pytest.mark.parametrize(
    ("labels", "given", "kept"),
    [
        (["a", "b"], "a", "a"),
        (["a", "b"], "ignore", None),
        (["a", "b"], None, None),
        (["a", "ignore"], "ignore", "ignore"),
        ([0, 1], 0, 0),
        ([0, 1], 1.0, 1),
        ([False, True], False, False),
        (None, "ignore", None),
        (None, "silence", "silence"),
    ],
)
def test_what_is_asked_for_is_kept_and_shown(
    service: Service, name: str, labels: Any, given: Any, kept: Any
) -> None:
    made = service.create(name, labels=labels, on_expiry=given)
    assert made["settings"]["on_expiry"] == kept and type(made["settings"]["on_expiry"]) is type(kept)
    export = service.get(f"/models/{name}/export")
    answer = service.client.put(f"/models/{name}-too", json=export)
    assert answer.status_code == 201 and answer.json()["settings"]["on_expiry"] == kept, answer.text


@pytest.mark.parametrize(
    ("labels", "given"),
    [(["a", "b"], "c"), ([0, 1], False), ([0, 1], 2), (["1", "2"], 1), ([0, 1], [0]), (None, 2**70)],
)
def test_what_is_none_of_the_labels_is_refused(service: Service, name: str, labels: Any, given: Any) -> None:
    body = {"model": name, "labels": labels, "on_expiry": given}
    answer = service.client.post("/models", json=body)
    assert problem_of(answer) == (422, "invalid-request")
    assert [error["field"] for error in answer.json()["errors"]] == ["on_expiry"]


def test_those_that_are_pushed_out_before_their_time_are_only_counted(start: Start, name: str) -> None:
    service = start(pending_max=3)
    service.create(name, on_expiry=1)
    for i in range(10):
        service.predict(name, [float(i)])
    eventually(lambda: service.stats(name)["rounds"]["expired"] == 7)
    assert (revealed(service, name), service.stats(name)["rounds"]["pending"]) == (0, 3)
