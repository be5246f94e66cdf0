"""What programs send to the service and what it answers: each shape is declared here once.

Routes decode requests into these structs and answer with their fields, the OpenAPI document describes them, the clients
read responses into them, and tests compare docs/statistics.md with them. Unknown fields are ignored in reading: a newer
service may send more. Of what clients leave out in requests, the default is taken.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Annotated, Any, Self, TypedDict

from msgspec import UNSET, Meta, Struct, UnsetType, field, to_builtins
from msgspec.structs import fields

NAME_PATTERN = r"^\.*[A-Za-z0-9_:-][A-Za-z0-9._:-]*$"
NAME_CHARS_MAX = 128
NAME_RULE = f"1 to {NAME_CHARS_MAX} letters, digits, '.', '_', '-' and ':', not dots alone"
PREDICTION_ID_PATTERN = NAME_PATTERN.replace("_:", "_:~")
"""An id that a client chose, or one that the service made: these have a `~`."""
TAG_CHARS_MAX = 128
WEIGHT_MIN = 1e-100
ONCE = 1.0

Label = bool | int | str
LabelSent = bool | int | float | str
"""A label as a client sends it: to JSON, 1.0 is the integer 1."""


def _one_of(*words: str) -> Meta:
    """Words are listed for the document only: clients take those of a newer service, too."""
    return Meta(extra_json_schema={"enum": list(words)})


DriftState = Annotated[str, _one_of("stable", "warning", "drift")]
Verdict = Annotated[str, _one_of("within", "exceeded", "unknown", "not_applicable")]
GammaSource = Annotated[str, _one_of("declared", "observed")]
ReasonKind = Annotated[
    str,
    _one_of("drift", "error_risen", "labels_stopped", "evicted", "bound_exceeded", "rebuilding", "damaged"),
]

# Settings of models


class ModelSettings(TypedDict, total=False):
    """What `create_model` takes beside the name, as in docs/models.md; what is left out has its default."""

    learner: Mapping[str, Any]
    labels: Sequence[Label] | None
    tie: Label | None
    bias: bool
    bias_value: float
    multiclass: str | None
    features: Mapping[str, Any] | str
    protocol: str
    declared_margin: float | None
    confidence: float
    coverage: float | None
    ask: Mapping[str, Any] | str | None
    class_weights: Mapping[str, float] | None
    challengers: Mapping[str, Mapping[str, Any]]
    promote: Mapping[str, Any] | None
    on_expiry: Label | None
    pending_ttl_seconds: float | None


# Rounds

# The engine checks names, and only those that it has not seen before; this is for the document.
Name = Annotated[
    str,
    Meta(description=NAME_RULE, extra_json_schema={"pattern": NAME_PATTERN, "maxLength": NAME_CHARS_MAX}),
]
PredictionId = Annotated[
    str,
    Meta(
        description="from the response of /predict, or the `id` that was sent with it",
        extra_json_schema={"pattern": PREDICTION_ID_PATTERN, "maxLength": NAME_CHARS_MAX},
    ),
]
# What is in an object is checked by the model's kind of features, which can say which name is wrong.
_FEATURE_TYPES = [
    *({"type": t} for t in ("number", "boolean", "string")),
    {"type": "array", "items": {"type": "string"}},
]
Named = Annotated[dict[str, Any], Meta(extra_json_schema={"additionalProperties": {"anyOf": _FEATURE_TYPES}})]
FeaturesSent = list[float] | Named

Weight = Annotated[
    float,
    Meta(
        description="the weight of the reveal in learning and statistics",
        extra_json_schema={"minimum": WEIGHT_MIN},
    ),
]
Tag = Annotated[
    str | None,
    Meta(
        description="a word of yours to find the round by, such as a user's id",
        extra_json_schema={"maxLength": TAG_CHARS_MAX},
    ),
]
Probability = Annotated[
    float | None,
    Meta(description="the chance that the label is right, by an estimate; null before the first reveal"),
]


class PredictBody(Struct, forbid_unknown_fields=True, omit_defaults=True):
    model: Name
    features: FeaturesSent
    id: Name | None = None
    explain: Annotated[int, Meta(ge=0, le=1000)] = 0
    min_version: Annotated[int, Meta(ge=0, le=2**53)] = 0
    dry: Annotated[bool, Meta(description="dry run: no model is created, and no prediction is stored")] = (
        False
    )
    tag: Tag = None


class FeedbackBody(Struct, forbid_unknown_fields=True, omit_defaults=True):
    prediction_id: PredictionId
    label: LabelSent
    weight: Weight = ONCE


class LearnBody(Struct, forbid_unknown_fields=True, omit_defaults=True):
    model: Name
    features: FeaturesSent
    label: LabelSent
    id: Name | None = None
    weight: Weight = ONCE
    tag: Tag = None


class Contribution(Struct, frozen=True):
    feature: int | str
    value: float
    weight: float
    contribution: float


ServedSet = Annotated[
    list[Label] | UnsetType | None,
    Meta(description="of a model with a `coverage`: the labels that are not ruled out; null: any label"),
]


class PredictAnswer(Struct, omit_defaults=True):
    prediction_id: Annotated[str | None, Meta(description="null for a dry run")]
    model: str
    label: Label | None
    score: float
    probability: Probability
    version: int
    set: ServedSet = UNSET
    ask: Annotated[
        bool | UnsetType,
        Meta(description="of a model with `ask`: whether the label is asked for"),
    ] = UNSET
    ask_probability: float | UnsetType = UNSET
    explanation: list[Contribution] | None = None
    expert: Annotated[
        str | UnsetType,
        Meta(
            description="with an explanation by a model of `auto`: the expert that weighs most, whose score it is"
        ),
    ] = UNSET
    served_by: Annotated[
        str | UnsetType,
        Meta(description="of a model with challengers: the name of the learner whose label it is"),
    ] = UNSET


class FeedbackAnswer(Struct, frozen=True, gc=False):
    prediction_id: str | None
    model: str
    predicted: Label | None
    label: Label
    mistake: bool
    updated: bool
    version: int
    rounds: int
    mistakes: int


class LearnAnswer(FeedbackAnswer, frozen=True, gc=False):
    score: float
    probability: Probability
    set: ServedSet = UNSET


# Models and statistics


class ModelInfo(Struct, frozen=True):
    """A model's settings and where it stands."""

    model: str
    version: int
    dimension: int | None
    created_at: datetime
    updated_at: datetime
    settings: dict[str, Any]

    @property
    def features_kind(self) -> str:
        """`dense`: examples are lists; `named` or `hashed`: they are dictionaries."""
        kind: str = self.settings["features"]["kind"]
        return kind


