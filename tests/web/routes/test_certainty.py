"""How sure it is, over HTTP: probabilities, sets, asking for labels, weights."""

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tests.support.service_process import Service

OVER_EVERY_JOURNAL = True


def example(rng: random.Random, classes: int = 2) -> tuple[list[float], int]:
    truth = rng.randrange(classes)
    return [rng.gauss(2.0 * (truth == at), 1.0) for at in range(classes)], truth


def test_a_probability_is_null_before_the_first_reveal_and_a_number_after(
    service: Service, name: str
) -> None:
    first = service.predict(name, [1.0, 2.0])
    assert first["probability"] is None
    assert not first.keys() & {"set", "ask", "ask_probability"}
    assert service.stats(name)["unlabelled"] == {"predictions": 1, "expected_error_rate": None}
    service.reveal(first["prediction_id"], -1)
    second = service.predict(name, [1.0, 2.0], id=f"{name}-p")
    assert 0.0 < second["probability"] < 1.0
    assert service.predict(name, [1.0, 2.0], id=f"{name}-p") == second
    stats = service.stats(name)
    assert stats["unlabelled"]["expected_error_rate"] == pytest.approx(1 - second["probability"])
    learned = service.learn(name, [1.0, 2.0], 1, id=f"{name}-l")
    assert learned["probability"] == second["probability"]
    assert service.learn(name, [1.0, 2.0], 1, id=f"{name}-l") == learned
    service.assert_replay_equals_live(name)


def test_everything_at_once_survives_kills_and_restarts_to_the_bit(
    start: Callable[..., Service], journal: str
) -> None:
    service = start(snapshot_every_events=20, durability_of_predictions="strict")
    rng = random.Random(5)
    service.create(
        "m",
        labels=["a", "b", "c"],
        coverage=0.8,
        ask={"b": 0.5},
        confidence=0.9,
        class_weights={"a": 2.0},
    )
    service.create("auto", ask="auto", coverage=0.9, declared_margin=0.01)
    waiting: list[tuple[str, Any]] = []
    weights: list[float] = []
    mistaken: list[float] = []
    for number in range(150):
        features, truth = example(rng, 3)
        served = service.predict("m", features, id=f"p{number}")
        assert served == service.predict("m", features, id=f"p{number}"), "a retry is answered as before"
        assert set(served["set"]) <= {"a", "b", "c"}
        assert 1 / 64 <= served["ask_probability"] <= 1
        if served["ask"]:
            waiting.append((f"p{number}", "abc"[truth]))
        features, truth = example(rng)
        service.learn("auto", features, [-1, 1][truth], weight=rng.choice([1.0, 0.5]))
        while len(waiting) > 10:
            weight = rng.choice([1.0, 3.0])
            revealed = service.reveal(*waiting.pop(0), weight=weight)
            weights.append(weight * (2.0 if revealed["label"] == "a" else 1.0))
            mistaken.append(weights[-1] * revealed["mistake"])
        if number in (60, 110):
            before = {model: service.get(f"/models/{model}/export") for model in ("m", "auto")}
            service.kill()
            service.start()
            assert {model: service.get(f"/models/{model}/export") for model in ("m", "auto")} == before
    for model in ("m", "auto"):
        service.assert_replay_equals_live(model)
    stats = service.stats("m")
    assert stats["sets"]["rounds"] == stats["rounds"]["revealed"]
    assert abs(stats["sets"]["coverage"] - 0.8) <= stats["sets"]["distance_max"]
    if journal == "sqlite":
        assert stats["ask"]["asked"] == stats["rounds"]["revealed"] + len(waiting)
        assert stats["ask"]["error_rate_interval"]["rounds"] == stats["ask"]["predictions"] == 150
    else:  # nobody knows what a replica that was killed had served, or what others have
        assert stats["ask"]["error_rate_interval"] is None
    assert service.get("/stats/m?at=1")["ask"]["error_rate_interval"] is None, "what waited then is not known"
    assert stats["error_rate_interval"]["confidence"] == 0.9
    assert stats["ask"]["bound"]["verdict"] == "not_applicable"
    assert stats["weighted_error_rate"] == pytest.approx(sum(mistaken) / sum(weights))
    bound = service.stats("auto")["ask"]["bound"]
    assert bound["verdict"] == "not_applicable" and "weigh 1" in bound["why"]


