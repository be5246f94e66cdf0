"""Weights, coverage and asking, sent as nobody should: refused by the name of the field, and nothing is changed."""

from typing import Any

import pytest

from tests.support.service_process import Service

BAD_WEIGHTS = [
    "0",
    "-0.0",
    "-1",
    "1e308",
    "1000000.1",
    "NaN",
    "Infinity",
    "1e999",
    "true",
    '"2"',
    "null",
    "[1]",
]


def send(service: Service, path: str, body: str, media_type: str = "application/json") -> Any:
    return service.client.post(path, content=body, headers={"content-type": media_type})


@pytest.mark.parametrize("weight", BAD_WEIGHTS)
def test_a_bad_weight_is_refused_everywhere_and_the_round_can_still_be_revealed(
    service: Service, name: str, weight: str
) -> None:
    waiting = service.predict(name, [1.0, 2.0])["prediction_id"]
    feedback = f'"prediction_id": "{waiting}", "label": 1, "weight": {weight}'
    whole = f'"features": [1.0, 2.0], "label": 1, "weight": {weight}'
    for path, body in (("/feedback", feedback), ("/learn", f'"model": "{name}", {whole}')):
        alone = send(service, path, "{" + body + "}")
        # What is no JSON, as NaN is none, cannot be told by its field.
        assert alone.status_code in ((400, 422) if weight in ("NaN", "Infinity", "1e999") else (422,))
        if alone.status_code == 422:
            assert [error["field"] for error in alone.json()["errors"]] == ["weight"]
        among = send(service, path, '{"items": [{' + body + "}]}")
        assert among.status_code in (400, 422) or among.json()["items"][0]["error"]["status"] in (400, 422)
    for body in (feedback, whole) if weight != "null" else ():  # which is none, as with all fields of a line
        line = send(service, f"/stream?model={name}", "{" + body + "}\n", "application/x-ndjson").json()
        assert line["error"]["status"] in (400, 422)
    stats = service.stats(name)
    assert (stats["rounds"]["revealed"], stats["rounds"]["pending"], stats["version"]) == (0, 1, 0)
    assert service.reveal(waiting, 1, weight=1e6)["rounds"] == 1
    service.assert_replay_equals_live(name)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        *[(f'"coverage": {value}', "coverage") for value in ("0", "1", "1.5", "-0.5", "1e308", '"0.9"', "true", "[]")],
        *[(f'"class_weights": {{"1": {value}}}', "class_weights.1") for value in ("0", "-1", "1e308", '"2"', "null")],
        *[(f'"ask": {value}', "ask") for value in ("true", "1", '{"b": 1e308}', '{"b": "auto"}', "[]")],
    ],
    ids=str,
)  # fmt: skip
def test_settings_of_certainty_that_make_no_sense_make_no_model(
    service: Service, name: str, settings: str, field: str
) -> None:
    answer = send(service, "/models", f'{{"model": "{name}", {settings}}}')
    assert answer.status_code == 422, answer.text
    assert all(error["field"].startswith(field) for error in answer.json()["errors"])
    assert service.client.get(f"/models/{name}").status_code == 404


@pytest.mark.parametrize(
    "settings", ['"coverage": NaN', '"ask": {"b": Infinity}', '"class_weights": {"1": NaN}']
)
def test_what_is_not_finite_makes_no_model(service: Service, name: str, settings: str) -> None:
    assert send(service, "/models", f'{{"model": "{name}", {settings}}}').status_code in (400, 422)
    assert service.client.get(f"/models/{name}").status_code == 404


@pytest.mark.parametrize("labels", [[-1, 1], ["a", "b", "c"], None], ids=str)
@pytest.mark.parametrize("learner", ["perceptron", "arow", "auto"])
def test_whoever_has_learned_nothing_tells_no_probability(
    service: Service, name: str, learner: str, labels: list[Any] | None
) -> None:
    for number, way in enumerate(("predict", "learn", "line")):
        model = f"{name}-{number}"
        service.create(model, labels=labels, learner={"algorithm": learner}, coverage=0.9, ask="auto")
        if way == "predict":
            first = service.predict(model, [1.0, 2.0], explain=2)
            assert (first["ask"], first["ask_probability"]) == (True, 1.0), (
                "nothing is known, so all is asked for"
            )
        elif way == "learn":
            first = service.learn(model, [1.0, 2.0], (labels or ["new"])[0])
        else:
            (first,) = service.stream(
                [{"features": [1.0, 2.0], "label": (labels or ["new"])[0]}], model=model
            )
        assert first["probability"] is None
        calibration = service.stats(model)["calibration"]
        assert (calibration["rounds"], calibration["brier"], calibration["log_loss"]) == (0, None, None)


@pytest.mark.parametrize("learner", ["averaged", "pa1", "arow", "scw", "logistic", "auto"])
def test_a_learner_without_the_theorem_may_ask_and_has_no_bound(
    service: Service, name: str, learner: str
) -> None:
    service.create(name, learner={"algorithm": learner}, ask={"b": 0.5})
    for at in range(12):
        served = service.predict(name, [float(at % 3), 1.0])
        assert 1 / 64 <= served["ask_probability"] <= 1.0
        service.reveal(served["prediction_id"], 1 if at % 3 else -1)
    ask = service.stats(name)["ask"]
    assert ask["predictions"] == 12 and ask["uncounted"] == 0
    assert ask["bound"]["verdict"] == "not_applicable" and ask["bound"]["why"]
    assert ask["bound"]["expected_mistakes"] is None
