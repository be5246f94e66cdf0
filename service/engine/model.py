"""A model: what the fold over its events has made of it."""

from typing import Any, NamedTuple

import numpy as np

from service.engine.labels import Labels
from service.engine.outcomes import Outcome
from service.events import (
    AnyEvent,
    DimensionFixed,
    Label,
    ModelCreated,
    ModelReset,
    PredictionsExpired,
    RoundLearned,
    RoundRevealed,
)
from service.journal.codec import decode_state, encode_state
from service.learning import catalogue
from service.learning.binary import Binary
from service.learning.classifier import Classifier
from service.learning.dense import Dense
from service.learning.features import Features
from service.learning.vectors import Vector


class Term(NamedTuple):
    """One weight × value of a score."""

    feature: int | str
    value: float
    weight: float
    product: float


class Model:
    """State that only `apply` changes. The same events give the same state, to the bit."""

    __slots__ = (
        "classifier",
        "created_at",
        "expired",
        "features",
        "labels",
        "mistakes",
        "name",
        "revealed",
        "settings",
        "updated_at",
        "version",
    )

    def __init__(self, created: ModelCreated) -> None:
        self.name = created.model
        self.settings = created.settings
        self.created_at = self.updated_at = created.at
        self.labels = Labels(self.settings["labels"])
        self.features = _features(self.settings)
        self.version = 0
        self._begin()

    def _begin(self) -> None:
        """Weights and statistics at their start; the shape of the model (dimension, classes) stays."""
        self.classifier = _classifier(self.settings, self.labels)
        self.classifier.grow(self.features.size())
        self.revealed = 0
        self.mistakes = 0
        self.expired = 0

    @property
    def updates(self) -> int:
        return self.classifier.updates

    def decide(self, z: Vector) -> tuple[Label | None, float]:
        """The label for a vector, and its score; changes nothing."""
        chosen, score = self.classifier.decide(z)
        return self.labels.label(chosen), score

    def explain(self, z: Vector, terms_max: int) -> list[Term]:
        """The terms of the score that weigh most, largest first."""
        chosen, _ = self.classifier.decide(z)
        weights = self.classifier.weights_for(chosen)
        at = np.arange(len(z.values)) if z.indices is None else z.indices
        products = weights[at] * z.values
        largest = np.argsort(-np.abs(products), kind="stable")[:terms_max]
        return [
            Term(
                self.features.name(int(at[i])), float(z.values[i]), float(weights[at[i]]), float(products[i])
            )
            for i in largest
        ]

    def apply(self, event: AnyEvent) -> Outcome | None:
        """Take in the next event. For a revealed round, what came of it."""
        self.updated_at = event.at
        match event:
            case RoundRevealed():
                example = self.features.decode(event.features)
                return self._learn(example, event.label, self.labels.index(event.served), event.score)
            case RoundLearned():
                example = self.features.decode(event.features)
                served, score = self.classifier.decide(self.features.vector(example))
                return self._learn(example, event.label, served, score)
            case PredictionsExpired():
                self.expired += event.count
            case DimensionFixed():
                self._fix(event.dimension)
            case ModelReset():
                self.version += 1
                self._begin()
        return None

    def _learn(self, example: Any, label: Label, served: int, score: float) -> Outcome:
        truth = self.labels.index(label)
        self.features.absorb(example)
        updated = self.classifier.learn(self.features.vector(example), truth, served)
        mistake = served != truth
        self.version += 1
        self.revealed += 1
        self.mistakes += mistake
        return Outcome(served, score, mistake, updated, self.version, self.revealed, self.mistakes)

    def _fix(self, dimension: int) -> None:
        if self.features.dimension is None:  # the first example wins
            self.features.dimension = dimension
            self.classifier.grow(self.features.size())

    def to_bytes(self) -> bytes:
        return encode_state(
            {
                "name": self.name,
                "settings": self.settings,
                "created_at": self.created_at,
                "updated_at": self.updated_at,
                "version": self.version,
                "labels": self.labels.values,
                "features": self.features.state(),
                "classifier": self.classifier.state(),
                "revealed": self.revealed,
                "mistakes": self.mistakes,
                "expired": self.expired,
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> "Model":
        state = decode_state(data)
        model = cls(ModelCreated(model=state["name"], at=state["created_at"], settings=state["settings"]))
        model.labels = Labels(state["labels"])
        model.features.restore(state["features"])
        model.classifier.restore(state["classifier"])
        for name in ("updated_at", "version", "revealed", "mistakes", "expired"):
            setattr(model, name, state[name])
        return model


def _features(settings: dict[str, Any]) -> Features:
    bias_value = settings["bias_value"] if settings["bias"] else None
    return Dense(settings["features"]["dimension"], bias_value)


def _classifier(settings: dict[str, Any], labels: Labels) -> Classifier:
    tie = labels.index(settings["tie"])
    return Binary(catalogue.build(settings["learner"], tie=2 * tie - 1), tie)