class ModelLine(Struct, frozen=True):
    """A model in a list."""

    model: str
    created_at: datetime
    algorithm: str


class UnreadableModel(Struct, frozen=True):
    """A model of the page whose history the journal cannot give, and why."""

    model: str
    detail: str


class ModelPage(Struct, frozen=True, kw_only=True):
    """A page of the list of models."""

    models: list[ModelLine]
    unreadable: list[UnreadableModel]
    next: str | None


class PendingPrediction(Struct, frozen=True):
    """A prediction that waits for its label."""

    prediction_id: str
    at: datetime
    """When it was served."""
    features: list[float] | dict[str, float]
    """As the model keeps them: a list, or a number for each name."""
    served: Label | None
    score: float
    probability: float | None
    """The chance that the label is right, as it was served; None before the model's first reveal."""
    version_seen: int
    """The model's version that served it."""
    ask: bool | UnsetType = UNSET
    """Of a model with `ask`: whether the label is asked for."""


class PendingPage(Struct, frozen=True, kw_only=True):
    """A page of the predictions that wait."""

    pending: list[PendingPrediction]
    next: str | None


class RoundCounts(Struct, frozen=True):
    """predicted = revealed + pending + expired."""

    predicted: int
    revealed: int
    pending: int
    expired: int


class Window(Struct, frozen=True):
    """The reveals of a stretch of the stream."""

    rounds: int
    mistakes: int
    error_rate: float | None


