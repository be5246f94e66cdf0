"""The fleet of the golden files: every learner, way and kind of features, and whatever else can happen to a model."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.support.service_process import Service
from tests.support.waiting import eventually

SETTINGS: dict[str, object] = {
    "snapshot_every_events": 7,
    "events_kept_max": 25,
    "pending_max": 8,
    "pending_ttl_seconds": 3e9,
}
"""Snapshots and trims after few events; what waits may wait for ever, since it is revealed years later."""

OPENED_WITH = SETTINGS | {"events_kept_max": 1000}
"""How they are opened later: a trim would take first answers away that the files still have."""

LEARNERS: dict[str, dict[str, Any]] = {
    "perceptron": {"algorithm": "perceptron"},
    "margin": {"algorithm": "perceptron", "rule": "margin", "delta": 0.5, "schedule": "inverse_sqrt"},
    "averaged": {"algorithm": "averaged"},
    "pa": {"algorithm": "pa"},
    "pa1": {"algorithm": "pa1", "C": 0.5},
    "pa2": {"algorithm": "pa2", "C": 0.5},
    "arow": {"algorithm": "arow"},
    "arow-full": {"algorithm": "arow", "covariance": "full"},
    "scw": {"algorithm": "scw"},
    "scw-full": {"algorithm": "scw", "covariance": "full"},
}
STRATEGIES: dict[str, dict[str, Any]] = {
    "two": {},
    "all": {"multiclass": "one_vs_all", "labels": None},
    "one": {"multiclass": "one_vs_one", "labels": None},
    "matrix": {"multiclass": "multiclass", "labels": ["a", "b", "c"]},
}
KINDS: dict[str, dict[str, Any]] = {
    "dense": {"kind": "dense"},
    "named": {"kind": "named"},
    "hashed": {"kind": "hashed", "bits": 4},
    "text": {"kind": "named", "text": ["words"]},
    "l2": {"kind": "dense", "normalize": "l2"},
    "standardize": {"kind": "dense", "standardize": True},
    "fourier": {"kind": "dense", "fourier": {"features": 6, "gamma": 0.5, "seed": 7}},
}
VARIANTS = ("margin", "arow-full", "scw-full")
COMBINATIONS = [
    (learner, way, kind)
    for learner in LEARNERS
    for way in STRATEGIES
    for kind in KINDS
    if (way != "matrix" or learner in ("perceptron", "margin"))
    and (kind == "dense" or learner not in VARIANTS)
]
FEWER = [
    (learner, way, kind)
    for learner, way, kind in COMBINATIONS
    if (way == "two" and (kind == "dense" or learner == "perceptron"))
    or (learner, way, kind)
    in (("arow", "all", "named"), ("scw", "one", "text"), ("perceptron", "matrix", "hashed"))
]
"""Each learner, way and kind, but not all together."""


@dataclass
class Fleet:
    """What a service was made to do, as far as it can be asked about it later."""

    models: list[str] = field(default_factory=list)
    repeated: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Requests that were answered, and have to be answered in the same way when they are sent again."""
    waiting: list[tuple[str, Any]] = field(default_factory=list)
    """Ids of predictions that wait, and their labels."""
    refused: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Requests that have to fail."""


def examples(model: str, kind: str, way: str, count: int) -> Iterator[tuple[Any, Any]]:
    """Features and labels, the same whenever they are asked for. No vector is zero."""
    chance = random.Random(f"{model} {count}")
    for _ in range(count):
        x = [round(chance.uniform(-2, 2), 3) or 1.0 for _ in range(3)]
        which = (x[0] + x[1] > 0) + (x[2] > 0.5)
        label = (-1, 1, 1)[which] if way == "two" else "abc"[which]
        yield features_of(kind, x), label


def features_of(kind: str, x: list[float]) -> Any:
    if kind in ("named", "hashed"):
        return {
            "first": x[0],
            "second": x[1],
            "is_large": x[2] > 0.5,
            "colour": "red" if x[0] > 0 else "blue",
        }
    if kind == "text":
        words = [
            "sun" if x[0] > 0 else "rain",
            "hill" if x[1] > 0 else "sea",
            "high" if x[2] > 0.5 else "low",
        ]
        return {"words": " and ".join(words), "length": x[2]}
    return x


def fill_combinations(service: Service, fleet: Fleet, combinations: list[tuple[str, str, str]]) -> None:
    """A model for each, with some rounds of every sort."""
    for number, (learner, way, kind) in enumerate(combinations):
        model = f"{learner}.{way}.{kind}"
        service.create(model, learner=LEARNERS[learner], features=KINDS[kind], **STRATEGIES[way])
        fleet.models.append(model)
        rounds = examples(model, kind, way, 14)
        aside = Fleet()  # what is not asked about later, which would take long
        for i in range(4):
            _learn(service, aside if i else fleet, model, *next(rounds), id=f"{model}:{i}")
        stream(service, model, [next(rounds) for _ in range(4)])
        for i in range(4, 8):
            _reveal(service, aside if i < 7 else fleet, model, *next(rounds), id=f"{model}:{i}")
        _wait(service, fleet, model, *next(rounds), **({"id": f"{model}:waits"} if number % 2 else {}))


def fill_extraordinary(service: Service, fleet: Fleet) -> None:
    """Models to which something else has happened than rounds."""
    for happens in (_busy, _reset, _fitted, _drifted, _crowded, _mortal, _imported, _of_chosen_settings):
        happens(service, fleet)


def go_on(service: Service, fleet: Fleet) -> None:
    """A few rounds more of models that were there before."""
    for model in ("busy", "reset", "perceptron.two.dense", "arow.all.named", "scw.one.text"):
        _, way, kind = model.split(".") if "." in model else (model, "two", "dense")
        for i, (features, label) in enumerate(examples(model, kind, way, 5)):
            _reveal(service, fleet, model, features, label, id=f"{model}:on:{i}")
        _wait(service, fleet, model, features, label, id=f"{model}:on:waits")


def _busy(service: Service, fleet: Fleet) -> None:
    """So many rounds that the first events are no longer kept."""
    fleet.models.append("busy")
    for i, (features, label) in enumerate(examples("busy", "dense", "two", 70)):
        _reveal(service, fleet, "busy", features, label, id=f"busy:{i}")
    _wait(service, fleet, "busy", features, label, id="busy:waits")


def _reset(service: Service, fleet: Fleet) -> None:
    fleet.models.append("reset")
    _wait(service, Fleet(), "reset", [1.0, 2.0, 3.0], 1, id="reset:void")
    fleet.refused.append(("/feedback", {"prediction_id": "reset:void", "label": 1}))
    for i, (features, label) in enumerate(examples("reset", "dense", "two", 10)):
        _learn(service, fleet, "reset", features, label, id=f"reset:{i}")
    service.post("/models/reset/reset", {})
    for i, (features, label) in enumerate(examples("reset", "dense", "two", 9)):
        _learn(service, fleet, "reset", features, label, id=f"reset:again:{i}")


def _fitted(service: Service, fleet: Fleet) -> None:
    for learner, way, kind in (("averaged", "two", "standardize"), ("pa1", "all", "named")):
        model = f"fitted.{way}.{kind}"
        service.create(model, learner=LEARNERS[learner], features=KINDS[kind], **STRATEGIES[way])
        fleet.models.append(model)
        known = [{"features": x, "label": y} for x, y in examples(model, kind, way, 30)]
        job = service.post(f"/models/{model}/fit", {"examples": known})["id"]
        eventually(lambda job=job: service.get(f"/jobs/{job}")["state"] == "done")  # type: ignore[misc]
        for i, (features, label) in enumerate(examples(model, kind, way, 4)):
            _learn(service, fleet, model, features, label, id=f"{model}:{i}")


def _drifted(service: Service, fleet: Fleet) -> None:
    fleet.models.append("drifted")
    known = list(examples("drifted", "dense", "two", 400))
    chance = random.Random("drift")
    stream(service, "drifted", [*known[:300], *((x, chance.choice((-1, 1))) for x, _ in known)])
    eventually(lambda: service.stats("drifted")["drift"]["count"] > 0)


def _crowded(service: Service, fleet: Fleet) -> None:
    """More predictions wait than may: the oldest expire."""
    fleet.models.append("crowded")
    for i, (features, label) in enumerate(examples("crowded", "dense", "two", 12)):
        _wait(service, fleet if i >= 4 else Fleet(), "crowded", features, label, id=f"crowded:{i}")
    fleet.refused += [("/feedback", {"prediction_id": f"crowded:{i}", "label": 1}) for i in range(4)]


def _mortal(service: Service, fleet: Fleet) -> None:
    """One is deleted, and one is deleted and made again."""
    for model in ("deleted", "reborn"):
        for i, (features, label) in enumerate(examples(model, "dense", "two", 9)):
            _learn(service, Fleet(), model, features, label, id=f"{model}:{i}")
        _wait(service, Fleet(), model, features, label, id=f"{model}:waits")
        assert service.client.delete(f"/models/{model}").status_code == 204
    fleet.refused.append(("/feedback", {"prediction_id": "deleted:waits", "label": 1}))
    fleet.models.append("reborn")
    for i, (features, label) in enumerate(examples("reborn", "named", "two", 9)):
        _learn(service, fleet, "reborn", features, label, id=f"reborn:again:{i}")


def _imported(service: Service, fleet: Fleet) -> None:
    fleet.models.append("imported")
    export = service.get("/models/reborn/export")
    assert service.client.put("/models/imported", json=export).status_code == 201
    for i, (features, label) in enumerate(examples("imported", "named", "two", 4)):
        _reveal(service, fleet, "imported", features, label, id=f"imported:{i}")


def _of_chosen_settings(service: Service, fleet: Fleet) -> None:
    chosen: dict[str, dict[str, Any]] = {
        "strict": {"protocol": "strict"},
        "declared": {"declared_margin": 0.01, "labels": [False, True], "tie": False},
        "without-bias": {"bias": False, "learner": {"eta0": 0.5}},
        "untouched": {"labels": ["ham", "spam"]},
    }
    for model, settings in chosen.items():
        service.create(model, **settings)
        fleet.models.append(model)
    for model, labels in (("strict", (-1, 1)), ("declared", (False, True)), ("without-bias", (-1, 1))):
        for i, (features, label) in enumerate(examples(model, "dense", "two", 9)):
            _reveal(service, fleet, model, features, labels[label == 1], id=f"{model}:{i}")
        _wait(service, fleet, model, features, labels[0], id=f"{model}:waits")


def stream(service: Service, model: str, rounds: list[tuple[Any, Any]]) -> None:
    """Whole rounds, which become blocks."""
    lines = [json.dumps({"model": model, "features": x, "label": y}) for x, y in rounds]
    headers = {"content-type": "application/x-ndjson"}
    answer = service.client.post("/stream", content="\n".join(lines) + "\n", headers=headers)
    assert answer.status_code == 200 and "code" not in answer.text, answer.text


def _learn(service: Service, fleet: Fleet, model: str, features: Any, label: Any, **more: Any) -> None:
    body = {"model": model, "features": features, "label": label, **more}
    service.post("/learn", body)
    fleet.repeated.append(("/learn", body))


def _reveal(service: Service, fleet: Fleet, model: str, features: Any, label: Any, **more: Any) -> None:
    body = {"prediction_id": service.predict(model, features, **more)["prediction_id"], "label": label}
    service.post("/feedback", body)
    fleet.repeated.append(("/feedback", body))


def _wait(service: Service, fleet: Fleet, model: str, features: Any, label: Any, **more: Any) -> None:
    fleet.waiting.append((service.predict(model, features, **more)["prediction_id"], label))
