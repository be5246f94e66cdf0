"""Models made from settings and taken through rounds, as the engine takes them."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np

from service.journal.codec import decode_state, encode_state
from service.learning.classes import strategies
from service.learning.classes.classifier import Classifier
from service.learning.features import kinds as feature_kinds
from service.learning.learners import algorithms
from service.learning.panel.panel import Panel
from service.learning.vectors import Vector

LEARNERS: dict[str, dict[str, Any]] = {
    "perceptron": {"algorithm": "perceptron"},
    "perceptron-margin": {"rule": "margin", "delta": 0.5, "eta0": 0.5, "schedule": "inverse_sqrt"},
    "perceptron-forgetting": {"forget": 2.0},
    "averaged": {"algorithm": "averaged"},
    "pa": {"algorithm": "pa"},
    "pa1": {"algorithm": "pa1", "C": 0.3},
    "pa2": {"algorithm": "pa2", "C": 0.3},
    "arow": {"algorithm": "arow", "r": 0.5},
    "arow-full": {"algorithm": "arow", "covariance": "full"},
    "forgetting": {"algorithm": "arow_forgetting", "r": 0.5, "forget": 0.05},
    "forgetting-full": {"algorithm": "arow_forgetting", "covariance": "full"},
    "scw": {"algorithm": "scw", "eta": 0.8},
    "scw-full": {"algorithm": "scw", "C": 0.5, "covariance": "full"},
    "logistic": {"algorithm": "logistic"},
}

AUTO = "auto"
"""No learner but a panel of them, which is a classifier by itself."""

STRATEGIES: dict[str, tuple[str | None, int, int]] = {
    # the way, how many classes are declared, how many there are
    "binary": (None, 2, 2),
    "one_vs_all": ("one_vs_all", 3, 3),
    "one_vs_all-appearing": ("one_vs_all", 0, 4),
    "one_vs_one": ("one_vs_one", 3, 3),
    "one_vs_one-appearing": ("one_vs_one", 0, 4),
    "multiclass": ("multiclass", 3, 3),
    "multiclass-appearing": ("multiclass", 0, 4),
}

PAIRS = [
    (learner, way)
    for learner in LEARNERS
    for way in STRATEGIES
    if not way.startswith("multiclass") or learner in ("perceptron", "perceptron-margin")
]
PAIRS_AND_PANELS = [*PAIRS, *((AUTO, way) for way in STRATEGIES if not way.startswith("multiclass"))]


class One:
    """A learner of one row."""

    def __init__(self, settings: Mapping[str, Any], *, tie: int, size: int) -> None:
        self.learner = algorithms.build(settings, tie=tie)
        self.learner.add(1)
        self.learner.grow(size)

    @property
    def weights(self) -> np.ndarray:
        return self.learner.weights[0]

    @property
    def updates(self) -> int:
        return int(self.learner.updates[0])

    def score(self, z: Vector) -> float:
        return float(self.learner.scores(z, 0))

    def learn(self, z: Vector, y: int, served: int | None, weight: float = 1.0) -> bool:
        return self.learner.learn(z, float(y), 0, served, weight)

    def state(self) -> dict[str, Any]:
        return self.learner.state(0)


class Model:
    """Features and a classifier; `reveal` does what applying a reveal does in the engine."""

    def __init__(
        self,
        learner: Mapping[str, Any],
        way: str | None = None,
        classes: int = 2,
        features: Mapping[str, Any] | str = "dense",
        bias_value: float | None = 1.0,
        tie: int = 1,
        robust: bool = True,
    ) -> None:
        settings = feature_kinds.complete(features, bias=bias_value is not None)
        self.features = feature_kinds.build(settings, bias_value, robust=robust)
        completed = algorithms.complete(learner)
        self.classifier: Classifier
        if completed["algorithm"] == AUTO:
            kind, has_bias = settings["kind"], bias_value is not None
            self.classifier = Panel(
                completed,
                way,
                classes=classes,
                tie=tie,
                kind=kind,
                has_bias=has_bias,
                rules=3 if robust else 1,
            )
        else:
            self.classifier = strategies.build(completed, way, classes=classes, tie=tie)
        self.classifier.grow(self.features.size())
        self.classes = classes
        self.mistakes = 0

    def read(self, sent: Any) -> Any:
        example = self.features.read(sent)
        if self.features.dimension is None:
            self.features.dimension = len(example)
            self.classifier.grow(self.features.size())
        return example

    def predict(self, sent: Any) -> tuple[int, float]:
        return self.classifier.decide(self.features.vector(self.read(sent)))[:2]

    def reveal(self, sent: Any, truth: int, served: int, *weight: float) -> bool:
        example = self.read(sent)
        while self.classes <= truth:
            self.classifier.add_class()
            self.classes += 1
        anew = self.features.absorb(example)
        self.classifier.grow(self.features.size())
        if anew is not None:
            self.classifier.unsettle(anew)
        self.mistakes += served != truth
        return self.classifier.learn(self.features.vector(example), truth, served, *weight)

    def run(self, rounds: Iterable[tuple[Any, int]], *weights: float) -> "Model":
        """Predict and learn; the weights, if there are any, are those of the rounds in turn."""
        for number, (sent, truth) in enumerate(rounds):
            weight = (weights[number % len(weights)],) if weights else ()
            self.reveal(sent, truth, self.predict(sent)[0], *weight)
        return self

    def to_bytes(self) -> bytes:
        return encode_state({"features": self.features.state(), "classifier": self.classifier.state()})

    def restore(self, data: bytes, classes: int) -> None:
        _, state = decode_state(data)
        self.features.restore(state["features"])
        self.classifier.restore(state["classifier"], classes, self.features.size())
        self.classes = classes

    def weights(self, chosen: int = 1) -> np.ndarray:
        return self.classifier.weights_for(chosen)


def dense_rounds(
    count: int, classes: int, *, seed: int = 1, dimension: int = 4
) -> list[tuple[list[float], int]]:
    """Examples around a centre for each class, near enough to each other to be confused."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, dimension))
    truths = rng.integers(classes, size=count)
    examples = centres[truths] + 0.6 * rng.normal(size=(count, dimension))
    return list(zip(examples.tolist(), truths.tolist(), strict=True))