class Windows(Struct, frozen=True):
    """Over the last reveals, and over the last minute, hour and day in buckets of 1 s, 1 min and 30 min."""

    last_100: Window
    last_1000: Window
    last_10000: Window
    minute: Window
    hour: Window
    day: Window


class Cell(Struct, frozen=True):
    """How often one label was served where another was true."""

    truth: Label = field(name="true")
    served: Label
    count: int


class Confusion(Struct, frozen=True):
    """True labels are rows. Beyond 50 labels the matrix is null and the largest cells are listed."""

    labels: list[Label]
    matrix: list[list[int]] | None
    largest: list[Cell] | None = None


class ClassFigures(Struct, frozen=True):
    """How well one class is recognised."""

    label: Label
    support: int
    precision: float | None
    recall: float | None
    f1: float | None


class Baselines(Struct, frozen=True):
    """The errors of two trivial learners, and the accuracy compared with theirs and with chance."""

    majority_error_rate: float | None
    no_change_error_rate: float | None
    kappa: float | None
    kappa_m: float | None
    kappa_t: float | None


class Quantiles(Struct, frozen=True):
    """50, 90 and 99 of 100 are at most this, and all of them."""

    p50: float | None
    p90: float | None
    p99: float | None
    max: float | None


class Delay(Struct, frozen=True):
    """How late labels come: in seconds, and in updates of the model."""

    seconds: Quantiles
    updates_max: int | None


class Drift(Struct, frozen=True):
    """Whether and how often the error rose, by a test with the false alarm rate `delta`."""

    state: DriftState
    count: int
    last_round: int | None
    delta: float


class Interval(Struct, frozen=True):
    """Where a rate is, at all times at once with the probability `confidence`, by so many rounds."""

    low: float
    high: float
    confidence: float
    rounds: int


class ProbabilityBin(Struct, frozen=True):
    """What came of the labels that were served with a probability from `low` up to `high`."""

    low: float
    high: float
    rounds: int
    right_rate: float | None


class Calibration(Struct, frozen=True):
    """How well the served probabilities have fared."""

    rounds: int
    bins: list[ProbabilityBin]
    brier: float | None
    log_loss: float | None


class Unlabelled(Struct, frozen=True):
    """Predictions that wait for their labels, and the error that their probabilities lead to expect."""

    predictions: int
    expected_error_rate: float | None


class Evicted(Struct, frozen=True):
    """Predictions that were evicted before their labels came, and the limit that was reached last."""

    predictions: int
    limit: str


class Sets(Struct, frozen=True):
    """How often the sets that were served held the true label, and how large they were."""

    wanted: float
    rounds: int
    coverage: float | None
    distance_max: float | None
    mean_size: float | None
    single_rate: float | None
    single_error_rate: float | None


class ExpertFigures(Struct, frozen=True):
    """An expert of a panel: its mistakes, by what it had said, and what its vote weighs now."""

    name: str
    mistakes: int
    weight: float


class Leaders(Struct, frozen=True):
    """Who weighed most at each of at most 64 rounds, and each expert's mistakes until then."""

    rounds: list[int]
    leaders: list[str]
    mistakes: list[list[int]]


class Experts(Struct, frozen=True):
    """The panel of a model with the learner `auto`, and the bound on what its vote can lose; see docs/theory.md."""

    panel: list[ExpertFigures]
    leader: str
    rounds: int
    disagreements: int
    mistakes: int
    erred_weight: float
    regret: float
    regret_bound: float
    mistake_bound: float
    history: Leaders


