"""Batch training as a job, and models that move between services."""

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import SGDClassifier

from service.journal.codec import STATE_VERSION
from tests.support.model_kinds import over_journals
from tests.support.service_process import Service, problem_of
from tests.support.waiting import eventually

OVER_EVERY_JOURNAL = True


def finished(service: Service, job: dict[str, Any]) -> dict[str, Any]:
    path = f"/jobs/{job['id']}"
    eventually(lambda: service.get(path)["state"] != "running")
    return service.get(path)


def separable(count: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(5)
    points = rng.normal(size=(count, 2))
    return [
        {"features": p.tolist(), "label": 1 if p[0] > p[1] + 0.1 else -1}
        for p in points
        if abs(p[0] - p[1]) > 0.3
    ]


@pytest.mark.slow
def test_a_batch_fit_stops_when_all_is_correct_and_enters_the_journal(service: Service, name: str) -> None:
    service.create(name)
    examples = separable(200)
    job = service.post(f"/models/{name}/fit", {"examples": examples, "passes_max": 10_000})
    job = finished(service, job)
    assert job["state"] == "done", job
    assert job["result"]["stop"] == "all_correct" and job["result"]["errors"] == 0
    assert all(service.predict(name, e["features"])["label"] == e["label"] for e in examples)
    stats = service.stats(name)
    assert stats["version"] == job["version"] == 1 and stats["rounds"]["revealed"] == 0
    assert stats["bound"]["verdict"] == "not_applicable"
    kinds = [event["kind"] for event in service.get(f"/models/{name}/events")["events"]]
    assert "fitted" in kinds
    service.learn(name, [1.0, -1.0], 1)
    service.assert_replay_equals_live(name)


@pytest.mark.slow
def test_a_fit_on_history_or_lines_with_options_in_the_query(service: Service, name: str) -> None:
    examples = separable(100)
    for e in examples:
        service.learn(name, e["features"], e["label"])
    job = finished(service, service.post(f"/models/{name}/fit", {"source": "history", "algorithm": "online"}))
    assert job["state"] == "done" and job["examples"] == len(examples)
    assert job["result"]["stop"] == "all_correct"
    lines = "\n".join(json.dumps(e) for e in examples)
    answer = service.client.post(
        f"/models/{name}/fit?passes_max=3&order=shuffled&seed=7",
        content=lines,
        headers={"content-type": "application/x-ndjson"},
    )
    assert answer.status_code == 202, answer.text
    job = finished(service, answer.json())
    assert job["options"]["passes_max"] == 3 and job["options"]["order"] == "shuffled"
    service.assert_replay_equals_live(name)


@pytest.mark.slow
def test_one_job_a_model_and_cancelling_changes_nothing(service: Service, name: str) -> None:
    service.learn(name, [1.0, 1.0], -1)
    before = service.get(f"/models/{name}/weights")
    noise = [{"features": [1.0, float(i)], "label": 1 if i % 2 else -1} for i in range(2000)]
    endless = {"examples": noise, "passes_max": 1_000_000, "algorithm": "online"}
    job = service.post(f"/models/{name}/fit", endless)
    assert service.refused(f"/models/{name}/fit", endless) == (409, "job-running")
    while not service.get(f"/jobs/{job['id']}")["progress"]:
        service.predict(name, [1.0, 1.0])
    nice_of_service = os.getpriority(os.PRIO_PROCESS, service.pid)
    assert os.getpriority(os.PRIO_PROCESS, service.child_running("fit_process")) > nice_of_service
    assert service.client.delete(f"/jobs/{job['id']}").json()["state"] == "cancelled"
    assert service.get(f"/jobs/{job['id']}")["state"] == "cancelled"
    assert service.get(f"/models/{name}/weights") == before
    assert problem_of(service.client.get("/jobs/nobody")) == (404, "unknown-job")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "examples"),
        ({"source": "history", "examples": []}, "examples"),
        ({"source": "elsewhere"}, "source"),
        ({"examples": []}, "examples"),
        ({"examples": [{"features": [1.0], "label": 1}]}, "examples[0].features"),
        ({"examples": [{"features": [1.0, 2.0], "label": "x"}]}, "examples[0].label"),
        ({"examples": [{"features": [1.0, 2.0]}]}, "examples[0].label"),
        ({"source": "history", "speed": 3}, "speed"),
        ({"source": "history", "passes_max": 0}, "passes_max"),
        ({"source": "history", "algorithm": "magic"}, "algorithm"),
    ],
)
def test_bad_fits_are_refused(service: Service, name: str, body: dict[str, Any], field: str) -> None:
    service.learn(name, [1.0, 2.0], 1)
    answer = service.client.post(f"/models/{name}/fit", json=body)
    assert problem_of(answer) == (422, "invalid-request")
    assert answer.json()["errors"][0]["field"] == field


@pytest.mark.slow
def test_a_fit_with_one_class_only_fails_and_changes_nothing(service: Service, name: str) -> None:
    service.learn(name, [1.0, 2.0], 1)
    job = finished(service, service.post(f"/models/{name}/fit", {"source": "history"}))
    assert job["state"] == "failed" and "two classes" in job["error"]
    assert service.stats(name)["version"] == 1


FEATURES: list[dict[str, Any]] = [
    {"kind": "dense"},
    {"kind": "named", "standardize": True},
    {"kind": "hashed", "bits": 6},
]
ALGORITHMS = ["perceptron", "averaged", "arow", "arow_forgetting", "scw", "logistic"]


