"""`auto` through a running service: every route, killed and started again, over either journal."""

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from service.learning.panel.panels import NEWEST, PANELS
from tests.support.model_kinds import over_journals
from tests.support.service_process import Service, problem_of

OVER_EVERY_JOURNAL = True

AUTO = {"algorithm": "auto"}
NAMES = [expert.name for expert in PANELS[NEWEST].experts]


def rounds(many: int, labels: list[Any], kind: str = "dense", seed: int = 0) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    lines = []
    for _ in range(many):
        x = [round(chance.gauss(0, 1), 3) for _ in range(6)]
        at = min(len(labels) - 1, int(abs(x[0] + x[1] * x[2]) * 1.5))
        sent: Any = x if kind == "dense" else {"a": x[0], "b": x[1], "city": f"c{at if x[5] > 0 else 7}"}
        lines.append({"features": sent, "label": labels[at]})
    return lines


CASES = [
    {"labels": ["no", "yes"]},
    {"labels": ["no", "yes"], "features": "named", "coverage": 0.8},
    {"labels": None, "ask": "auto", "coverage": 0.9},
    {"labels": [1, 2, 3], "features": {"kind": "hashed", "bits": 8}},
]


@over_journals("settings", CASES, on_cluster=CASES[2:3], ids=str)
def test_what_was_learned_survives_a_kill_to_the_bit(
    start: Callable[..., Service], settings: dict[str, Any]
) -> None:
    service = start(snapshot_every_events=40, durability_of_predictions="strict")
    service.create("m", learner=AUTO, **settings)
    kind = "dense" if "features" not in settings else "named"
    lines = rounds(160, settings["labels"] or ["x", "y", "z"], kind)
    waiting: list[tuple[dict[str, Any], Any]] = []
    for number, line in enumerate(lines[:100]):
        if number % 3:
            service.learn("m", line["features"], line["label"])
        else:
            waiting.append((service.predict("m", line["features"]), line["label"]))
        if number % 20 == 19:
            for served, label in waiting[:4]:
                service.reveal(served["prediction_id"], label, weight=2.0)
            del waiting[:4]
    before, export = service.stats("m"), service.get("/models/m/export")
    service.kill()
    service.start()
    assert service.get("/models/m/export") == export
    assert service.stats("m")["experts"] == before["experts"]
    for served, label in waiting:  # served before the kill, by experts that are the same again
        assert service.reveal(served["prediction_id"], label)["predicted"] == served["label"]
    service.stream(lines[100:], model="m")
    service.assert_replay_equals_live("m")
    assert service.stats("m")["experts"]["rounds"] == 160


@pytest.mark.slow
def test_a_stream_is_the_same_to_the_bit_as_its_rounds_one_by_one(service: Service, name: str) -> None:
    lines = rounds(300, ["no", "yes"])
    for suffix in ("a", "b", "c"):
        service.create(name + suffix, learner=AUTO, labels=["no", "yes"])
    alone = [service.learn(f"{name}a", line["features"], line["label"]) for line in lines]
    together = service.stream(lines, model=f"{name}b")
    for one, other in zip(alone, together, strict=True):
        assert one | {"model": ""} == other | {"model": ""}
    sink = pa.BufferOutputStream()
    columns = pa.array([line["features"] for line in lines], pa.list_(pa.float64(), 6))
    table = pa.table({"features": columns, "label": [line["label"] for line in lines]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    answer = service.client.post(
        f"/stream?model={name}c",
        content=sink.getvalue().to_pybytes(),
        headers={"content-type": "application/vnd.apache.arrow.stream"},
    )
    assert answer.status_code == 200, answer.text
    kept = [service.get(f"/models/{name}{suffix}/export")["classifier"] for suffix in ("a", "b", "c")]
    assert kept[0] == kept[1] == kept[2]


def test_a_prediction_is_explained_by_the_expert_that_weighs_most(service: Service, name: str) -> None:
    service.create(name, learner=AUTO, labels=["no", "yes"], features="named")
    service.stream(rounds(80, ["no", "yes"], "named"), model=name)
    answer = service.predict(name, {"a": 1.0, "b": 2.0}, explain=5)
    leader = service.stats(name)["experts"]["leader"]
    assert answer["expert"] == leader
    assert {term["feature"] for term in answer["explanation"]} == {"a", "b", "bias"}
    assert "expert" not in service.predict(name, {"a": 1.0})
    assert -1.0 <= answer["score"] <= 1.0 and 0.0 < answer["probability"] < 1.0
    weights = service.get(f"/models/{name}/weights")
    assert weights["expert"] == leader and len(weights["names"]) == len(weights["classes"][0]["weights"])
    service.create(f"{name}-plain")
    assert "expert" not in service.get(f"/models/{name}-plain/weights")


@pytest.mark.slow
def test_an_export_makes_the_same_model_elsewhere(service: Service, name: str) -> None:
    service.create(name, learner=AUTO, labels=None)
    service.stream(rounds(120, ["x", "y", "z"]), model=name)
    export = service.get(f"/models/{name}/export")
    answer = service.client.put(f"/models/{name}-again", json=export | {"name": name})
    assert answer.status_code == 201, answer.text
    features = rounds(1, ["x"], seed=5)[0]["features"]
    one, other = service.predict(name, features), service.predict(f"{name}-again", features)
    for field in ("label", "score", "probability"):
        assert one[field] == other[field]
    assert service.stats(f"{name}-again")["experts"] == service.stats(name)["experts"]
    doctored = msgspec.json.decode(msgspec.json.encode(export))
    doctored["classifier"]["hedge"]["weights"][0] = 2.0
    answer = service.client.put(f"/models/{name}-worse", json=doctored)
    assert problem_of(answer) == (422, "invalid-export")


def test_what_a_panel_cannot_do_is_refused_with_the_reason(service: Service, name: str) -> None:
    service.create(name, learner=AUTO, labels=["no", "yes"])
    service.stream(rounds(20, ["no", "yes"]), model=name)
    fit = service.client.post(
        f"/models/{name}/fit", json={"examples": [{"features": [1.0] * 6, "label": "no"}]}
    )
    assert problem_of(fit)[0] == 422 and "/stream" in fit.text
    history = service.client.post(f"/models/{name}/fit", json={"source": "history"})
    assert problem_of(history)[0] == 422
    for form in ("sklearn", "onnx"):
        answer = service.client.get(f"/models/{name}/export?format={form}")
        assert problem_of(answer)[0] == 422 and "votes" in answer.text
    for body, field in (
        ({"learner": {"algorithm": "auto", "panel": 99}}, "learner.panel"),
        ({"learner": {"algorithm": "auto", "C": 1.0}}, "learner.C"),
        ({"learner": AUTO, "features": {"standardize": True}}, "features.standardize"),
        ({"learner": AUTO, "labels": [1, 2, 3], "multiclass": "multiclass"}, "multiclass"),
    ):
        answer = service.client.post("/models", json={"model": f"{name}-not", **body})
        assert problem_of(answer)[0] == 422
        assert [each["field"] for each in answer.json()["errors"]] == [field]


def test_experts_are_told_with_every_panel_and_with_no_other_model(service: Service, name: str) -> None:
    made = service.create(name, learner=AUTO)
    assert made["settings"]["learner"] == {"algorithm": "auto", "panel": NEWEST}
    experts = service.stats(name)["experts"]
    assert [expert["name"] for expert in experts["panel"]] == NAMES
    assert experts["rounds"] == 0 and experts["history"]["rounds"] == []
    service.create(f"{name}-plain")
    assert service.stats(f"{name}-plain")["experts"] is None
