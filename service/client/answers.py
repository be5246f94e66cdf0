"""Answers as these clients read them; those about models and their statistics are in `service.answers`."""

from datetime import datetime
from typing import Any

from msgspec import Struct, field

from service import answers
from service.answers import Label, StatsLine, Totals, UnreadableModel


class Term(Struct, frozen=True):
    """One weight × value of a score."""

    feature: int | str
    value: float
    weight: float
    contribution: float


class Prediction(Struct, frozen=True):
    """`label` is None while a model whose classes appear by themselves has not seen any.

    `probability` is the estimated chance that the label is right, None before the model's first reveal. `set` are the
    labels that a model with a `coverage` does not rule out, None if it rules out nothing; `ask` tells whether a model
    with `ask` wants the label to be revealed. `expert` names whose explanation it is, of a model of `auto`, and
    `served_by` the learner whose label it is, of a model with challengers.
    """

    prediction_id: str
    model: str
    label: Label | None
    score: float
    version: int
    explanation: list[Term] = []
    probability: float | None = None
    set: list[Label] | None = None
    ask: bool | None = None
    expert: str | None = None
    ask_probability: float | None = None
    served_by: str | None = None


class DryRun(Struct, frozen=True):
    """What would be served, with the fields of a `Prediction`. It has no id: no label is waited for.

    `ask_probability` is the chance that a model with `ask` would want the label.
    """

    model: str
    label: Label | None
    score: float
    version: int
    explanation: list[Term] = []
    probability: float | None = None
    set: list[Label] | None = None
    expert: str | None = None
    ask_probability: float | None = None
    served_by: str | None = None


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
    """A whole round. `probability` and `set` are what the prediction was served with, as in `Prediction`."""

    score: float
    probability: float | None = None
    set: list[Label] | None = None


class ClassWeights(Struct, frozen=True):
    label: Label | None
    weights: list[float]
    bias: float | None


class Weights(Struct, frozen=True):
    """A row for each class; with two classes there is one, which speaks for the second.

    `names` are those of the features where they have names, in the order of the weights. Of a model of `auto` they are
    the weights of the `expert` that weighs most.
    """

    model: str
    version: int
    labels: list[Label]
    names: list[int | str] | None
    classes: list[ClassWeights]
    expert: str | None = None


class NamedWeight(Struct, frozen=True):
    feature: int | str
    weight: float


class LargestOfClass(Struct, frozen=True):
    label: Label | None
    weights: list[NamedWeight]
    bias: float | None


class LargestWeights(Struct, frozen=True):
    """The weights of each class that are largest by absolute value, the largest first."""

    model: str
    version: int
    labels: list[Label]
    classes: list[LargestOfClass]
    expert: str | None = None


class Event(Struct, frozen=True):
    """Something that has happened to a model; what `details` has depends on its `kind`."""

    seq: int
    kind: str
    at: datetime
    details: dict[str, Any]


class EventPage(Struct, frozen=True):
    events: list[dict[str, Any]]
    next: int | None

    def read(self) -> list[Event]:
        return [
            Event(
                line["seq"],
                line["kind"],
                datetime.fromisoformat(line["at"]),
                {name: value for name, value in line.items() if name not in ("seq", "kind", "at")},
            )
            for line in self.events
        ]


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


class ModelPage(answers.ModelPage, frozen=True, kw_only=True):
    unreadable: list[UnreadableModel] = field(default_factory=list)  # 0.1.0 does not send it


class Fleet(Struct, frozen=True):
    """A page of models and the sums over all of them."""

    totals: Totals
    models: list[StatsLine]
    next: str | None
    unreadable: list[UnreadableModel] = []
    previous: str | None = None