class Champion(Struct, frozen=True):
    """The learner of a model with challengers that serves, and what came of all that it has said."""

    name: str
    since_round: int
    rounds: int
    mistakes: int
    error_rate: float | None
    error_rate_interval: Interval | None


class Warm(Struct, frozen=True):
    """The history that a challenger had learned before it entered; what it did there is no evidence."""

    from_version: int
    to_version: int
    rounds: int
    mistakes: int
    missed: int


class ChallengerFigures(Struct, frozen=True):
    """A challenger: what came of what it has said, and how it stands against the champion."""

    name: str
    algorithm: str
    updates: int
    rounds: int
    mistakes: int
    error_rate: float | None
    error_rate_interval: Interval | None
    won: int
    lost: int
    difference: float | None
    difference_interval: Interval | None
    evidence: float
    confidence: float
    comparison: int | None
    warm: Warm | None
    evidence_needed: float | None


class Promotion(Struct, frozen=True):
    """That a challenger took a champion's place, after so many reveals."""

    round: int
    challenger: str
    former: str
    by_evidence: bool


class Challengers(Struct, frozen=True):
    """The learners of a model that predict in shadow, and the one that serves; see docs/theory.md."""

    champion: Champion
    line: list[ChallengerFigures]
    entered: int
    evidence_needed: float | None
    promotions: int
    last_promotions: list[Promotion]


class ExpectedMistakes(Struct, frozen=True):
    """The bound on the expected mistakes of a model that asks for labels; see docs/theory.md."""

    verdict: Verdict
    why: str | None
    expected_mistakes: float | None
    since_round: int


class Ask(Struct, frozen=True):
    """What was asked for, and what the answers say of all predictions."""

    b: float | None
    predictions: int
    asked: int
    asked_rate: float | None
    error_rate: float | None
    error_rate_interval: Interval | None
    uncounted: int
    bound: ExpectedMistakes


class Bound(Struct, frozen=True):
    """The bound on mistakes and how much of it is used; see docs/theory.md."""

    verdict: Verdict
    why: str | None
    R: float | None
    weight_norm: float | None
    margin_ceiling: float | None
    gamma: float | None
    gamma_source: GammaSource | None
    stale_updates_mean: float | None
    stale_updates_max: int | None
    update_weight: float
    mistake_bound: float | None
    used: float | None
    moved_at_least: float | None


class Curve(Struct, frozen=True):
    """Mistakes over rounds, at most 512 points, with the time of each in milliseconds since 1970 where it is known."""

    rounds: list[int]
    mistakes: list[int]
    times: list[int | None]


class LearnerCurve(Struct, frozen=True):
    """A learner of a model with challengers: its mistakes over the rounds of which it has said something, at most 512
    points. Its round n is the model's round `since_round` + n, but for reveals of what was predicted before it came."""

    name: str
    since_round: int
    rounds: list[int]
    mistakes: list[int]


class FeatureFigures(Struct, frozen=True):
    """How many weights a class has, and how often a name was ignored because the dictionary is full."""

    kind: str
    weights: int
    ignored_names: int


class Correction(Struct, frozen=True):
    """A round with its right label, or a voided prediction: then `label` is null."""

    prediction_id: str
    model: str
    label: Label | None
    former: Label | None
    reason: str | None
    rebuilding: bool


class Forgotten(Struct, frozen=True):
    """On how many rounds and waiting predictions a tag was."""

    model: str
    rounds: int
    predictions: int
    rebuilding: bool


class Corrections(Struct, frozen=True):
    """What was corrected, and how much of it the model was rebuilt with; see docs/api.md."""

    recorded: int
    in_force: int
    voided: int
    rebuilding: bool


class StatsLine(Struct, frozen=True, kw_only=True):
    """The statistics of a model that a list shows."""

    model: str
    algorithm: str
    version: int
    rounds: RoundCounts
    mistakes: int
    updates: int
    error_rate: float | None
    ewma_error_rate: float | None
    drift: Drift
    created_at: datetime
    updated_at: datetime


