"""Every learner, every way to several classes and every kind of features, over HTTP."""

import math
from itertools import product
from typing import Any

import pytest

from service.learning.learners.algorithms import ALGORITHMS
from tests.support.service_process import Service, problem_of
from tests.support.tiers import covering

ALGORITHM_NAMES = list(ALGORITHMS)
STRATEGIES = [None, "one_vs_all", "one_vs_one", "multiclass"]
KINDS = ["dense", "named", "hashed"]


def example(kind: str, i: int) -> Any:
    values = [math.sin(i), math.cos(2 * i), (i % 5) - 2.0]
    if kind == "dense":
        return values
    return {
        "a": values[0],
        "b": values[1],
        "c": values[2],
        "flag": i % 2 == 0,
        "city": f"c{i % 4}",
        "tags": ["x"] * (i % 3),
    }


def kind_for(algorithm: str, kind: str) -> dict[str, Any]:
    """All weights are sent and compared: one algorithm with the quarter of a million that there are by default."""
    return {"kind": kind, **({"bits": 12} if kind == "hashed" and algorithm != "perceptron" else {})}


@pytest.mark.parametrize(
    ("algorithm", "way", "kind"), covering(list(product(ALGORITHM_NAMES, STRATEGIES, KINDS)))
)
def test_each_combination_learns_explains_and_replays(
    service: Service, name: str, algorithm: str, way: str | None, kind: str
) -> None:
    if way == "multiclass" and algorithm != "perceptron":
        settings = {"learner": {"algorithm": algorithm}, "multiclass": way, "labels": None}
        assert service.refused("/models", {"model": name, **settings}) == (422, "invalid-request")
        return
    labels = [-1, 1] if way is None else None
    features = kind_for(algorithm, kind)
    service.create(name, learner={"algorithm": algorithm}, multiclass=way, labels=labels, features=features)
    truths = [-1, 1] if way is None else ["red", "green", 3]
    waiting = []
    for i in range(30):
        truth = truths[i % len(truths)]
        if i % 3:
            waiting.append((service.predict(name, example(kind, i))["prediction_id"], truth))
        else:
            service.learn(name, example(kind, i), truth)
        if len(waiting) > 4:
            service.reveal(*waiting.pop(0))
    explained = service.predict(name, example(kind, 1), explain=1000)
    assert explained["label"] in truths
    if way != "one_vs_one" and algorithm != "auto":  # which vote
        total = sum(term["contribution"] for term in explained["explanation"])
        assert total == pytest.approx(explained["score"], abs=1e-9)
    stats = service.stats(name)
    assert stats["algorithm"] == algorithm and stats["rounds"]["revealed"] == 30 - len(waiting)
    assert stats["confusion"]["labels"] == (
        labels or ["red", "green", 3][: len(stats["confusion"]["labels"])]
    )
    service.assert_replay_equals_live(name)


@pytest.mark.parametrize("kind", KINDS)
def test_learners_survive_restarts(start: Any, kind: str) -> None:
    service = start(snapshot_every_events=8)
    for algorithm in ALGORITHM_NAMES:
        features = kind_for(algorithm, kind)
        service.create(algorithm, learner={"algorithm": algorithm}, features=features, labels=None)
        for i in range(20):
            service.learn(algorithm, example(kind, i), ["a", "b", "c"][i % 3])
    before = [service.predict(name, example(kind, 99))["score"] for name in ALGORITHM_NAMES]
    service.kill()
    service.start()
    assert [service.predict(name, example(kind, 99))["score"] for name in ALGORITHM_NAMES] == before
    for name in ALGORITHM_NAMES:
        service.assert_replay_equals_live(name)


def test_classes_appear_as_they_are_revealed(service: Service, name: str) -> None:
    service.create(name, labels=None)
    first = service.predict(name, [1.0, 0.0])
    assert first["label"] is None
    outcome = service.reveal(first["prediction_id"], "b")
    assert outcome["predicted"] is None and outcome["mistake"]
    service.learn(name, [0.0, 1.0], "a")
    assert service.predict(name, [1.0, -0.5])["label"] == "b"
    assert service.stats(name)["confusion"]["labels"] == ["b", "a"]
    service.assert_replay_equals_live(name)


