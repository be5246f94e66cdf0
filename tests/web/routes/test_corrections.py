"""Corrections and voids over HTTP: the model becomes what it would be, while everything else goes on."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.service_process import Service, problem_of
from tests.support.waiting import eventually

OVER_EVERY_JOURNAL = True

Start = Callable[..., Service]


def correct(service: Service, prediction_id: str, label: Any, **more: Any) -> dict[str, Any]:
    answer = service.client.put(f"/feedback/{prediction_id}", json={"label": label, **more})
    assert answer.status_code in (200, 202), answer.text
    told: dict[str, Any] = answer.json()
    assert told["rebuilding"] == (answer.status_code == 202)
    return told


def void(service: Service, prediction_id: str) -> dict[str, Any]:
    answer = service.client.delete(f"/predictions/{prediction_id}")
    assert answer.status_code in (200, 202), answer.text
    told: dict[str, Any] = answer.json()
    return told


def rebuilt(service: Service, model: str) -> None:
    """Wait until all corrections of a model are in force."""
    eventually(lambda: not service.stats(model)["corrections"]["rebuilding"])


SHIFTED = ("version", "updated_at", "began_at", "digest", "created_at", "name", "drifts_recorded")
OF_TIME = ("clock", "delay")


def substance(service: Service, model: str) -> dict[str, Any]:
    """What a model has learned and counted, without what knows its name and the time of day."""
    export = service.get(f"/models/{model}/export")
    kept = {name: value for name, value in export.items() if name not in SHIFTED}
    kept["statistics"] = {name: v for name, v in export["statistics"].items() if name not in OF_TIME}
    kept["statistics"]["curve"] = export["statistics"]["curve"][:4]  # then come its times
    return kept


def point(number: int) -> list[float]:
    return [float((number * 7) % 5) - 2.0, float((number * 3) % 4) - 1.5]


def label_of(number: int) -> int:
    return 1 if number % 3 else -1


def lived(service: Service, model: str, wrong: dict[int, int], rounds: int = 24) -> None:
    """Rounds whose labels come late or at once; those of some are wrong."""
    for number in range(rounds):
        label = wrong.get(number, label_of(number))
        if number % 4 == 0:
            service.learn(model, point(number), label, id=f"{model}-{number}")
        else:
            service.predict(model, point(number), id=f"{model}-{number}")
        if number % 4 == 3:
            for late in (number - 1, number - 2, number):
                service.reveal(f"{model}-{late}", wrong.get(late, label_of(late)))


@pytest.mark.parametrize("learner", ["perceptron", "auto"])
@pytest.mark.slow
def test_a_correction_gives_what_the_right_label_would_have_given(
    service: Service, name: str, learner: str
) -> None:
    twin = f"{name}-twin"
    for each in (name, twin):
        service.create(each, learner={"algorithm": learner}, coverage=0.8)
    lived(service, name, wrong={4: -1, 6: 1, 13: -1})
    lived(service, twin, wrong={})
    before = service.stats(name)
    told = correct(service, f"{name}-4", label_of(4), reason="the annotator was tired")
    assert told["former"] == -1 and told["label"] == label_of(4) and told["model"] == name
    correct(service, f"{name}-6", label_of(6))
    correct(service, f"{name}-13", label_of(13))
    rebuilt(service, name)
    assert substance(service, name) == substance(service, twin)
    stats = service.stats(name)
    assert stats["rounds"] == before["rounds"] and stats["version"] > before["version"]
    assert stats["corrections"] == {"recorded": 3, "in_force": 3, "voided": 0, "rebuilding": False}
    for number in range(24, 30):
        assert (
            service.learn(name, point(number), label_of(number))["score"]
            == service.learn(twin, point(number), label_of(number))["score"]
        )
    assert substance(service, name) == substance(service, twin)
    service.assert_replay_equals_live(name)


@pytest.mark.slow
def test_what_was_void_from_the_start_leaves_no_trace(service: Service, name: str) -> None:
    twin = f"{name}-twin"
    for number in range(30):
        for model in (name, twin):
            if model == name or number not in (3, 9):
                service.learn(model, point(number), label_of(number), id=f"{model}-{number}")
    service.predict(name, [1.0, 1.0], id=f"{name}-waits")
    assert void(service, f"{name}-waits")["rebuilding"] is False
    told = [void(service, f"{name}-{number}") for number in (3, 9)]
    assert [each["former"] for each in told] == [label_of(3), label_of(9)]
    assert all(each["label"] is None for each in told)
    rebuilt(service, name)
    assert substance(service, name) == substance(service, twin)
    stats = service.stats(name)
    assert stats["rounds"] == {"predicted": 28, "revealed": 28, "pending": 0, "expired": 0}
    assert stats["corrections"] == {"recorded": 2, "in_force": 2, "voided": 1, "rebuilding": False}
    for prediction_id in (f"{name}-waits", f"{name}-3"):
        answer = service.client.delete(f"/predictions/{prediction_id}")
        assert (answer.status_code, answer.headers["idempotent-replay"]) == (200, "true")
        for refused in (
            service.client.post("/feedback", json={"prediction_id": prediction_id, "label": 1}),
            service.client.put(f"/feedback/{prediction_id}", json={"label": 1}),
        ):
            assert problem_of(refused) == (410, "prediction-void"), refused.text
    again = service.client.post(
        "/predict", json={"model": name, "features": [1.0, 1.0], "id": f"{name}-waits"}
    )
    assert problem_of(again) == (410, "prediction-void")
    service.assert_replay_equals_live(name)


@pytest.mark.slow
def test_the_trail_keeps_both_labels_and_the_same_again_changes_nothing(service: Service, name: str) -> None:
    service.learn(name, [1.0, 2.0], 1, id=f"{name}-1")
    service.learn(name, [2.0, 1.0], -1, id=f"{name}-2")
    correct(service, f"{name}-1", -1, reason="typo")
    rebuilt(service, name)
    answer = service.client.put(f"/feedback/{name}-1", json={"label": -1})
    assert (answer.status_code, answer.headers["idempotent-replay"]) == (200, "true")
    assert (
        service.client.put(f"/feedback/{name}-2", json={"label": -1}).headers["idempotent-replay"] == "true"
    )
    correct(service, f"{name}-1", 1)
    rebuilt(service, name)
    trail = service.get(f"/models/{name}/events")["events"]
    told = [each for each in trail if each["kind"] == "corrected"]
    assert [(each["prediction_id"], each["former"], each["label"], each["reason"]) for each in told] == [
        (f"{name}-1", 1, -1, "typo"),
        (f"{name}-1", -1, 1, None),
    ]
    assert sum(each["kind"] == "rebuilt" for each in trail) == 2
    assert service.stats(name)["corrections"]["recorded"] == 2
    # A retry of the first reveal is a retry still.
    again = service.client.post(
        "/learn", json={"model": name, "features": [1.0, 2.0], "label": 1, "id": f"{name}-1"}
    )
    assert again.headers["idempotent-replay"] == "true"


def test_what_cannot_be_corrected_is_refused_and_changes_nothing(service: Service, name: str) -> None:
    service.learn(name, [1.0, 2.0], 1, id=f"{name}-1")
    service.predict(name, [1.0, 2.0], id=f"{name}-waits")
    before = service.get(f"/models/{name}/export")

    def refused(prediction_id: str, body: Any) -> tuple[int, str]:
        return problem_of(service.client.put(f"/feedback/{prediction_id}", json=body))

    assert refused(f"{name}-nobody", {"label": 1}) == (404, "unknown-prediction")
    assert refused(f"{name}-waits", {"label": 1}) == (409, "not-revealed")
    for label in (2, "1", True, 1.5, None, [1]):
        assert refused(f"{name}-1", {"label": label})[0] == 422
    for body in (
        {},
        {"label": -1, "reason": ""},
        {"label": -1, "reason": "x" * 257},
        {"label": -1, "more": 1},
    ):
        assert refused(f"{name}-1", body) == (422, "invalid-request")
    for reason in (rb"\u0000", rb"\ud800"):
        body, headers = b'{"label": -1, "reason": "' + reason + b'"}', {"content-type": "application/json"}
        raw = service.client.put(f"/feedback/{name}-1", content=body, headers=headers)
        assert raw.status_code in (400, 422), raw.text
    assert problem_of(service.client.delete(f"/predictions/{name}-nobody")) == (404, "unknown-prediction")
    assert service.get(f"/models/{name}/export") == before


@pytest.mark.slow
def test_older_versions_and_the_history_have_the_right_labels(service: Service, name: str) -> None:
    twin = f"{name}-twin"
    lived(service, name, wrong={5: -label_of(5)})
    lived(service, twin, wrong={})
    correct(service, f"{name}-5", label_of(5))
    rebuilt(service, name)
    for version in (3, 17):
        old, right = (service.get(f"/models/{each}/weights?at={version}") for each in (name, twin))
        assert old["version"] == version and old["classes"] == right["classes"], version
    lines = service.client.get(f"/models/{name}/history").text.splitlines()
    rows = {json.loads(line)["prediction_id"]: json.loads(line) for line in lines}
    assert len(rows) == 24 and rows[f"{name}-5"]["label"] == label_of(5)
    assert all(row["mistake"] == (row["served"] != row["label"]) for row in rows.values())
    for each in (name, twin):
        service.post(f"/models/{each}/rollback", {"to": 10})
    assert substance(service, name) == substance(service, twin)
    for each in (name, twin):
        service.learn(each, [1.0, -1.0], 1)
    assert substance(service, name) == substance(service, twin)
    correct(service, f"{name}-2", -label_of(2))
    correct(service, f"{name}-2", label_of(2))
    rebuilt(service, name)
    assert substance(service, name) == substance(service, twin)


@pytest.mark.slow
def test_a_model_that_is_made_anew_amid_a_rebuild_is_rebuilt_too(service: Service, name: str) -> None:
    service.create(name)
    lived(service, name, {})
    correct(service, f"{name}-8", -1)
    service.client.delete(f"/models/{name}")  # while the process of its rebuild starts
    service.create(name)
    service.learn(name, [1.0, 2.0], -1, id=f"{name}-anew")
    assert correct(service, f"{name}-anew", 1)["rebuilding"]
    rebuilt(service, name)
    assert service.get(f"/stats/{name}?fields=confusion")["confusion"]["matrix"] == [[0, 0], [0, 1]]