@pytest.mark.parametrize("labels", [["a", "b", "c"], None], ids=str)
def test_whole_rounds_serve_the_set_that_a_prediction_would_and_count_it(
    service: Service, name: str, labels: list[str] | None
) -> None:
    """By /learn, by lines with a label, alone and in blocks: the sets of one model that all of them teach."""
    rng = random.Random(9)
    service.create(name, labels=labels, coverage=0.7)
    told = []
    for number in range(60):
        features, truth = example(rng, 3)
        foreseen = service.predict(name, features)["set"]
        whole = {"features": features, "label": "abc"[truth], "id": f"{name}-{number}"}
        if number % 2:
            learned = service.post("/learn", {"model": name, **whole})
            assert service.post("/learn", {"model": name, **whole}) == learned, "a retry has the same set"
        else:
            (learned,) = service.stream([whole], model=name)
        assert learned["set"] == foreseen
        told.append((learned["set"], "abc"[truth]))
    lines = []
    for _ in range(40):
        features, truth = example(rng, 3)
        lines.append({"features": features, "label": "abc"[truth]})
    told += [(line["set"], line["label"]) for line in service.stream(lines, model=name)]
    if labels is None:
        assert told[0][0] == [], "no label was known"
    sets = service.stats(name)["sets"]
    assert sets["rounds"] == len(told) == 100
    held = sum(among is None or label in among for among, label in told)
    assert sets["coverage"] == held / 100
    assert abs(sets["coverage"] - 0.7) <= sets["distance_max"]
    service.assert_replay_equals_live(name)


def test_a_retry_of_a_whole_round_has_its_set_after_a_kill_too(start: Callable[..., Service]) -> None:
    service = start(snapshot_every_events=7)
    service.create("m", labels=["a", "b", "c"], coverage=0.6)
    rng = random.Random(4)
    sent = [example(rng, 3) for _ in range(40)]
    bodies = [
        {"model": "m", "features": features, "label": "abc"[truth], "id": f"r{number}"}
        for number, (features, truth) in enumerate(sent)
    ]
    first = [service.post("/learn", body) for body in bodies]
    assert len({str(answer["set"]) for answer in first}) > 2
    service.kill()
    service.start()
    assert [service.post("/learn", body) for body in bodies] == first


def test_rounds_of_an_arrow_stream_count_in_the_sets_like_those_of_lines(service: Service, name: str) -> None:
    rng = random.Random(2)
    rounds = [example(rng) for _ in range(300)]
    for kind in ("arrow", "lines"):
        service.create(f"{name}-{kind}", labels=[0, 1], coverage=0.8, ask="auto")
    table = pa.table(
        {"a": [x[0] for x, _ in rounds], "b": [x[1] for x, _ in rounds], "label": [y for _, y in rounds]}
    )
    body = pa.BufferOutputStream()
    with pa.ipc.new_stream(body, table.schema) as writer:
        writer.write_table(table, 64)
    answer = service.client.post(
        f"/stream?model={name}-arrow",
        content=body.getvalue().to_pybytes(),
        headers={"content-type": "application/vnd.apache.arrow.stream"},
    )
    assert answer.json()["revealed"] == 300
    service.stream([{"features": x, "label": y} for x, y in rounds], model=f"{name}-lines")
    by_kind = [service.stats(f"{name}-{kind}") for kind in ("arrow", "lines")]
    for field in ("sets", "ask", "calibration", "mistakes"):
        assert by_kind[0][field] == by_kind[1][field]
    assert by_kind[0]["sets"]["rounds"] == 300