def test_names_enter_the_dictionary_when_they_are_revealed(service: Service, name: str) -> None:
    service.create(name, features={"kind": "named", "names_max": 3, "text": ["subject"]})
    prediction = service.predict(name, {"subject": "Cheap PILLS, cheap", "size": 2})
    assert service.get(f"/models/{name}/weights")["names"] == []
    service.reveal(prediction["prediction_id"], -1)
    weights = service.get(f"/models/{name}/weights")
    assert dict(zip(weights["names"], weights["classes"][0]["weights"], strict=True)) == {
        "size": -2.0, "subject=cheap": -2.0, "subject=pills": -1.0,
    }  # fmt: skip
    service.learn(name, {"other": 1, "more": 1}, 1)
    assert service.stats(name)["features"] == {"kind": "named", "weights": 4, "ignored_names": 2}
    largest = service.get(f"/models/{name}/weights?largest=1")["classes"][0]["weights"]
    assert largest == [{"feature": "size", "weight": -2.0}]
    explained = service.predict(name, {"subject": "pills"}, explain=9)["explanation"]
    assert {term["feature"] for term in explained} == {"subject=pills", "bias"}
    service.assert_replay_equals_live(name)


@pytest.mark.parametrize("kind", KINDS)
def test_crosses_are_learned_explained_moved_and_replayed(service: Service, name: str, kind: str) -> None:
    features = {"kind": kind, "crosses": 2, **({"bits": 12} if kind == "hashed" else {})}
    created = service.create(name, learner={"algorithm": "logistic"}, features=features)
    assert created["settings"]["features"]["crosses"] == 2
    for i in range(30):
        service.learn(name, example(kind, i), 1 if i % 5 > 2 else -1)
    explained = service.predict(name, example(kind, 3), explain=1000)
    total = sum(term["contribution"] for term in explained["explanation"])
    assert total == pytest.approx(explained["score"], abs=1e-9)
    terms = {term["feature"]: term["value"] for term in explained["explanation"]}
    pairs = ["0×0", "0×2"] if kind == "dense" else ["a×a", "b×city=c3"]
    for pair in pairs:
        left, right = (int(part) if kind == "dense" else part for part in pair.split("×"))
        found = terms[pair] if pair in terms else terms[f"{right}×{left}"]
        assert abs(found) == pytest.approx(abs(terms[left] * terms[right]))
    export = service.get(f"/models/{name}/export")
    assert service.client.put(f"/models/{name}-moved", json=export).status_code == 201
    assert (
        service.predict(f"{name}-moved", example(kind, 7))["score"]
        == (service.predict(name, example(kind, 7))["score"])
    )
    assert problem_of(service.client.get(f"/models/{name}/export?format=sklearn")) == (422, "invalid-request")
    service.assert_replay_equals_live(name)


