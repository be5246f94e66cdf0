"""How many classes and weights a model may come to have, whoever brings them."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from service.errors import InvalidSettings
from service.learning.statistics.confusion import CLASSES_MAX
from service.settings import load_settings
from tests.support.concurrent_requests import at_once
from tests.support.process_usage import peak_bytes
from tests.support.service_process import Service, problem_of

Start = Callable[..., Service]


def lines_of(service: Service, content: bytes) -> list[dict[str, Any]]:
    answer = service.client.post("/stream", content=content, headers={"content-type": "application/x-ndjson"})
    return [json.loads(line) for line in answer.text.splitlines()]


def test_there_are_never_more_classes_than_the_statistics_tell_apart(start: Start) -> None:
    with pytest.raises(InvalidSettings, match=r"NOVIKOFF_CLASSES_MAX.*4095"):
        load_settings(classes_max=CLASSES_MAX + 1)
    service = start(classes_max=CLASSES_MAX, items_max=2 * CLASSES_MAX, body_bytes_max=1 << 22)
    too_many = {"model": "x", "labels": list(range(CLASSES_MAX + 1))}
    assert service.refused("/models", too_many) == (422, "invalid-request")
    service.create("m", labels=None, multiclass="multiclass")
    rounds = [{"model": "m", "features": [1.0], "label": label} for label in range(CLASSES_MAX)]
    lines_of(service, b"\n".join(json.dumps(each).encode() for each in rounds))
    one_more = {"model": "m", "features": [1.0], "label": "one more"}
    assert service.refused("/learn", one_more) == (422, "unknown-label")
    assert lines_of(service, json.dumps(one_more).encode())[0]["error"]["code"] == "unknown-label"
    service.learn("m", [1.0], CLASSES_MAX - 1)
    assert service.stats("m")["rounds"]["revealed"] == CLASSES_MAX + 1


def test_classes_that_are_new_in_one_fit_or_one_stream_count_together(start: Start) -> None:
    service = start(classes_max=3, weights_max=8)
    examples = [{"features": [float(at)], "label": at} for at in range(4)]
    service.create("fitted", labels=None)
    answer = service.client.post("/models/fitted/fit", json={"algorithm": "online", "examples": examples})
    assert problem_of(answer) == (422, "invalid-request")
    assert answer.json()["errors"][0]["field"] == "examples[3].label"
    service.create("streamed", labels=None)
    rounds = [{"model": "streamed", "features": [0.0] * 4, "label": label} for label in range(3)]
    told = lines_of(service, b"\n".join(json.dumps(each).encode() for each in rounds))
    assert [line.get("error", {}).get("code") for line in told] == [None, None, "unknown-label"]


def test_classes_that_are_new_at_the_same_moment_count_together(start: Start) -> None:
    service = start(classes_max=3, weights_max=4_000)
    full = {
        "learner": {"algorithm": "arow", "covariance": "full"},
        "features": {"dimension": 29},
    }  # 900 a class
    pairs = {"multiclass": "one_vs_one", "features": {"dimension": 4_000 // 3}}
    for name, settings in (("few", {}), ("full", {**full, "labels": None}), ("pairs", pairs)):
        service.create(name, **{"labels": None, "features": {"dimension": 1}, **settings})
        features = [1.0] * service.get(f"/models/{name}")["dimension"]
        rounds = [{"model": name, "features": features, "label": f"label {at}"} for at in range(40)]
        answers = at_once([(service, "/learn", each) for each in rounds])
        refused = [problem_of(answer) for answer in answers if answer.status_code != 200]
        assert refused == [(422, "unknown-label")] * 37
        assert len(service.stats(name)["classes"]) == 3
    service.create("served", labels=None, features={"dimension": 1})
    waiting = [service.predict("served", [1.0])["prediction_id"] for _ in range(40)]
    reveals = [{"prediction_id": one, "label": f"label {at}"} for at, one in enumerate(waiting)]
    answers = at_once([(service, "/feedback", each) for each in reveals])
    assert [answer.status_code for answer in answers].count(200) == 3
    taken = service.stats("served")["classes"]
    for one in waiting:  # whose own labels were refused
        service.client.post("/feedback", json={"prediction_id": one, "label": taken[0]["label"]})
    assert service.stats("served")["rounds"]["pending"] == 0


@pytest.mark.parametrize(
    ("settings", "fits"),
    [
        ({"learner": {"algorithm": "perceptron"}}, 1024),
        ({"learner": {"algorithm": "averaged"}}, 512),
        ({"learner": {"algorithm": "arow"}}, 512),
        ({"learner": {"algorithm": "scw", "covariance": "full"}}, 31),  # 31 + 31 * 31 = 992
        ({"labels": list("abcd")}, 256),
        ({"labels": list("abcdefgh"), "multiclass": "one_vs_one"}, 36),  # 28 pairs
        ({"labels": list("abcd"), "learner": {"algorithm": "averaged"}, "multiclass": "one_vs_one"}, 85),
    ],
)
def test_weights_are_all_numbers_of_all_learners_also_once_the_first_example_tells_how_many(
    start: Start, settings: dict[str, Any], fits: int
) -> None:
    service = start(weights_max=1_024)
    service.create("declared", features={"dimension": fits}, **settings)
    too_many = {"model": "x", "features": {"dimension": fits + 1}, **settings}
    assert service.refused("/models", too_many) == (422, "invalid-request")
    label = settings.get("labels", [-1])[0]
    service.create("first", **settings)
    for path, more in (("/predict", {}), ("/learn", {"label": label})):
        answer = service.client.post(path, json={"model": "first", "features": [1.0] * (fits + 1), **more})
        assert problem_of(answer) == (422, "invalid-request")
        assert answer.json()["errors"][0]["field"] == "features"
        assert "1024" in answer.json()["errors"][0]["message"]
    line = json.dumps({"model": "first", "features": [1.0] * (fits + 1), "label": label}).encode()
    assert lines_of(service, line)[0]["error"]["code"] == "invalid-request"
    examples = [{"features": [float(at)] * (fits + 1), "label": label} for at in range(2)]
    answer = service.client.post("/models/first/fit", json={"examples": examples})
    assert problem_of(answer) == (422, "invalid-request")
    assert service.get("/models/first")["dimension"] is None
    service.learn("first", [1.0] * fits, label)


@pytest.mark.parametrize(
    ("settings", "fits"),  # 100 numbers a class or pair of them; AROW has 200
    [({}, 40), ({"multiclass": "one_vs_one"}, 9), ({"learner": {"algorithm": "arow"}}, 20)],
)
def test_a_fit_that_brings_both_dimension_and_classes_is_held_to_the_limit(
    start: Start, settings: dict[str, Any], fits: int
) -> None:
    service = start(weights_max=4_000)
    service.create("m", labels=None, **settings)
    examples = [{"features": [float(at)] * 100, "label": at} for at in range(fits + 1)]
    answer = service.client.post("/models/m/fit", json={"algorithm": "online", "examples": examples})
    assert problem_of(answer) == (422, "invalid-request")
    assert answer.json()["errors"][0]["field"] == f"examples[{fits}].label"


def test_the_projection_of_fourier_features_counts(start: Start) -> None:
    service = start(weights_max=4_000)
    fourier = {"fourier": {"features": 100}}
    service.create("fits", features={"dimension": 39, **fourier})
    too_many = {"model": "x", "features": {"dimension": 40, **fourier}}
    assert service.refused("/models", too_many) == (422, "invalid-request")
    service.create("later", features=fourier)
    assert service.refused("/learn", {"model": "later", "features": [1.0] * 40, "label": 1})[0] == 422
    service.learn("later", [1.0] * 39, 1)


def test_crosses_count_with_what_they_keep(start: Start) -> None:
    """10 numbers have 55 pairs: 65 weights, twice with AROW, and four numbers for each pair in the list of them."""
    service = start(weights_max=2 * 65 + 4 * 55)
    arow, crosses = {"algorithm": "arow"}, {"crosses": 2}
    service.create("fits", learner=arow, features={"dimension": 10, **crosses})
    too_many = {"model": "x", "learner": arow, "features": {"dimension": 11, **crosses}}
    assert service.refused("/models", too_many) == (422, "invalid-request")
    named = {"model": "x", "features": {"kind": "named", "names_max": 20, **crosses}}
    assert service.refused("/models", named) == (422, "invalid-request")
    service.create("later", learner=arow, features=crosses)
    assert service.refused("/learn", {"model": "later", "features": [1.0] * 11, "label": 1})[0] == 422
    service.learn("later", [1.0] * 10, 1)


def test_a_pair_of_classes_counts_where_classes_appear(start: Start) -> None:
    service = start(weights_max=60)
    service.create("m", labels=None, multiclass="one_vs_one", features={"dimension": 10})
    for label in "abcd":  # six pairs
        service.learn("m", [1.0] * 10, label)
    fifth = {"model": "m", "features": [1.0] * 10, "label": "e"}
    assert service.refused("/learn", fifth) == (422, "unknown-label")


def test_means_and_variances_count_too(start: Start) -> None:
    service = start(weights_max=1_000)
    for kind, size in (({"kind": "hashed", "bits": 8}, 256), ({"kind": "dense", "dimension": 34}, 34)):
        service.create(f"plain-{size}", features=kind)
        scaled = {"model": f"scaled-{size}", "features": {**kind, "standardize": True}}
        assert service.refused("/models", scaled) == (422, "invalid-request")
    service.create("fits", features={"kind": "dense", "dimension": 33, "standardize": True})
    service.create("later", features={"kind": "dense", "standardize": True})
    assert service.refused("/learn", {"model": "later", "features": [1.0] * 34, "label": 1})[0] == 422
    service.learn("later", [1.0] * 33, 1)


def test_full_covariances_of_many_labels_take_no_more_memory_than_weights_max_says(start: Start) -> None:
    weights_max = 4_000_000
    service = start(weights_max=weights_max)
    before = peak_bytes(service.process.pid)
    full = {"learner": {"algorithm": "arow", "covariance": "full"}, "labels": [f"{k}" for k in range(300)]}
    too_large = {"model": "m", **full, "features": {"kind": "dense", "dimension": 120}}
    assert service.refused("/models", too_large) == (422, "invalid-request")
    service.create("m", **full, features={"kind": "dense", "dimension": 110})
    service.learn("m", [1.0] * 110, "7")
    assert peak_bytes(service.process.pid) - before < 4 * 8 * weights_max