class Stats(StatsLine, frozen=True, kw_only=True):
    """All statistics of a model; docs/statistics.md defines every number."""

    error_rate_interval: Interval | None
    weighted_error_rate: float | None
    windows: Windows
    confusion: Confusion
    classes: list[ClassFigures]
    baselines: Baselines
    delay: Delay
    bound: Bound
    calibration: Calibration
    unlabelled: Unlabelled
    evicted: Evicted | None
    sets: Sets | None
    ask: Ask | None
    experts: Experts | None
    challengers: Challengers | None
    corrections: Corrections | None
    curve: Curve
    features: FeatureFigures
    learner_curves: Annotated[
        list[LearnerCurve] | UnsetType | None,
        Meta(description="of one model, and only if `fields` asks for them"),
    ] = UNSET

    def _repr_html_(self) -> str:
        """What notebooks show: the figures that are single numbers or words."""
        figures = to_builtins(self)
        for part in ("rounds", "drift", "bound"):
            figures |= {f"{part}.{name}": figure for name, figure in figures[part].items()}
        rows = (
            f"<tr><th>{name}</th><td>{escape(str(figure))}</td></tr>"
            for name, figure in figures.items()
            if not isinstance(figure, dict | list | None)
        )
        return f"<table>{''.join(rows)}</table>"


class Totals(Struct, frozen=True):
    """Sums over all models."""

    models: int
    rounds: RoundCounts
    mistakes: int
    updates: int
    error_rate: float | None


class StatsPage(Struct, frozen=True):
    """A page of models, and the sums over all of them."""

    totals: Totals
    models: Annotated[list[Stats], Meta(description="with `fields`, only those fields of each")]
    unreadable: list[UnreadableModel]
    next: str | None
    previous: Annotated[
        str | None, Meta(description="with `reverse` the other way round, the page before; null on the first")
    ] = None


class Caller(Struct, frozen=True):
    """What a key may do."""

    role: Annotated[str, _one_of("read", "write", "admin")]
    prefix: Annotated[str, Meta(description="what the names of its models begin with; empty for all")]


class Reason(Struct, frozen=True):
    """Why a model needs a look."""

    kind: ReasonKind
    detail: str


class Noticed(Struct, frozen=True):
    """A model that needs a look."""

    model: str
    reasons: list[Reason]


class AttentionPage(Struct, frozen=True):
    """How many models need a look, and the first of them."""

    count: int
    models: list[Noticed]


# As the clients read them: what is not sent is None or empty.


class Served(Struct, frozen=True, kw_only=True):
    """`label` is None while a model whose classes appear by themselves has not seen any.

    `probability` is the estimated chance that the label is right, None before the model's first reveal. `set` are the
    labels that a model with a `coverage` does not rule out, None if it rules out nothing; `ask_probability` is the
    chance that a model with `ask` wants the label. `expert` names whose explanation it is, of a model of `auto`, and
    `served_by` the learner whose label it is, of a model with challengers.
    """

    model: str
    label: Label | None
    score: float
    version: int
    explanation: list[Contribution] = []
    probability: float | None = None
    set: list[Label] | None = None
    expert: str | None = None
    ask_probability: float | None = None
    served_by: str | None = None


class DryRun(Served, frozen=True, kw_only=True):
    """What would be served. It has no id: no label is waited for."""


class Prediction(Served, frozen=True, kw_only=True):
    """`ask` tells whether a model with `ask` wants the label to be revealed."""

    prediction_id: str
    ask: bool | None = None


class Outcome(FeedbackAnswer, frozen=True, kw_only=True):
    """What came of a round. `replayed` if it was finished before, and this is the first answer again."""

    replayed: bool = False


class Learned(Outcome, frozen=True, kw_only=True):
    """A whole round. `probability` and `set` are what the prediction was served with, as in `Prediction`."""

    score: float
    probability: float | None = None
    set: list[Label] | None = None