def test_a_whole_round_is_learned_but_not_counted_as_asked_for(service: Service, name: str) -> None:
    """Its label came with its features: nobody was asked, and there is no chance by which a mistake could weigh."""
    service.create(name, ask={"b": 0.5}, declared_margin=0.1, bias=False)
    service.learn(name, [1.0, 0.0], -1)
    service.stream([{"features": [1.0, 0.5], "label": -1}, {"features": [-1.0, 0.0], "label": 1}], model=name)
    ask = service.stats(name)["ask"]
    assert (ask["predictions"], ask["asked"], ask["uncounted"]) == (0, 0, 3)
    assert ask["asked_rate"] is None and ask["error_rate"] is None
    served = service.predict(name, [0.0, 1.0])
    service.reveal(served["prediction_id"], 1)
    ask = service.stats(name)["ask"]
    assert (ask["predictions"], ask["asked"], ask["uncounted"]) == (1, int(served["ask"]), 3)
    assert ask["bound"]["verdict"] == "within", "the bound is about all of them"


def test_a_model_that_asks_by_a_given_b_has_a_bound_on_its_expected_mistakes(
    service: Service, name: str
) -> None:
    for kind, given in (("given", {"b": 0.5}), ("auto", "auto")):
        service.create(f"{name}-{kind}", ask=given, declared_margin=0.5, bias=False)
        for at in range(40):
            row, label = ([1.0, 0.1 * (at % 3)], 1) if at % 2 else ([-1.0, 0.1], -1)
            service.learn(f"{name}-{kind}", row, label)
    stats = service.stats(f"{name}-given")
    growth = stats["bound"]["R"] ** 2
    assert stats["ask"]["bound"]["verdict"] == "within"
    assert stats["ask"]["bound"]["expected_mistakes"] == pytest.approx((1 + growth) ** 2 / (8 * 0.5 * 0.25))
    bound = service.stats(f"{name}-auto")["ask"]["bound"]
    assert bound["verdict"] == "not_applicable" and "changes with the stream" in bound["why"]
    assert bound["expected_mistakes"] is None


def test_labels_of_close_decisions_are_asked_for_more_often(service: Service, name: str) -> None:
    service.create(name, ask="auto", bias=False)
    for at in range(40):
        service.learn(name, [1.0, 0.1 * (at % 3)] if at % 2 else [-1.0, 0.1], 1 if at % 2 else -1)
    assert (
        service.predict(name, [9.0, 0.0])["ask_probability"]
        < service.predict(name, [0.1, 0.0])["ask_probability"]
    )


def test_weights_are_learned_and_a_retry_with_another_is_a_conflict(service: Service, name: str) -> None:
    waiting = service.predict(name, [1.0, 2.0])["prediction_id"]
    service.reveal(waiting, -1, weight=2.5)
    assert service.get(f"/models/{name}/weights")["classes"][0]["weights"] == [-2.5, -5.0]
    assert service.reveal(waiting, -1, weight=2.5)["rounds"] == 1
    assert service.refused("/feedback", {"prediction_id": waiting, "label": -1}) == (409, "feedback-conflict")
    service.learn(name, [-1.0, 0.0], 1, id=f"{name}-x", weight=0.5)
    again = {"model": name, "features": [-1.0, 0.0], "label": 1, "id": f"{name}-x"}
    assert service.refused("/learn", again) == (409, "feedback-conflict")
    lines = [{"features": [1.0, 0.0], "label": -1, "weight": 4}, {"features": [1.0, 0.0], "label": -1}]
    assert [line["label"] for line in service.stream(lines, model=name)] == [-1, -1]
    stats = service.stats(name)
    assert stats["rounds"]["revealed"] == 4
    assert stats["weighted_error_rate"] == pytest.approx(2.5 / (2.5 + 0.5 + 4 + 1))
    service.assert_replay_equals_live(name)


