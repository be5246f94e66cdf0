"""A model: what the fold over its events has made of it."""

from typing import Any, TypeVar

import numpy as np

from service.engine.model.block_fold import learn_block
from service.engine.model.labels import Labels
from service.engine.model.outcomes import BlockOutcome, Outcome
from service.engine.model.state_steps import read_fit, read_state
from service.engine.model.theorem import why_unfit
from service.events import (
    AnyEvent,
    DimensionFixed,
    DriftDetected,
    Label,
    ModelCreated,
    ModelFitted,
    ModelReset,
    PredictionsExpired,
    RoundLearned,
    RoundRevealed,
    RoundsLearned,
)
from service.journal.codec import encode_state
from service.learning.bound.mistake_bound import Bound
from service.learning.classes import strategies
from service.learning.features import kinds as feature_kinds
from service.learning.statistics import Statistics
from service.learning.vectors import Array, Vector, Vectors

AnyVector = TypeVar("AnyVector", Vector, Vectors)

PLAIN = ("updated_at", "began_at", "version", "origin", "stepped_from", "drifts_recorded", "expired")
"""What a state has just as the model has it."""


class Model:
    """State that only `apply` changes. The same events give the same state, to the bit."""

    __slots__ = (
        "began_at",
        "bound",
        "classifier",
        "created_at",
        "drifts_recorded",
        "expired",
        "features",
        "labels",
        "name",
        "origin",
        "settings",
        "statistics",
        "stepped_from",
        "updated_at",
        "version",
    )

    def __init__(self, created: ModelCreated) -> None:
        self.name = created.model
        self.settings = created.settings
        self.created_at = self.updated_at = created.at
        self.version = 0
        self._begin(created.at, None)

    def _begin(self, at: int, dimension: int | None) -> None:
        """Everything at its start, as the settings have it; only a dimension that was fixed before stays."""
        self.began_at = at
        self.labels = Labels(self.settings["labels"] or ())
        self.features = feature_kinds.build(
            self.settings["features"], self.bias_value, size_max=self.settings["size_max"]
        )
        if self.features.dimension is None:
            self.features.dimension = dimension
        self.origin: str | None = None
        self.stepped_from: int | None = None
        """The version of state that began it, if older: a replay of all its events may count otherwise now."""
        self.classifier = strategies.build(
            self.settings["learner"],
            self.settings["multiclass"],
            classes=len(self.labels.values),
            tie=self.labels.index(self.settings["tie"]),
        )
        self.classifier.grow(self.features.size())
        self.statistics = Statistics()
        self.bound = None if self.bound_unfit else self._new_bound()
        self.drifts_recorded = 0
        self.expired = 0

    @property
    def bias_value(self) -> float | None:
        return self.settings["bias_value"] if self.settings["bias"] else None

    @property
    def revealed(self) -> int:
        return self.statistics.revealed

    @property
    def mistakes(self) -> int:
        return self.statistics.mistakes

    @property
    def updates(self) -> int:
        return self.statistics.updates

    def decide(self, z: Vector) -> tuple[Label | None, float]:
        """The label for a vector, and its score; changes nothing."""
        chosen, score = self.classifier.decide(z)
        return self.labels.label(chosen), score

    def apply(self, event: AnyEvent) -> Outcome | BlockOutcome | None:
        """Take in the next event. For revealed rounds, what came of them."""
        self.updated_at = event.at
        match event:
            case RoundRevealed():
                example = self.features.decode(event.features)
                truth = self.class_of(event.label)  # first: the label that was served may be new with it
                served = self.labels.index(event.served)
                # A reveal may cross a reset on its way: then every update since lies between.
                seen = event.updates_seen if event.predicted_at > self.began_at else 0
                # The clocks of replicas differ a little, so a prediction may seem to be of after a reset.
                stale = max(0, self.updates - seen)
                return self._learn(example, truth, served, event.score, event.at, event.predicted_at, stale)
            case RoundLearned():
                return self.whole_round(self.features.decode(event.features), event.label, event.at)
            case RoundsLearned():
                return learn_block(self, event)
            case DriftDetected():
                self.drifts_recorded += 1
            case PredictionsExpired():
                self.expired += event.count
            case DimensionFixed():
                self.fix_dimension(event.dimension)
            case ModelFitted():
                self._take_fit(event)
            case ModelReset():
                self.version += 1
                self._begin(event.at, self.features.dimension)
        return None

    def whole_round(self, example: Any, label: Label, at: int) -> Outcome:
        """A prediction by the weights as they are, and its reveal. For `apply` only."""
        z = self.features.vector(example)
        served, score = self.classifier.decide(z)
        known = z if self.features.is_fixed else None
        return self._learn(example, self.class_of(label), served, score, at, at, 0, known)

    def _learn(
        self,
        example: Any,
        truth: int,
        served: int,
        score: float,
        at: int,
        predicted_at: int,
        stale_updates: int,
        z: Vector | None = None,
    ) -> Outcome:
        if z is None:
            self.features.absorb(example)
            if self.features.dimension == 0:  # names may be new
                self.classifier.grow(self.features.size())
            z = self.features.vector(example)
        mistake = served != truth
        # The weights may have moved since the prediction was served; the bound needs the score by these.
        score_now = self.classifier.decide(z)[1] if mistake and self.bound is not None else score
        updated = self.classifier.learn(z, truth, served)
        self.version += 1
        self.statistics.observe(
            truth,
            served,
            at_us=at,
            predicted_at_us=predicted_at,
            updated=updated,
            stale_updates=stale_updates,
        )
        if self.bound is not None:
            x = self.without_bias(z)
            self.bound.observe(
                x.values,
                2 * truth - 1,
                updated=updated,
                score=score_now,
                stale_updates=stale_updates,
                indices=x.indices,
            )
        return Outcome(served, score, mistake, updated, self.version, self.revealed, self.mistakes)

    def class_of(self, label: Label) -> int:
        """The class of a label; one that is new becomes a class."""
        known = self.labels.index(label)
        if known < 0:
            self.labels.add(label)
            self.classifier.add_class()
            known = len(self.labels.values) - 1
        return known

    def _take_fit(self, event: ModelFitted) -> None:
        if self.labels.values != event.labels[: len(self.labels.values)]:
            return  # a class has appeared since the job looked, and the fit has no weights for it
        self.labels = Labels(event.labels)
        features, classifier = read_fit(event.features, event.classifier)
        self.features.restore(features)
        self.classifier.restore(classifier)
        self.version += 1
        self.origin = "fitted"
        self.bound = None

    def fix_dimension(self, dimension: int) -> None:
        if self.features.dimension is None:  # the first example wins
            self.features.dimension = dimension
            self.classifier.grow(self.features.size())

    # The mistake bound

    @property
    def bound_unfit(self) -> str | None:
        return why_unfit(self.settings, self.origin)

    def bound_report(self) -> dict[str, Any]:
        """The mistake bound and how much of it is used; see docs/theory.md."""
        if self.bound is None:
            return Bound(None, 1.0, None).report(None, self.bound_unfit)
        weights = self.classifier.weights_for(1)
        if self.bias_is_first:
            weights = np.append(weights[1:], weights[0])
        return self.bound.report(weights, None)

    def _new_bound(self) -> Bound:
        return Bound(self.bias_value, self.settings["learner"]["eta0"], self.settings["declared_margin"])

    @property
    def bias_is_first(self) -> bool:
        """Features that grow have the bias constant at index 0, others at the end."""
        return self.bias_value is not None and self.settings["features"]["kind"] != "dense"

    def without_bias(self, z: AnyVector) -> AnyVector:
        if self.bias_value is None:
            return z
        if self.bias_is_first:
            assert z.indices is not None
            return type(z)(z.values[..., 1:], z.indices[1:] - 1)
        return type(z)(z.values[..., :-1])

    # What people and snapshots get

    def report(self, now: int) -> dict[str, Any]:
        """The statistics that come from the fold, as of a time; see docs/statistics.md."""
        labels = self.labels.values
        report = self.statistics.report(now, len(labels))
        report["confusion"] = {"labels": labels, **report["confusion"]}
        for cell in report["confusion"].get("largest", ()):
            cell["true"], cell["served"] = labels[cell["true"]], labels[cell["served"]]
        by_class = zip(labels, report["classes"], strict=True)
        report["classes"] = [{"label": label, **figures} for label, figures in by_class]
        report["bound"] = self.bound_report()
        report["features"] = {
            "kind": self.settings["features"]["kind"],
            "weights": self.features.size(),
            "ignored_names": self.features.ignored_names,
        }
        return report

    def weights(self) -> list[tuple[Label | None, Array]]:
        """The weights of each class; for two classes there is one row, whose sign is the second's."""
        if self.settings["multiclass"] is None:
            return [(None, self.classifier.weights_for(1))]
        return [(label, self.classifier.weights_for(i)) for i, label in enumerate(self.labels.values)]

    def state(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "settings": self.settings,
            "created_at": self.created_at,
            **{name: getattr(self, name) for name in PLAIN},
            "labels": self.labels.values,
            "features": self.features.state(),
            "classifier": self.classifier.state(),
            "statistics": self.statistics.state(),
            "bound": None if self.bound is None else self.bound.state(),
        }

    def to_bytes(self) -> bytes:
        return encode_state(self.state())

    @classmethod
    def from_bytes(cls, data: bytes) -> "Model":
        return cls.from_state(read_state(data))

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Model":
        model = cls(ModelCreated(model=state["name"], at=state["created_at"], settings=state["settings"]))
        model.labels = Labels(state["labels"])
        model.features.restore(state["features"])
        model.classifier.restore(state["classifier"])
        model.statistics = Statistics.restore(state["statistics"])
        bound = state["bound"]
        model.bound = None if bound is None else Bound.restore(bound, model.classifier.weights_for(1))
        for name in PLAIN:
            setattr(model, name, state[name])
        return model
