"""The shape of statistics, for the OpenAPI document and for those who build on it."""

from typing import Literal

from pydantic import BaseModel, Field

from service.web.routes.model_settings import LabelField
from service.web.routes.models import UnreadableModel


class RoundCounts(BaseModel):
    """predicted = revealed + pending + expired."""

    predicted: int
    revealed: int
    pending: int
    expired: int


class Window(BaseModel):
    rounds: int
    mistakes: int
    error_rate: float | None


class Windows(BaseModel):
    """Over the last reveals, and over the last minute, hour and day in buckets of 1 s, 1 min and 30 min."""

    last_100: Window
    last_1000: Window
    last_10000: Window
    minute: Window
    hour: Window
    day: Window


class Cell(BaseModel):
    """How often one label was served where another was true."""

    true: LabelField
    served: LabelField
    count: int


class Confusion(BaseModel):
    """True labels are rows. Beyond 50 labels the matrix is null and the largest cells are listed."""

    labels: list[LabelField]
    matrix: list[list[int]] | None
    largest: list[Cell] | None = None


class ClassFigures(BaseModel):
    label: LabelField
    support: int
    precision: float | None
    recall: float | None
    f1: float | None


class Baselines(BaseModel):
    majority_error_rate: float | None
    no_change_error_rate: float | None
    kappa: float | None
    kappa_m: float | None
    kappa_t: float | None


class Quantiles(BaseModel):
    p50: float | None
    p90: float | None
    p99: float | None
    max: float | None


class Delay(BaseModel):
    """How late labels come: in seconds, and in updates of the model."""

    seconds: Quantiles
    updates_max: int | None


class Drift(BaseModel):
    state: Literal["stable", "warning", "drift"]
    count: int
    last_round: int | None
    delta: float


class BoundFigures(BaseModel):
    """See docs/theory.md."""

    verdict: Literal["within", "exceeded", "unknown", "not_applicable"]
    why: str | None
    R: float | None
    weight_norm: float | None
    margin_ceiling: float | None
    gamma: float | None
    gamma_source: Literal["declared", "observed"] | None
    stale_updates_mean: float | None
    stale_updates_max: int | None
    mistake_bound: float | None
    used: float | None


class Curve(BaseModel):
    """Mistakes over rounds, at most 512 points."""

    rounds: list[int]
    mistakes: list[int]


class FeatureFigures(BaseModel):
    """How many weights a class has, and how often a name was ignored because the dictionary is full."""

    kind: str
    weights: int
    ignored_names: int


class StatsAnswer(BaseModel):
    model: str
    algorithm: str
    version: int
    rounds: RoundCounts
    mistakes: int
    updates: int
    error_rate: float | None
    ewma_error_rate: float | None
    windows: Windows
    confusion: Confusion
    classes: list[ClassFigures]
    baselines: Baselines
    delay: Delay
    drift: Drift
    bound: BoundFigures
    curve: Curve
    features: FeatureFigures
    created_at: str
    updated_at: str


class FleetTotals(BaseModel):
    models: int
    rounds: RoundCounts
    mistakes: int
    updates: int
    error_rate: float | None


class StatsPage(BaseModel):
    totals: FleetTotals
    models: list[StatsAnswer] = Field(description="with `fields`, only those fields of each")
    unreadable: list[UnreadableModel]
    next: str | None