@pytest.mark.parametrize("weight", [0, -1, 1e-101, 1e308, 1_000_001, "2", None])
def test_a_weight_that_is_none_is_refused(service: Service, name: str, weight: Any) -> None:
    whole = {"model": name, "features": [1.0], "label": 1, "weight": weight}
    answer = service.client.post("/learn", json=whole)
    assert answer.status_code == 422 and "weight" in answer.text
    (line,) = service.stream([{"features": [1.0], "label": 1, "weight": weight or 0}], model=name)
    assert line["error"]["status"] == 422


def test_a_prediction_has_no_weight(service: Service, name: str) -> None:
    (line,) = service.stream([{"features": [1.0], "weight": 2}], model=name)
    assert line["error"]["errors"][0]["field"] == "weight"


def test_class_weights_move_recall_as_asked(service: Service, name: str) -> None:
    """The classes overlap: whoever weighs more is recognised more often, at the cost of the other."""
    recalls = []
    for at, weights in enumerate((None, {"1": 20.0})):
        model = f"{name}-{at}"
        service.create(model, learner={"algorithm": "arow"}, class_weights=weights)
        rng = random.Random(3)
        lines = []
        for _ in range(600):
            truth = rng.choice([-1, 1])
            lines.append({"features": [rng.gauss(0.5 * truth, 1.0)], "label": truth})
        service.stream(lines, model=model)
        recalls.append([figures["recall"] for figures in service.stats(model)["classes"]])
        service.assert_replay_equals_live(model)
    assert recalls[1][1] > recalls[0][1] + 0.1
    assert recalls[1][0] < recalls[0][0]


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"coverage": 0}, "coverage"),
        ({"coverage": 1}, "coverage"),
        ({"coverage": 1.5}, "coverage"),
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": 0.1}, "confidence"),
        ({"ask": {"b": 0}}, "ask.b"),
        ({"ask": {"b": -1.0}}, "ask.b"),
        ({"ask": {"b": "x"}}, "ask.b"),
        ({"ask": {"c": 1}}, "ask"),
        ({"ask": {}}, "ask"),
        ({"ask": "always"}, "ask"),
        ({"class_weights": {"1": 0}}, "class_weights.1"),
        ({"class_weights": {"1": 1e-101}}, "class_weights.1"),
        ({"class_weights": {"1": 1e9}}, "class_weights.1"),
        ({"class_weights": {"spam": 2}}, "class_weights.spam"),
        ({"labels": [1, "1"], "class_weights": {"1": 2}}, "class_weights.1"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(
    service: Service, name: str, settings: dict[str, Any], field: str
) -> None:
    answer = service.client.post("/models", json={"model": name, **settings})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"].startswith(field)


def test_asking_is_allowed_without_the_theorem_and_says_why_it_does_not_apply(
    service: Service, name: str
) -> None:
    service.create(name, learner={"algorithm": "arow"}, ask="auto")
    assert service.predict(name, [1.0])["ask_probability"] == 1.0, "nothing is known yet"
    for at in range(20):
        service.learn(name, [float(at % 2), 1.0][:1], 1 if at % 2 else -1)
    assert service.predict(name, [1.0])["ask_probability"] < 1.0
    bound = service.stats(name)["ask"]["bound"]
    assert bound["verdict"] == "not_applicable" and "perceptron" in bound["why"]


def test_a_set_of_a_model_whose_classes_appear_may_rule_out_nothing(service: Service, name: str) -> None:
    service.create(name, labels=None, coverage=0.99)
    sets = []
    for at in range(40):
        sets.append(service.predict(name, [1.0, float(at)])["set"])
        service.learn(name, [1.0, float(at)], f"label {at}")
    assert sets[0] == []
    assert None in sets, "labels that are new each time cannot be ruled out"
    assert service.stats(name)["sets"]["coverage"] > 0.3
