"""All that a model is: how it starts, learns a round, and is saved and restored."""

from typing import Any, Self, TypeVar

from service.engine.model.labels import Labels
from service.engine.model.outcomes import Outcome
from service.engine.model.state_steps import read_state
from service.events import Label, ModelCreated
from service.journal.codec import encode_state
from service.learning.bound.mistake_bound import Bound
from service.learning.bound.verdict import why_not_applicable
from service.learning.classes import strategies
from service.learning.features import kinds as feature_kinds
from service.learning.statistics import Statistics
from service.learning.vectors import Vector, Vectors

AnyVector = TypeVar("AnyVector", Vector, Vectors)

PLAIN = ("updated_at", "began_at", "version", "origin", "stepped_from", "drifts_recorded", "expired")
"""Attributes that a saved state holds as they are."""


class ModelState:
    """Settings, labels, features, weights, statistics and bound of one model."""

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
        self.begin(created.at, None)

    def begin(self, at: int, dimension: int | None) -> None:
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
        self.bound: Bound | None = None
        if why_not_applicable(self.settings, None) is None:
            self.bound = Bound(
                self.bias_value, self.settings["learner"]["eta0"], self.settings["declared_margin"]
            )
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

    def whole_round(self, example: Any, label: Label, at: int) -> Outcome:
        """Predict by the weights as they are, and learn the label at once. For `apply` only."""
        z = self.features.vector(example)
        served, score = self.classifier.decide(z)
        known = z if self.features.is_fixed else None
        return self.learn_round(example, self.class_of(label), served, score, at, at, 0, known)

    def learn_round(
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
        """Learn one revealed round and count it. For `apply` only.

        `truth` and `served` are classes, `served` -1 where no label could be served; `score` is what was served with
        it. `stale_updates` counts the updates between prediction and reveal. `z` is the example's vector, if it is
        known already and the example teaches nothing about the features themselves.
        """
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

    def fix_dimension(self, dimension: int) -> None:
        if self.features.dimension is None:  # the first example wins
            self.features.dimension = dimension
            self.classifier.grow(self.features.size())

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
    def from_bytes(cls, data: bytes) -> Self:
        return cls.from_state(read_state(data))

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
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
