"""A model's settings as a client writes them, checked and completed, and which settings for which data."""

from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from novikoff.schemas import NAME_CHARS_MAX, NAME_PATTERN, NAME_RULE
from service.engine.models.challenger_settings import PROMOTE, complete_all
from service.engine.models.settings import (
    ASK_B,
    BIAS,
    BIAS_VALUE,
    CLASS_WEIGHT,
    CONFIDENCE,
    COVERAGE,
    DECLARED_MARGIN,
    PENDING_TTL_SECONDS,
    PROTOCOL,
    ModelLimits,
)
from service.errors import InvalidRequest
from service.events import Label
from service.learning.classes import strategies
from service.learning.features import kinds as feature_kinds
from service.learning.learners import algorithms
from service.web.routes.rounds import check_label

ASK_SCHEMA = {
    "anyOf": [
        {"type": "null"},
        {"const": "auto"},
        {
            "type": "object",
            "properties": {"b": ASK_B.schema()},
            "required": ["b"],
            "additionalProperties": False,
        },
    ]
}
ClassWeight = Annotated[float, Field(ge=CLASS_WEIGHT.low, le=CLASS_WEIGHT.high)]
LABEL_SCHEMA = {"anyOf": [{"type": "boolean"}, {"type": "integer"}, {"type": "string"}]}


def _label(value: object) -> Label:
    if not isinstance(value, bool | int | float | str):
        raise ValueError("must be a string, an integer or a boolean")
    try:
        return check_label(value)
    except InvalidRequest as error:
        raise ValueError(error.fields[0].message) from None


LabelField = Annotated[Any, BeforeValidator(_label), WithJsonSchema(LABEL_SCHEMA)]


def _learner(value: object) -> object:
    if isinstance(value, str):
        algorithm = value if value in algorithms.ALGORITHMS else "auto"
        raise ValueError(f'must be an object, such as {{"algorithm": "{algorithm}"}}')
    return value


LearnerField = Annotated[dict[str, Any], BeforeValidator(_learner), WithJsonSchema(algorithms.schema())]
FeaturesField = Annotated[
    dict[str, Any] | str,
    WithJsonSchema({"anyOf": [{"enum": list(feature_kinds.KINDS)}, feature_kinds.schema()]}),
]


Multiclass = Literal["one_vs_all", "one_vs_one", "multiclass"]
PROMOTE_SCHEMA = {
    "anyOf": [
        {"type": "null"},
        {
            "type": "object",
            "properties": {name: parameter.schema() for name, parameter in PROMOTE.items()},
            "additionalProperties": False,
        },
    ]
}
PromoteField = Annotated[dict[str, Any] | None, WithJsonSchema(PROMOTE_SCHEMA)]


class ChallengerSettings(BaseModel):
    """What a challenger is made of. What is left out is as the champion has it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    learner: LearnerField | None = None
    features: FeaturesField | None = None
    multiclass: Multiclass | None = Field(None, description=strategies.MULTICLASS.help)


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
    bias: bool = Field(True, description=BIAS.help)
    bias_value: float = Field(1.0, gt=BIAS_VALUE.low, le=BIAS_VALUE.high, description=BIAS_VALUE.help)
    multiclass: Multiclass | None = Field(None, description=strategies.MULTICLASS.help)
    features: FeaturesField = Field(default_factory=lambda: feature_kinds.complete({}))
    protocol: Literal["delayed", "strict"] = Field("delayed", description=PROTOCOL.help)
    declared_margin: float | None = Field(
        None, gt=DECLARED_MARGIN.low, le=DECLARED_MARGIN.high, description=DECLARED_MARGIN.help
    )
    confidence: float = Field(
        CONFIDENCE.default, ge=CONFIDENCE.low, le=CONFIDENCE.high, description=CONFIDENCE.help
    )
    coverage: float | None = Field(None, ge=COVERAGE.low, le=COVERAGE.high, description=COVERAGE.help)
    ask: Annotated[dict[str, Any] | Literal["auto"] | None, WithJsonSchema(ASK_SCHEMA)] = Field(
        None,
        description="whether predictions say if their label is wanted, and how often: see docs/models.md",
    )
    class_weights: dict[str, ClassWeight] | None = Field(
        None,
        description="how often a reveal counts, by its label as a string; 1 for labels that are not named",
    )
    challengers: dict[str, ChallengerSettings] = Field(
        default_factory=dict,
        description="more learners by name, at most 8, which predict in shadow and learn from the same reveals",
    )
    promote: PromoteField = Field(None, description="when a challenger is promoted by itself; null: never")

    on_expiry: LabelField | None = Field(
        None,
        description="the label that a prediction is learned with when it expires without one; null or `ignore`: none",
    )
    pending_ttl_seconds: float | None = Field(
        None, ge=PENDING_TTL_SECONDS.low, le=PENDING_TTL_SECONDS.high, description=PENDING_TTL_SECONDS.help
    )

    def complete(self, limits: ModelLimits) -> dict[str, Any]:
        """What the journal keeps; InvalidRequest names a setting that does not fit."""
        given = self.model_dump(include=GIVEN)
        given["challengers"] = {
            name: own.model_dump(exclude_unset=True) for name, own in self.challengers.items()
        }
        return complete_all(given, limits)


GIVEN = set(ModelSettings.model_fields)


class NewModel(ModelSettings):
    model: str = Field(pattern=NAME_PATTERN, max_length=NAME_CHARS_MAX, description=NAME_RULE)


class Advice(NamedTuple):
    """What the data are like, and the settings of a model for them."""

    data: str
    settings: dict[str, Any]
    why: str

    @property
    def row(self) -> list[str]:
        """As the cells of a table in Markdown."""
        return [self.data, f"`{spaced_json(self.settings)}`", self.why]


def spaced_json(value: Any) -> str:
    """
    >>> spaced_json({"labels": None})
    '{"labels": null}'
    """
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode().replace("\n", " ")


def _scaled(algorithm: str, **more: Any) -> dict[str, Any]:
    return {"learner": {"algorithm": algorithm}, "features": {"kind": "dense", "standardize": True, **more}}


ADVICE = (
    Advice(
        "You do not know, or it may change",
        {"learner": {"algorithm": "auto"}},
        "close to the best of the rows below on every stream it was tried on; costs about as much as all of them",
    ),
    Advice(
        "Numbers on different scales, classes that a plane separates",
        _scaled("scw"),
        "learns from few examples; `arow` where labels are noisy",
    ),
    Advice(
        "Noisy labels, or a plane that moves slowly",
        _scaled("logistic"),
        "learns a little from every example",
    ),
    Advice(
        "A stream that changes its mind, or labels that come in runs",
        {**_scaled("arow_forgetting"), "learner": {"algorithm": "arow_forgetting", "r": 0.1, "forget": 0.01}},
        "never too sure to follow",
    ),
    Advice(
        "A curved boundary, up to some tens of numbers",
        _scaled("arow", fourier={}),
        "`gamma` 4 times as large where it has many bends",
    ),
    Advice(
        "Features that matter together, such as price × time",
        _scaled("scw", crosses=2),
        "products of all pairs, whose weights can be read",
    ),
    Advice(
        "Many rare names: words, ids, categories",
        {"learner": {"algorithm": "arow"}, "features": {"kind": "hashed"}, "labels": None},
        "rare features move more; memory is known before",
    ),
    Advice("A mistake bound that is proved, or the least cost", {}, "the plain perceptron, the default"),
)


def advice_table() -> str:
    """In Markdown."""
    rows = [["your data", "settings", "why"], ["---"] * 3, *(advice.row for advice in ADVICE)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