@over_journals(
    "kind",
    [(algorithm, features) for algorithm in ALGORITHMS for features in FEATURES],
    on_cluster=[("averaged", FEATURES[0]), ("scw", FEATURES[1]), ("logistic", FEATURES[2])],
    ids=str,
)
def test_a_model_moves_between_services_to_the_bit(
    start: Callable[..., Service],
    tmp_path: Path,
    service: Service,
    name: str,
    kind: tuple[str, dict[str, Any]],
) -> None:
    algorithm, features = kind
    service.create(name, learner={"algorithm": algorithm}, labels=None, features=features)

    def example(i: int) -> Any:
        values = {"a": i / 7, "b": (i * i) % 5 - 2.0, "c": 1.0 + i % 3}
        return list(values.values()) if features["kind"] == "dense" else values

    for i in range(40):
        service.learn(name, example(i), "xyz"[i % 3])
    export = service.get(f"/models/{name}/export")
    other = start()
    answer = other.client.put("/models/moved", json=export)
    assert answer.status_code == 201, answer.text
    for i in range(40, 60):
        here, there = (
            service.learn(name, example(i), "xyz"[i % 2]),
            other.learn("moved", example(i), "xyz"[i % 2]),
        )
        assert (here["score"], here["predicted"], here["mistakes"]) == (
            there["score"],
            there["predicted"],
            there["mistakes"],
        )
    other.kill()
    other.start()
    assert other.predict("moved", example(99))["score"] == service.predict(name, example(99))["score"]
    assert problem_of(other.client.put("/models/moved", json=export)) == (409, "model-exists")


def test_foreign_and_damaged_exports_are_refused(service: Service, name: str) -> None:
    for i in range(5):
        service.learn(name, [1.0, float(i)], -1 if i % 2 else 1)
    good = service.get(f"/models/{name}/export")

    def refuse(export: Any) -> None:
        answer = service.client.put(f"/models/{name}-copy", json=export)
        assert answer.status_code == 422, answer.text
        problem_of(answer)
        assert service.client.get(f"/models/{name}-copy").status_code == 404

    others = (
        {},
        [],
        {"format": "pickle"},
        {"coef_": [1.0]},
        {**good, "format": f"novikoff-model/{STATE_VERSION + 1}"},
    )
    for bad in (*others, {**good, "digest": "0"}):
        refuse(bad)
    for key in good:
        refuse({k: v for k, v in good.items() if k != key})
        for nonsense in (None, "x", -1, [], {}, {"$array": ["x"], "shape": [9]}, {"$bytes": "?"}):
            if nonsense != good[key]:
                refuse({**good, key: nonsense})
    tampered = copy.deepcopy(good)
    tampered["classifier"]["weights"]["$array"][0] += 1
    refuse(tampered)


def test_scikit_learn_loads_an_export(service: Service, name: str) -> None:
    data, target = load_breast_cancer(return_X_y=True)
    data = (data - data.mean(axis=0)) / data.std(axis=0)
    service.create(name, labels=["bad", "good"], learner={"algorithm": "pa1"})
    for x, y in zip(data[:150].tolist(), target[:150], strict=True):
        service.learn(name, x, ["bad", "good"][y])
    export = service.get(f"/models/{name}/export?format=sklearn")
    model = SGDClassifier()
    model.coef_ = np.array(export["coef_"])
    model.intercept_ = np.array(export["intercept_"])
    model.classes_ = np.array(export["classes_"])
    for x in data[150:200].tolist():
        assert model.predict([x])[0] == service.predict(name, x)["label"]
    service.create(f"{name}h", features="hashed")
    assert problem_of(service.client.get(f"/models/{name}h/export?format=sklearn")) == (
        422,
        "invalid-request",
    )


@pytest.mark.parametrize("tie", [-1, 1])
def test_an_onnx_export_breaks_ties_as_the_model_does(service: Service, name: str, tie: int) -> None:
    service.create(name, tie=tie)
    service.learn(name, [0.0, 0.0], -tie)  # a mistake: only the bias learns
    service.learn(name, [1.0, 0.0], tie)
    tied = [[x, y] for x in (-2.0, -1.0, 0.0, 1.0, 2.0) for y in (0.0, 1.0)]
    content = service.client.get(f"/models/{name}/export?format=onnx").content
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    predicted, _ = session.run(None, {"features": np.array(tied, np.float32)})
    answers = [service.predict(name, x) for x in tied]
    assert 0.0 in {answer["score"] for answer in answers}
    assert predicted.tolist() == [answer["label"] for answer in answers]


@pytest.mark.parametrize("labels", [["bad", "good"], [-1, 1], ["a", "b", "c"]])
def test_onnxruntime_runs_an_export(service: Service, name: str, labels: list[Any]) -> None:
    rng = np.random.default_rng(3)
    service.create(name, labels=labels, learner={"algorithm": "arow"}, features={"standardize": True})
    points = rng.normal(size=(150, 4)) * 3 + 1
    for i, x in enumerate(points[:100].tolist()):
        service.learn(name, x, labels[i % len(labels)])
    content = service.client.get(f"/models/{name}/export?format=onnx").content
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    predicted, scores = session.run(None, {"features": points[100:].astype(np.float32)})
    for x, label, score in zip(points[100:].tolist(), predicted.tolist(), scores, strict=True):
        answer = service.predict(name, x)
        assert answer["label"] == label
        assert score.max() == pytest.approx(
            abs(answer["score"]) if len(labels) == 2 else answer["score"], rel=1e-3
        )
    service.create(f"{name}h", features="hashed")
    assert problem_of(service.client.get(f"/models/{name}h/export?format=onnx")) == (422, "invalid-request")
