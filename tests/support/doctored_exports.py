"""Exports of every kind of model, and exports that somebody has changed and given the digest that fits."""

import copy
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

from service.engine.models.model import Model
from service.engine.models.settings import ModelLimits
from service.engine.transfer.json_export import _digest, _restored
from service.errors import InvalidExport
from service.events import ChallengerPromoted, DimensionFixed, ModelCreated, RoundLearned, RoundRevealed
from service.journal.codec import STATE_VERSION
from service.learning import saved
from service.web.routes.model_settings import ModelSettings
from tests.learning.rounds import AUTO, FEATURES, LEARNERS, PAIRS, PANELS, STRATEGIES, rounds_for
from tests.support.exporting import export_model

LIMITS = ModelLimits(names_max=1_000, classes_max=100, covariance_dimension_max=300, weights_max=10**6)
NOW = 1_700_000_000_000_000
WIDE = "hashed-wide"
SORTS = {**FEATURES, WIDE: ({"kind": "hashed", "bits": 12}, 1.0)}
"""Kinds of features; with the last, arrays are kept by their entries, since most of them are 0."""

KINDS = [
    *((learner, way, features) for learner, way in PAIRS for features in FEATURES),
    *((learner, way, WIDE) for learner, way in PAIRS if not learner.endswith("-full")),
    *PANELS,
]


def teach(model: Model, way: str, features: str, count: int, seed: int = 1, at: int = NOW) -> Model:
    """Let a model learn rounds, every third of them late."""
    for number, (sent, truth) in enumerate(rounds_for(way, features, count, seed=seed)):
        read = model.features.read(sent)
        if model.features.dimension is None:
            model.apply(DimensionFixed(model.name, at, len(read)))
        label = model.settings["labels"][truth] if model.settings["labels"] else f"class {truth}"
        example = model.features.encode(read)
        at += 700_000
        if number % 3:
            model.apply(RoundLearned(model.name, at, None, label, example))
        else:
            chosen, score, certainty = model.predict(read)
            model.apply(
                RoundRevealed(model.name, at, f"p{number}", label, at - 90_000, example,
                              model.labels.label(chosen), score, model.version, max(0, model.updates - 1),
                              certainty, 2.5)
            )  # fmt: skip
    return model


@cache
def exported(
    learner: str, way: str, features: str, rounds: int = 40, *, sure: str | float | None = None
) -> dict[str, Any]:
    """A model that has learned; with `sure`, the b of `ask`, one that serves sets and asks for labels."""
    strategy, declared, _ = STRATEGIES[way]
    of_features, bias_value = SORTS[features]
    settings = ModelSettings(
        learner=LEARNERS.get(learner, {"algorithm": AUTO}),
        multiclass=strategy,
        labels=[f"class {k}" for k in range(declared)] if declared else None,
        features=of_features,
        bias=bias_value is not None,
        bias_value=bias_value or 1.0,
        coverage=None if sure is None else 0.8,
        ask=None if sure is None else sure if sure == "auto" else {"b": sure},
        class_weights=None if sure is None else {"class 0": 3.0},
    )
    model = Model(ModelCreated("m", NOW, settings.complete(LIMITS)))
    return export_model(teach(model, way, features, rounds))


@cache
def contested(features: str) -> dict[str, Any]:
    """A model with challengers, one of which was promoted; two classes."""
    settings = {
        "labels": ["class 0", "class 1"],
        "features": FEATURES[features][0],
        "coverage": 0.8,
        "promote": {"rounds_min": 5, "confidence": 0.5},
        "challengers": {
            "auto": {"learner": {"algorithm": "auto"}},
            "full": {"learner": {"algorithm": "arow", "covariance": "full"}},
            "pairs": {"learner": {"algorithm": "pa1"}, "multiclass": "one_vs_one"},
        },
    }
    if features == "named":
        settings["features"] = {"kind": "named", "names_max": 40, "text": ["subject"]}
    model = Model(ModelCreated("m", NOW, ModelSettings.model_validate(settings).complete(LIMITS)))
    teach(model, "binary", features, 30)
    champion = model.settings["champion"]
    chosen = next(iter(model.settings["challengers"]))
    model.apply(ChallengerPromoted("m", model.updated_at, chosen, champion, model.revealed))
    return export_model(teach(model, "binary", features, 30, at=model.updated_at))


