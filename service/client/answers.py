"""What the service answers. Fields that are not known here are passed over: a newer service may send more."""

from datetime import datetime
from typing import Any

from msgspec import Struct, field

Label = bool | int | str


class Term(Struct, frozen=True):
    """One weight × value of a score."""

    feature: int | str
    value: float
    weight: float
    contribution: float


class Prediction(Struct, frozen=True):
    """`label` is None while a model whose classes appear by themselves has not seen any."""

    prediction_id: str
    model: str
    label: Label | None
    score: float
    version: int
    explanation: list[Term] = []


class Outcome(Struct, frozen=True, kw_only=True):
    """What came of a round. `replayed` if it was finished before, and this is the first answer again."""

    prediction_id: str | None
    model: str
    predicted: Label | None
    label: Label
    mistake: bool
    updated: bool
    version: int
    rounds: int
    mistakes: int
    replayed: bool = False


class Learned(Outcome, frozen=True, kw_only=True):
    score: float


class ModelInfo(Struct, frozen=True):
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
    model: str
    created_at: datetime
    algorithm: str


class UnreadableModel(Struct, frozen=True):
    """A model whose history is damaged, or cannot be read, and why."""

    model: str
    detail: str


class ModelPage(Struct, frozen=True):
    models: list[ModelLine]
    next: str | None
    unreadable: list[UnreadableModel] = []


class ClassWeights(Struct, frozen=True):
    label: Label | None
    weights: list[float]
    bias: float | None


class Weights(Struct, frozen=True):
    """A row for each class; with two classes there is one, which speaks for the second.

    `names` are those of the features where they have names, in the order of the weights.
    """

    model: str
    version: int
    labels: list[Label]
    names: list[int | str] | None
    classes: list[ClassWeights]


class RoundCounts(Struct, frozen=True):
    predicted: int
    revealed: int
    pending: int
    expired: int


class Window(Struct, frozen=True):
    rounds: int
    mistakes: int
    error_rate: float | None


class Windows(Struct, frozen=True):
    last_100: Window
    last_1000: Window
    last_10000: Window
    minute: Window
    hour: Window
    day: Window


class Cell(Struct, frozen=True):
    """How often `served` was served where `truth` was true."""

    truth: Label = field(name="true")
    served: Label
    count: int


class Confusion(Struct, frozen=True):
    """True labels are rows; with many labels `matrix` is None and `largest` lists the commonest mistakes."""

    labels: list[Label]
    matrix: list[list[int]] | None
    largest: list[Cell] | None = None


class ClassFigures(Struct, frozen=True):
    label: Label
    support: int
    precision: float | None
    recall: float | None
    f1: float | None


class Baselines(Struct, frozen=True):
    majority_error_rate: float | None
    no_change_error_rate: float | None
    kappa: float | None
    kappa_m: float | None
    kappa_t: float | None


class Quantiles(Struct, frozen=True):
    p50: float | None
    p90: float | None
    p99: float | None
    max: float | None


class Delay(Struct, frozen=True):
    seconds: Quantiles
    updates_max: int | None


class Drift(Struct, frozen=True):
    state: str
    count: int
    last_round: int | None
    delta: float


class Bound(Struct, frozen=True):
    verdict: str
    why: str | None
    R: float | None
    weight_norm: float | None
    margin_ceiling: float | None
    gamma: float | None
    gamma_source: str | None
    stale_updates_mean: float | None
    stale_updates_max: int | None
    mistake_bound: float | None
    used: float | None


class Curve(Struct, frozen=True):
    """Mistakes over rounds, at most 512 points."""

    rounds: list[int]
    mistakes: list[int]


class FeatureFigures(Struct, frozen=True):
    kind: str
    weights: int
    ignored_names: int


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

    windows: Windows
    confusion: Confusion
    classes: list[ClassFigures]
    baselines: Baselines
    delay: Delay
    bound: Bound
    curve: Curve
    features: FeatureFigures


class Totals(Struct, frozen=True):
    models: int
    rounds: RoundCounts
    mistakes: int
    updates: int
    error_rate: float | None


class Fleet(Struct, frozen=True):
    """A page of models and the sums over all of them."""

    totals: Totals
    models: list[StatsLine]
    next: str | None
    unreadable: list[UnreadableModel] = []
