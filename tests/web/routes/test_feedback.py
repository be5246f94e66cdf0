"""The feedback table, case by case, and what belongs to it."""

import asyncio
from collections.abc import Callable
from uuid import uuid4

import httpx
import pytest

from tests.support.service_process import NO_TLS, Service, problem_of
from tests.support.waiting import PATIENCE_SECONDS, eventually

OVER_EVERY_JOURNAL = True


def test_the_first_reveal_is_learned(service: Service, name: str) -> None:
    prediction = service.predict(name, [1.0, 0.5])
    assert prediction["label"] == 1 and prediction["score"] == 0.0 and prediction["version"] == 0
    outcome = service.reveal(prediction["prediction_id"], -1)
    assert outcome == {
        "prediction_id": prediction["prediction_id"],
        "model": name,
        "predicted": 1,
        "label": -1,
        "mistake": True,
        "updated": True,
        "version": 1,
        "rounds": 1,
        "mistakes": 1,
    }
    assert service.weights(name)[0] == [-1.0, -0.5]
    assert service.predict(name, [1.0, 0.5])["label"] == -1
    service.assert_replay_equals_live(name)


def test_a_retry_gets_the_first_answer_again_and_learns_nothing(service: Service, name: str) -> None:
    prediction_id = service.predict(name, [1.0])["prediction_id"]
    body = {"prediction_id": prediction_id, "label": -1}
    first = service.client.post("/feedback", json=body)
    assert "idempotent-replay" not in first.headers
    service.learn(name, [2.0], 1)
    again = service.client.post("/feedback", json=body)
    assert again.status_code == 200
    assert again.headers["idempotent-replay"] == "true"
    assert again.json() == first.json()
    assert service.stats(name)["rounds"]["revealed"] == 2
    service.assert_replay_equals_live(name)


def test_a_second_reveal_with_another_label_is_refused(service: Service, name: str) -> None:
    prediction_id = service.predict(name, [1.0])["prediction_id"]
    service.reveal(prediction_id, -1)
    refused = service.refused("/feedback", {"prediction_id": prediction_id, "label": 1})
    assert refused == (409, "feedback-conflict")
    assert service.stats(name)["rounds"]["revealed"] == 1


def test_a_prediction_never_heard_of_is_unknown(service: Service) -> None:
    assert service.refused("/feedback", {"prediction_id": "nobody", "label": 1}) == (
        404,
        "unknown-prediction",
    )
    recent = f"{2**47:012x}~" + "0" * 20
    assert service.refused("/feedback", {"prediction_id": recent, "label": 1}) == (404, "unknown-prediction")


def test_an_id_of_the_service_that_is_too_old_has_expired(service: Service) -> None:
    old = f"{1:012x}~" + "0" * 20
    assert service.refused("/feedback", {"prediction_id": old, "label": 1}) == (410, "prediction-expired")


LIKE_ONES_OF_0_1_0 = (f"{1:012x}" + "7" * 20, "003f" + uuid4().hex[4:], "0189c0ffee007abc8def0123456789ab")
"""32 hexadecimal digits: an old time and chance, as version 0.1.0 made them; a version 4 and a version 7 UUID."""


def test_an_id_of_ones_own_is_not_taken_for_an_old_one_of_the_services(service: Service, name: str) -> None:
    """Nor is one that 0.1.0 made and that still waits in a journal: it is revealed like any other."""
    for rounds, chosen in enumerate(LIKE_ONES_OF_0_1_0, start=1):
        reveal = {"prediction_id": chosen, "label": 1}
        assert service.refused("/feedback", reveal) == (404, "unknown-prediction")
        served = service.predict(name, [1.0], id=chosen)
        assert service.predict(name, [1.0], id=chosen) == served
        assert service.post("/feedback", reveal)["rounds"] == rounds


@pytest.mark.parametrize("path", ["/predict", "/learn"])
def test_an_id_of_the_services_form_cannot_be_chosen(service: Service, name: str, path: str) -> None:
    waiting = service.predict(name, [1.0])["prediction_id"]
    for chosen in (waiting, f"{2**47:012x}~" + "0" * 20, "order~17"):
        body = {"model": name, "features": [1.0], "id": chosen, "label": 1}
        if path == "/predict":
            del body["label"]
        answer = service.client.post(path, json=body)
        assert problem_of(answer) == (422, "invalid-request")
        assert [error["field"] for error in answer.json()["errors"]] == ["id"]
    assert service.reveal(waiting, 1)["rounds"] == 1