def with_digest(export: dict[str, Any], version: int = STATE_VERSION) -> dict[str, Any]:
    """The export with the digest that belongs to it, if it can have one."""
    content = {key: value for key, value in export.items() if key not in ("format", "digest")}
    try:
        return {**export, "digest": _digest(_restored(content), version)}
    except (saved.BadState, InvalidExport, ValueError, TypeError, OverflowError, LookupError, RecursionError):
        return export


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values in a document; of a long list only some."""
    if path:
        yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for at in {*range(min(len(value), 8)), len(value) - 1} if value else ():
            yield from places(value[at], (*path, at))


JUNK: list[Any] = [
    None, True, False, "", "x", "NaN", -1, 0, 1, 2, 3, 7, 2**31, 2**32, 2**40, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1,
    -(2**63), 0.0, -0.0, 0.5, -1.0, 1.5, 1e-300, 1e165, 1e200, 1.7e308, -1e308, [], {}, [[]], [0], [1, 2], [None],
    ["x", "x"], {"$bytes": ""}, {"$bytes": "AAAA"}, {"$bytes": "/////////////////////w=="}, {"$bytes": 7},
    {"$array": [], "kind": "f", "shape": [0]}, {"$array": [1.0], "kind": "f", "shape": [1]},
    {"$array": [1], "kind": "i", "shape": [1]}, {"$array": [1.0], "kind": "f", "shape": [2**40, 2**40]},
    {"shape": [2**33]}, {"shape": [4], "places": {"$array": [9], "kind": "i", "shape": [1]},
                         "values": {"$array": [1.0], "kind": "f", "shape": [1]}},
    "fitted", "one_vs_one", "full", "x" * 600,
]  # fmt: skip


def doctored(
    export: dict[str, Any], chance: random.Random, version: int = STATE_VERSION
) -> tuple[dict[str, Any], str]:
    """The export with one to three changes, and what they were."""
    changed = copy.deepcopy(export)
    done = []
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        path = chance.choice([path for path in places(changed) if path[0] != "digest"])
        parent: Any = changed
        for key in path[:-1]:
            parent = parent[key]
        done.append(f"{'.'.join(map(str, path))} {_change(parent, path[-1], chance)}")
    return with_digest(changed, version), "; ".join(done)


def _change(parent: Any, key: Any, chance: random.Random) -> str:
    value = parent[key]
    ways = ["junk", "junk", "remove"]
    if type(value) in (int, float):
        ways += ["nudge", "nudge", "negate", "scale"]
    if isinstance(value, list) and value:
        ways += ["shorten", "double", "swap"]
    if isinstance(value, dict):
        ways += ["add"]
    way = chance.choice(ways)
    if way == "junk":
        parent[key] = copy.deepcopy(chance.choice(JUNK))
    elif way == "remove":
        del parent[key]
    elif way == "nudge":
        parent[key] = value + chance.choice((-1, 1, 1 << 40, 1 << 41))
    elif way == "negate":
        parent[key] = -value
    elif way == "scale":
        parent[key] = value * chance.choice((2, 1000, 1e160 if isinstance(value, float) else 10**6))
    elif way == "shorten":
        value.pop(chance.randrange(len(value)))
    elif way == "double":
        value.append(copy.deepcopy(chance.choice(value)))
    elif way == "swap":
        one, other = chance.randrange(len(value)), chance.randrange(len(value))
        value[one], value[other] = value[other], value[one]
    elif way == "add":
        value["more"] = chance.choice(JUNK)
    return way