class ClassWeights(Struct, frozen=True):
    """The weights of one class; with two classes there is one row, which speaks for the second."""

    label: Label | None
    weights: list[float]
    bias: float | None


class NamedWeight(Struct, frozen=True):
    feature: int | str
    weight: float


class LargestOfClass(Struct, frozen=True):
    label: Label | None
    weights: list[NamedWeight]
    bias: float | None


class LargestWeights(Struct, frozen=True, kw_only=True):
    """The weights of each class that are largest by absolute value, the largest first."""

    model: str
    version: int
    labels: list[Label]
    classes: list[LargestOfClass]
    expert: str | None = None


class Weights(Struct, frozen=True, kw_only=True):
    """`names` are those of the features where they have names, in the order of the weights.

    Of a model of `auto` they are the weights of the `expert` that weighs most.
    """

    model: str
    version: int
    labels: list[Label]
    names: list[int | str] | None
    classes: list[ClassWeights]
    expert: str | None = None


class Event(Struct, frozen=True):
    """Something that has happened to a model; what `details` has depends on its `kind`."""

    seq: int
    kind: str
    at: datetime
    details: dict[str, Any]

    @classmethod
    def read(cls, line: dict[str, Any]) -> Self:
        details = dict(line)
        seq, kind, at = details.pop("seq"), details.pop("kind"), details.pop("at")
        return cls(seq, kind, datetime.fromisoformat(at), details)


EventLine = Annotated[
    dict[str, Any],
    Meta(
        title="EventLine",
        description="One event; its other fields depend on its kind.",
        extra_json_schema={
            "required": ["seq", "kind", "at"],
            "properties": {
                "seq": {"type": "integer"},
                "kind": {"type": "string"},
                "at": {"type": "string", "format": "date-time"},
            },
        },
    ),
]


class EventPage(Struct, frozen=True):
    events: list[EventLine]
    next: int | None


class Job(Struct, frozen=True):
    """A fit or a replay of the past: how far it is, or what has come of it.

    `state` is `running`, `done`, `failed` or `cancelled`; `version` the one at which a fit has entered its model.
    """

    id: str
    kind: str
    model: str
    state: str
    options: dict[str, Any]
    examples: int
    progress: dict[str, Any] | None
    seconds_left: float | None
    result: dict[str, Any] | None
    error: str | None
    version: int | None
    started_at: datetime
    finished_at: datetime | None

    @property
    def is_over(self) -> bool:
        return self.finished_at is not None


class PastRound(Struct, frozen=True):
    """A round of a model's history; `version` is the model's after it, `at` when its label came."""

    version: int
    at: datetime
    predicted_at: datetime
    prediction_id: str | None
    features: list[float] | dict[str, float]
    label: Label
    served: Label | None
    score: float
    probability: float | None
    mistake: bool
    updated: bool
    weight: float


class Listing(ModelPage, frozen=True, kw_only=True):
    unreadable: list[UnreadableModel] = field(default_factory=list)  # 0.1.0 does not send it


class Fleet(Struct, frozen=True):
    """A page of models and the sums over all of them."""

    totals: Totals
    models: list[StatsLine]
    next: str | None
    unreadable: list[UnreadableModel] = []
    previous: str | None = None


LINE_FIELDS = ",".join(each.name for each in fields(StatsLine))
"""Those that `Fleet` has of each model."""


class Frame(Struct, frozen=True):
    """A part of the feed. `kind` is `snapshot` or `changes`; with its `id`, the feed can be gone on with after a break.

    `data` are the statistics of the one model, or `totals`, `models` and `deleted` of the fleet.
    """

    kind: str
    id: str
    data: dict[str, Any]


ANSWERS = (
    *(AttentionPage, Caller, Correction, EventPage, Forgotten, Job, LargestWeights, ModelInfo, ModelPage),
    *(PendingPage, Stats, StatsPage, Weights),
)
"""Those that a route answers with as a whole."""
