"""A model's settings as a client writes them, checked and completed."""

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from service.engine.labels import same
from service.engine.names import NAME_CHARS_MAX, NAME_PATTERN, NAME_RULE
from service.errors import InvalidRequest
from service.events import Label
from service.learning import catalogue
from service.web.rounds import check_label

FEATURES_MAX = 2**31 - 1

LABEL_SCHEMA = {"anyOf": [{"type": "boolean"}, {"type": "integer"}, {"type": "string"}]}


def _label(value: object) -> Label:
    if not isinstance(value, bool | int | float | str):
        raise ValueError("must be a string, an integer or a boolean")
    try:
        return check_label(value)
    except InvalidRequest as error:
        raise ValueError(error.fields[0].message) from None


def _learner(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("must be an object")
    try:
        return catalogue.complete(value)
    except catalogue.BadParameter as error:
        raise PydanticCustomError("part", "{why}", {"part": error.field, "why": error.message}) from None


LabelField = Annotated[Any, BeforeValidator(_label), WithJsonSchema(LABEL_SCHEMA)]
LearnerField = Annotated[Any, BeforeValidator(_learner), WithJsonSchema(catalogue.schema())]


class FeatureSettings(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    kind: Literal["dense"] = Field("dense", description="lists of numbers")
    dimension: int | None = Field(
        None, ge=1, le=FEATURES_MAX, description="how many; null: as many as the first example has"
    )


class ModelSettings(BaseModel):
    """What a model is made of. All but its name may be left out."""

    model_config = ConfigDict(extra="forbid", strict=True)

    learner: LearnerField = Field(default_factory=lambda: catalogue.complete({}), validate_default=False)
    labels: list[LabelField] = Field(
        default_factory=lambda: [-1, 1],
        min_length=2,
        max_length=2,
        description="the first is -1, the second +1",
    )
    tie: LabelField | None = Field(None, description="the label of a score of 0; null: the second")
    bias: bool = Field(True, description="whether a constant is appended to every example")
    bias_value: float = Field(1.0, gt=0, le=1e6, description="that constant")
    features: FeatureSettings = Field(default_factory=lambda: FeatureSettings())
    protocol: Literal["delayed", "strict"] = Field(
        "delayed", description="strict: no second prediction before the reveal"
    )
    declared_margin: float | None = Field(
        None, gt=0, le=1e100, description="the margin that the stream is said to be separable with"
    )

    @field_validator("labels")
    @classmethod
    def _labels_differ(cls, labels: list[Label]) -> list[Label]:
        if any(same(a, b) for i, a in enumerate(labels) for b in labels[:i]):
            raise ValueError("must differ from each other")
        return labels

    @model_validator(mode="after")
    def _tie_is_a_label(self) -> "ModelSettings":
        if self.tie is None:
            self.tie = self.labels[1]
        elif not any(same(self.tie, label) for label in self.labels):
            raise PydanticCustomError("part", "must be one of the labels", {"part": "tie"})
        return self


class NewModel(ModelSettings):
    model: str = Field(pattern=NAME_PATTERN, max_length=NAME_CHARS_MAX, description=NAME_RULE)

    def settings(self) -> dict[str, Any]:
        """What the journal keeps: everything, explicitly, so that other defaults never change a replay."""
        return self.model_dump(exclude={"model"})


def default_settings() -> dict[str, Any]:
    return ModelSettings().model_dump()