def named_rounds(count: int, classes: int, *, seed: int = 1) -> list[tuple[dict[str, Any], int]]:
    """The same with names: numbers, booleans, categories, bags and texts, of which some come and go."""
    rng = np.random.default_rng(seed)
    named: list[tuple[dict[str, Any], int]] = []
    for numbers, truth in dense_rounds(count, classes, seed=seed):
        noise = rng.integers(100, size=4).tolist()
        sent: dict[str, Any] = {f"number {i}": value for i, value in enumerate(numbers) if (noise[0] + i) % 5}
        sent["is even"] = truth % 2 == 0 if noise[1] < 80 else noise[1] % 2 == 0
        sent["city"] = f"city {truth}" if noise[2] < 60 else f"city {noise[2] % 7}"
        sent["tags"] = [f"tag {noise[3] % 11}", f"tag {truth}", f"tag {truth}"]
        sent["subject"] = f"Word{noise[3] % 13}, word{truth}; Größe"
        named.append((sent, truth))
    return named


FEATURES: dict[str, tuple[dict[str, Any], float | None]] = {
    "dense": ({}, 1.0),
    "dense-no-bias": ({}, None),
    "dense-l2": ({"normalize": "l2"}, 2.0),
    "dense-standardized": ({"standardize": True, "normalize": "l2"}, 1.0),
    "dense-fourier": ({"standardize": True, "fourier": {"features": 16, "gamma": 0.2}}, 1.0),
    "dense-crosses": ({"standardize": True, "crosses": 2}, 1.0),
    "named": ({"kind": "named", "text": ["subject"]}, 1.0),
    "named-capped": ({"kind": "named", "names_max": 12, "text": ["subject"]}, None),
    "named-standardized": ({"kind": "named", "standardize": True, "normalize": "l2"}, 0.5),
    "named-crosses": ({"kind": "named", "names_max": 6, "crosses": 2, "normalize": "l2"}, 1.0),
    "hashed": ({"kind": "hashed", "bits": 5, "text": ["subject"]}, 1.0),
    "hashed-standardized": ({"kind": "hashed", "bits": 4, "standardize": True}, None),
    "hashed-crosses": ({"kind": "hashed", "bits": 5, "crosses": 2}, None),
}


PANELS = [
    (AUTO, way, features)
    for learner, way in PAIRS_AND_PANELS
    if learner == AUTO
    for features in ("dense", "dense-no-bias", "named", "named-capped", "hashed")
]
"""With features that have no transform of their own, as settings demand."""


def make(learner: str, way: str, features: str = "dense") -> Model:
    name, classes, _ = STRATEGIES[way]
    settings, bias_value = FEATURES[features]
    return Model(LEARNERS.get(learner, {"algorithm": AUTO}), name, classes, settings, bias_value)


@cache
def rounds_for(way: str, features: str = "dense", count: int = 60, seed: int = 1) -> list[tuple[Any, int]]:
    classes = STRATEGIES[way][2]
    if features.startswith("dense"):
        return list(dense_rounds(count, classes, seed=seed))
    return list(named_rounds(count, classes, seed=seed))