@pytest.mark.parametrize("bias", [True, False])
def test_a_feature_may_be_called_bias(service: Service, name: str, bias: bool) -> None:
    service.create(name, features="named", bias=bias, bias_value=7.0)
    service.learn(name, {"a": 1.0, "bias": 2.0, "c": 3.0}, -1)
    weights = service.get(f"/models/{name}/weights")
    assert weights["names"] == ["a", "bias", "c"]
    assert weights["classes"][0] == {
        "label": None, "weights": [-1.0, -2.0, -3.0], "bias": -7.0 if bias else None,
    }  # fmt: skip
    largest = service.get(f"/models/{name}/weights?largest=3")["classes"][0]["weights"]
    assert [each["feature"] for each in largest] == ["c", "bias", "a"]
    linear = service.get(f"/models/{name}/export?format=sklearn")
    assert linear["feature_names_in_"] == ["a", "bias", "c"]
    assert (linear["coef_"], linear["intercept_"]) == ([[-1.0, -2.0, -3.0]], [-49.0 if bias else 0.0])
    explained = service.predict(name, {"bias": 1.0}, explain=9)["explanation"]
    terms = [(term["feature"], term["value"]) for term in explained]
    assert terms == [("bias", 7.0), ("bias", 1.0)][not bias :]


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"learner": {"algorithm": "pa1", "C": 0}}, "learner.C"),
        ({"learner": {"algorithm": "pa", "C": 1}}, "learner.C"),
        ({"learner": {"algorithm": "scw", "eta": 0.5}}, "learner.eta"),
        ({"learner": {"algorithm": "arow", "covariance": "half"}}, "learner.covariance"),
        (
            {"learner": {"algorithm": "arow", "covariance": "full"}, "features": {"dimension": 600}},
            "features.dimension",
        ),
        ({"features": {"kind": "hashed", "bits": 40}}, "features.bits"),
        ({"features": {"kind": "hashed", "dimension": 4}}, "features.dimension"),
        ({"features": {"kind": "named", "names_max": 10**9}}, "features.names_max"),
        ({"features": {"fourier": {"features": 0}}}, "features.fourier.features"),
        ({"features": {"fourier": {}, "crosses": 2}}, "features.crosses"),
        ({"features": {"crosses": 3}}, "features.crosses"),
        ({"features": "sparse"}, "features.kind"),
        ({"features": {"normalize": "l7"}}, "features.normalize"),
        ({"labels": ["a"]}, "labels"),
        ({"labels": ["a"] * 3}, "labels"),
        ({"labels": list(range(1001))}, "labels"),
        ({"labels": ["a", "b", "c"], "tie": "a"}, "tie"),
        ({"multiclass": "all"}, "multiclass"),
        ({"multiclass": "multiclass", "learner": {"algorithm": "pa"}}, "multiclass"),
    ],
)
def test_settings_out_of_their_range_are_refused_by_field(
    service: Service, name: str, settings: dict[str, Any], field: str
) -> None:
    answer = service.client.post("/models", json={"model": name, **settings})
    assert problem_of(answer) == (422, "invalid-request")
    assert answer.json()["errors"][0]["field"] == field
    assert service.client.get(f"/models/{name}").status_code == 404


@pytest.mark.parametrize(
    ("kind", "features", "field"),
    [
        ("dense", {"a": 1}, "features"),
        ("named", [1.0], "features"),
        ("hashed", [1.0], "features"),
        ("named", {}, "features"),
        ("named", {"a": {"b": 1}}, "features.a"),
        ("named", {"a": [1]}, "features.a"),
        ("named", {"a": None}, "features.a"),
        ("named", {"a": 1e200}, "features.a"),
        ("named", {"": 1}, "features"),
        ("named", {"x" * 300: 1}, "features"),
        ("named", {"a": "x" * 1_000_000}, "features.a"),
        ("named", {"subject": 5}, "features.subject"),
    ],
)
def test_features_of_another_kind_are_refused(
    service: Service, name: str, kind: str, features: Any, field: str
) -> None:
    text = {} if kind == "dense" else {"text": ["subject"]}
    service.create(name, features={"kind": kind, **text})
    answer = service.client.post("/learn", json={"model": name, "features": features, "label": 1})
    assert problem_of(answer) == (422, "invalid-request")
    assert answer.json()["errors"][0]["field"].split("[")[0] == field
    assert service.stats(name)["rounds"]["predicted"] == 0


def test_classes_past_the_cap_are_refused(start: Any) -> None:
    service = start(classes_max=3)
    service.create("m", labels=None)
    for label in ("a", "b", "c"):
        service.learn("m", [1.0], label)
    assert service.refused("/learn", {"model": "m", "features": [1.0], "label": "d"}) == (
        422,
        "unknown-label",
    )
    service.learn("m", [1.0], "a")


def test_a_first_example_with_names_makes_a_model_of_names(service: Service, name: str) -> None:
    prediction = service.predict(name, {"subject": "hello", "size": 3})
    service.reveal(prediction["prediction_id"], -1)
    assert service.get(f"/models/{name}")["settings"]["features"]["kind"] == "named"
    assert service.predict(name, {"size": 3})["label"] == -1
    service.assert_replay_equals_live(name)


def test_classes_times_weights_are_bounded(start: Any) -> None:
    service = start(weights_max=1000)
    too_many = {"model": "a", "labels": ["x", "y", "z"], "features": {"kind": "hashed", "bits": 9}}
    assert service.refused("/models", too_many) == (422, "invalid-request")
    service.create("m", labels=None, features={"kind": "hashed", "bits": 8})
    for label in ("a", "b", "c"):
        service.learn("m", {"x": 1}, label)
    assert service.refused("/learn", {"model": "m", "features": {"x": 1}, "label": "d"}) == (
        422,
        "unknown-label",
    )
