"""A model's settings as a client writes them, checked and completed."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from service.engine.model.labels import same
from service.engine.names import NAME_CHARS_MAX, NAME_PATTERN, NAME_RULE
from service.engine.rounds.checks import capacity, numbers_kept
from service.errors import InvalidRequest
from service.events import Label
from service.learning.classes import strategies
from service.learning.features import kinds as feature_kinds
from service.learning.learners import algorithms
from service.learning.parameters import BadParameter
from service.web.routes.rounds import check_label

LABEL_SCHEMA = {"anyOf": [{"type": "boolean"}, {"type": "integer"}, {"type": "string"}]}


def _label(value: object) -> Label:
    if not isinstance(value, bool | int | float | str):
        raise ValueError("must be a string, an integer or a boolean")
    try:
        return check_label(value)
    except InvalidRequest as error:
        raise ValueError(error.fields[0].message) from None


LabelField = Annotated[Any, BeforeValidator(_label), WithJsonSchema(LABEL_SCHEMA)]
LearnerField = Annotated[dict[str, Any], WithJsonSchema(algorithms.schema())]
FeaturesField = Annotated[
    dict[str, Any] | str,
    WithJsonSchema({"anyOf": [{"enum": list(feature_kinds.KINDS)}, feature_kinds.schema()]}),
]


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """How large a model of this service may become."""

    names_max: int
    classes_max: int
    covariance_dimension_max: int
    weights_max: int


class ModelSettings(BaseModel):
    """What a model is made of. All of it may be left out."""

    model_config = ConfigDict(extra="forbid", strict=True)

    learner: LearnerField = Field(default_factory=lambda: algorithms.complete({}))
    labels: list[LabelField] | None = Field(
        default_factory=lambda: [-1, 1],
        description="at least two; of just two, the first is -1 and the second +1;"
        " null: classes appear as they are revealed",
    )
    tie: LabelField | None = Field(
        None, description="with two labels, that of a score of 0; null: the second. With more: the first seen"
    )
    bias: bool = Field(True, description="whether a constant is appended to every example")
    bias_value: float = Field(1.0, gt=0, le=1e6, description="that constant")
    multiclass: Literal["one_vs_all", "one_vs_one", "multiclass"] | None = Field(
        None, description=strategies.MULTICLASS.help
    )
    features: FeaturesField = Field(default_factory=lambda: feature_kinds.complete({}))
    protocol: Literal["delayed", "strict"] = Field(
        "delayed", description="strict: no second prediction before the reveal"
    )
    declared_margin: float | None = Field(
        None, gt=0, le=1e100, description="the margin that the stream is said to be separable with"
    )

    def complete(self, limits: ModelLimits) -> dict[str, Any]:
        """What the journal keeps: everything, explicitly, so that other defaults never change a replay."""
        learner = _checked("learner.", lambda: algorithms.complete(self.learner))
        size_max = limits.covariance_dimension_max if algorithms.needs_matrix(learner) else None
        count = self._check_labels(limits)
        multiclass = _checked("", lambda: strategies.complete(self.multiclass, count, learner))
        features = _checked(
            "",
            lambda: feature_kinds.complete(
                self.features, bias=self.bias, names_max=limits.names_max, size_max=size_max
            ),
        )
        classes_max = strategies.STRATEGIES[multiclass].classes_max if multiclass else 2
        settings = {
            "learner": learner,
            "labels": self.labels,
            "tie": self._tie(multiclass),
            "bias": self.bias,
            "bias_value": self.bias_value,
            "multiclass": multiclass,
            "classes_max": min(classes_max, limits.classes_max),
            "features": features,
            "size_max": size_max,
            "weights_max": limits.weights_max,
            "protocol": self.protocol,
            "declared_margin": self.declared_margin,
        }
        if numbers_kept(settings, capacity(features), count or 1) > limits.weights_max:
            raise InvalidRequest.at(
                "features",
                f"with this learner and these labels it could have over {limits.weights_max} weights",
            )
        return settings

    def _check_labels(self, limits: ModelLimits) -> int | None:
        if self.labels is None:
            return None
        if not 2 <= len(self.labels) <= limits.classes_max:
            raise InvalidRequest.at("labels", f"must be 2 to {limits.classes_max} labels, or null")
        if len({(type(label), label) for label in self.labels}) < len(self.labels):
            raise InvalidRequest.at("labels", "must differ from each other")
        return len(self.labels)

    def _tie(self, multiclass: str | None) -> Label | None:
        if multiclass is not None or self.labels is None:
            if self.tie is not None:
                raise InvalidRequest.at("tie", "is for two labels; with more, the first seen wins")
            return None
        if self.tie is None:
            last: Label = self.labels[1]
            return last
        for label in self.labels:
            if same(self.tie, label):
                return self.tie  # type: ignore[no-any-return]
        raise InvalidRequest.at("tie", "must be one of the labels")


class NewModel(ModelSettings):
    model: str = Field(pattern=NAME_PATTERN, max_length=NAME_CHARS_MAX, description=NAME_RULE)


def _checked(prefix: str, complete: Any) -> Any:
    """What `complete` gives, its complaint turned into ours."""
    try:
        return complete()
    except BadParameter as error:
        raise InvalidRequest.at(prefix + error.field, error.message) from None