@pytest.mark.parametrize("label", [2, "1", True, 0, "spam"])
def test_a_label_that_the_model_does_not_have_is_refused(service: Service, name: str, label: object) -> None:
    prediction_id = service.predict(name, [1.0])["prediction_id"]
    refused = service.refused("/feedback", {"prediction_id": prediction_id, "label": label})
    assert refused == (422, "unknown-label")
    assert service.stats(name)["rounds"] == {"predicted": 1, "revealed": 0, "pending": 1, "expired": 0}
    service.reveal(prediction_id, 1)


def test_a_whole_number_with_a_point_is_an_integer_to_json(service: Service, name: str) -> None:
    prediction_id = service.predict(name, [1.0])["prediction_id"]
    answer = service.client.post(
        "/feedback",
        content=f'{{"prediction_id": "{prediction_id}", "label": -1.0}}',
        headers={"content-type": "application/json"},
    )
    assert answer.json()["label"] == -1


@pytest.mark.parametrize(
    "labels", [["ham", "spam"], [0, False], [False, True], [1, True], ["", " "], [-5, "x"]]
)
def test_any_two_labels_are_told_apart(service: Service, name: str, labels: list[object]) -> None:
    service.create(name, labels=labels)
    assert service.predict(name, [1.0])["label"] is not labels[0]
    outcome = service.learn(name, [1.0], labels[0])
    assert (outcome["predicted"], outcome["label"]) == (labels[1], labels[0])
    assert type(outcome["label"]) is type(labels[0]) and outcome["mistake"]
    outcome = service.learn(name, [1.0], labels[0])
    assert not outcome["mistake"] and type(outcome["predicted"]) is type(labels[0])
    service.assert_replay_equals_live(name)


def test_a_mistake_is_counted_against_the_label_that_was_served(service: Service, name: str) -> None:
    early = service.predict(name, [1.0])
    assert early["label"] == 1
    service.learn(name, [1.0], -1)
    assert service.predict(name, [1.0])["label"] == -1
    assert service.reveal(early["prediction_id"], -1)["mistake"]
    service.assert_replay_equals_live(name)


@pytest.mark.slow
def test_concurrent_reveals_of_one_prediction_learn_once(service: Service, name: str) -> None:
    async def reveal_ten_times(prediction_id: str) -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=service.url, timeout=PATIENCE_SECONDS, verify=NO_TLS) as client:
            body = {"prediction_id": prediction_id, "label": -1}
            return await asyncio.gather(*(client.post("/feedback", json=body) for _ in range(10)))

    for round_number in range(1, 21):
        prediction_id = service.predict(name, [1.0, float(round_number)])["prediction_id"]
        answers = asyncio.run(reveal_ten_times(prediction_id))
        assert [answer.status_code for answer in answers] == [200] * 10
        assert sum("idempotent-replay" not in answer.headers for answer in answers) == 1
        assert len({answer.text for answer in answers}) == 1
        assert service.stats(name)["rounds"]["revealed"] == round_number
    service.assert_replay_equals_live(name)


def test_concurrent_reveals_with_different_labels_let_one_win(service: Service, name: str) -> None:
    async def reveal_both(prediction_id: str) -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=service.url, timeout=PATIENCE_SECONDS, verify=NO_TLS) as client:
            bodies = [{"prediction_id": prediction_id, "label": label} for label in (-1, 1)]
            return await asyncio.gather(*(client.post("/feedback", json=body) for body in bodies))

    for _ in range(10):
        prediction_id = service.predict(name, [1.0])["prediction_id"]
        statuses = sorted(answer.status_code for answer in asyncio.run(reveal_both(prediction_id)))
        assert statuses == [200, 409]
    assert service.stats(name)["rounds"]["revealed"] == 10
    service.assert_replay_equals_live(name)


def test_a_prediction_older_than_its_time_to_live_has_expired(start: Callable[..., Service]) -> None:
    service = start(pending_ttl_seconds=0.01)
    prediction_id = service.predict("m", [1.0])["prediction_id"]

    def has_expired() -> bool:
        rounds = service.stats("m")["rounds"]
        assert rounds["predicted"] == 1
        return bool(rounds["expired"])

    eventually(has_expired)
    assert service.refused("/feedback", {"prediction_id": prediction_id, "label": 1})[0] == 410
    assert service.stats("m")["rounds"] == {"predicted": 1, "revealed": 0, "pending": 0, "expired": 1}
    service.restart()
    assert service.stats("m")["rounds"] == {"predicted": 1, "revealed": 0, "pending": 0, "expired": 1}
    assert service.refused("/feedback", {"prediction_id": prediction_id, "label": 1})[0] == 410


def test_too_many_waiting_predictions_push_out_the_oldest(start: Callable[..., Service]) -> None:
    service = start(pending_max=3)
    ids = [service.predict("m", [1.0], id=f"p{i}")["prediction_id"] for i in range(5)]
    for gone in ids[:2]:
        assert service.refused("/feedback", {"prediction_id": gone, "label": 1}) == (
            410,
            "prediction-expired",
        )
    service.reveal(ids[2], 1)
    assert service.stats("m")["rounds"] == {"predicted": 5, "revealed": 1, "pending": 2, "expired": 2}
    service.restart()
    assert service.stats("m")["rounds"]["predicted"] == 5
    for gone in ids[:2]:
        assert service.refused("/feedback", {"prediction_id": gone, "label": 1}) == (
            410,
            "prediction-expired",
        )
    service.reveal(ids[4], 1)
    service.assert_replay_equals_live("m")


def test_waiting_predictions_survive_a_restart(start: Callable[..., Service]) -> None:
    service = start()
    waiting = service.predict("m", [1.0, 2.0])["prediction_id"]
    revealed = service.predict("m", [3.0, 4.0])["prediction_id"]
    first = service.reveal(revealed, -1)
    service.restart()
    assert service.stats("m")["rounds"]["pending"] == 1
    assert service.reveal(revealed, -1) == first
    assert service.reveal(waiting, -1)["rounds"] == 2
    service.assert_replay_equals_live("m")


@pytest.mark.parametrize("every", [1, 2, 1000])
def test_old_answers_are_given_again_after_restarts_and_snapshots(
    start: Callable[..., Service], every: int
) -> None:
    service = start(snapshot_every_events=every)
    bodies = []
    for i in range(7):
        prediction_id = service.predict("m", [1.0, float(i)])["prediction_id"]
        bodies.append({"prediction_id": prediction_id, "label": 1 if i % 3 else -1})
    answers = [service.post("/feedback", body) for body in bodies]
    service.post("/models/m/reset", None)
    learned = service.learn("m", [1.0, 1.0], -1, id="whole")
    for _ in range(2):
        assert [service.post("/feedback", body) for body in bodies] == answers
        assert service.learn("m", [1.0, 1.0], -1, id="whole") == learned
        service.restart()
    assert service.stats("m")["rounds"]["revealed"] == 1
    service.assert_replay_equals_live("m")


def test_after_a_reset_earlier_predictions_have_expired(service: Service, name: str) -> None:
    prediction_id = service.predict(name, [1.0])["prediction_id"]
    service.learn(name, [1.0], -1)
    service.client.post(f"/models/{name}/reset")
    refused = service.refused("/feedback", {"prediction_id": prediction_id, "label": 1})
    assert refused == (410, "prediction-expired")
    assert service.weights(name)[0] == [0.0]
    stats = service.stats(name)
    assert stats["rounds"] == {"predicted": 0, "revealed": 0, "pending": 0, "expired": 0}
    assert stats["version"] == 2 and stats["mistakes"] == 0
    service.assert_replay_equals_live(name)


def test_strict_predictions_are_durable_before_they_are_answered(start: Callable[..., Service]) -> None:
    service = start(durability_of_predictions="strict")
    for _ in range(5):
        prediction_id = service.predict("m", [1.0])["prediction_id"]
        service.kill()
        service.start()
        service.reveal(prediction_id, 1)
    assert service.stats("m")["rounds"] == {"predicted": 5, "revealed": 5, "pending": 0, "expired": 0}


def test_an_unloaded_model_comes_back_with_its_predictions(start: Callable[..., Service]) -> None:
    service = start(models_loaded_max=1)
    ids = {f"m{i}": service.predict(f"m{i}", [1.0])["prediction_id"] for i in range(5)}
    for model, prediction_id in ids.items():
        assert service.reveal(prediction_id, -1)["rounds"] == 1
        assert service.stats(model)["mistakes"] == 1
    for model, prediction_id in ids.items():
        assert service.reveal(prediction_id, -1)["rounds"] == 1
        service.assert_replay_equals_live(model)


def test_a_problem_has_its_details(service: Service) -> None:
    answer = service.client.post("/predict", json={"model": "m", "features": [1, "x"], "colour": "red"})
    assert problem_of(answer) == (422, "invalid-request")
    assert answer.json()["errors"] == [{"field": "features[1]", "message": "expected float, got str"}]
