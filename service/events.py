"""What can happen to a model. A model's state is a fold over these, in the journal's order.

Every event carries all that applying it needs, so that a replay needs nothing else. Times are
microseconds since 1970, and are the event's own: they are read once, before the event is journaled.
"""

import struct
from typing import Any

import msgspec

Label = bool | int | str

# What is made for every prediction or round has `gc=False`: nothing in it can lead back to it, so the garbage collector
# need not look at it.


class Event(msgspec.Struct, frozen=True, array_like=True, tag_field="kind"):
    model: str
    at: int


class ModelCreated(Event, frozen=True, tag="created"):
    settings: dict[str, Any]
    ask_key: str | None = None
    """What only the service knows, so that no client can predict which labels a model with `ask` will ask for."""


class ModelImported(Event, frozen=True, tag="imported"):
    """A model came from elsewhere with all that it had learned."""

    settings: dict[str, Any]
    state: bytes
    forked_from: str | None = None
    """The model of this journal whose state it is; None if it came from outside."""


class ModelFitted(Event, frozen=True, tag="fitted"):
    """A job trained the model on a set of examples: its features, classes and weights are these now."""

    job_id: str
    labels: list[Label]
    features: bytes
    classifier: bytes
    result: dict[str, Any]
    learner: int = 0
    """The number of the champion that it was made for: that of a model without challengers is 0."""
    rises: int | None = None
    """By how much it has raised the version; None if that follows from what came before it. It is so no longer
    once some
    of that is erased."""
    round: int | None = None
    """How many rounds had been revealed when it was written: for people. None if an older program has written it."""


class DimensionFixed(Event, frozen=True, tag="dimension"):
    """The first example fixed how many features the model takes."""

    dimension: int


class Word(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one learner of a model said of an example, as it was when a prediction was served."""

    learner: int
    """The learner's number, which no other learner of the model ever had."""
    chosen: int
    """The class that it was for, -1 for none."""
    gap: float
    lead: float
    probability: float | None
    said: list[int] | None = None
    votes: list[float] | None = None
    disagreements: int | None = None


class Lineup(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Who served a prediction of a model with challengers, and what those said that did not."""

    served_by: str
    """The name that the champion had."""
    learner: int
    """Its number."""
    shadows: list[Word]


class Certainty(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How sure the model was of a prediction, as it was served; docs/theory.md has the formulas."""

    gap: float
    """How far the best score was ahead of the second-best."""
    lead: float
    """The same between 0 and 1, relative to the usual gap."""
    probability: float | None
    """The chance that the label is right; None before the model's first reveal."""
    update_weight: float = 0.0
    """What the updates of the model weighed together until then."""
    set: list[int] | None = None
    """The classes that were not ruled out; None if none was, or if the model serves no sets."""
    ask_probability: float | None = None
    """With what probability the label was asked for; None if the model asks for none."""
    said: list[int] | None = None
    """The class that each expert of a panel was for; None if the model has no panel."""
    votes: list[float] | None = None
    """What the experts weighed together that were for the same class, in the order of the classes in `said`."""
    lineup: Lineup | None = None
    """Who served it, and what the challengers said; None if the model had none."""
    last_class: int | None = None
    """The class that had been revealed last; None if the model has rules 1."""
    disagreements: int | None = None
    """In how many reveals some experts of the panel had erred and others not."""


class RoundRevealed(Event, frozen=True, tag="revealed", gc=False):
    """The true label of an earlier prediction."""

    prediction_id: str
    label: Label
    predicted_at: int
    features: Any
    served: Label | None
    score: float
    version_seen: int
    updates_seen: int
    certainty: Certainty | None = None
    weight: float = 1.0
    tag: str | None = None
    """A word of the client's by which its rounds are found again."""


class Answered(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a whole round was answered with."""

    served: Label | None
    score: float
    probability: float | None
    updated: bool


class RoundLearned(Event, frozen=True, tag="learned", gc=False):
    """A whole round at once: the prediction is made by the weights that the event finds."""

    prediction_id: str | None
    label: Label
    features: Any
    weight: float = 1.0
    tag: str | None = None
    answered: Answered | None = None
    """Only where the events no longer tell, since something before them was erased."""


class Table(msgspec.Struct, frozen=True, array_like=True):
    """Features of rounds that have the same names, or none: a row of float64 for each round."""

    names: list[str] | None
    rounds: int
    values: memoryview


class RoundsLearned(Event, frozen=True, tag="rounds"):
    """Many whole rounds at once, one after the other: the same as that many `RoundLearned`."""

    labels: list[Label]
    features: list[Table]
    answered: list[Answered] | None = None
    """As that of a `RoundLearned`."""


class WarmStart(msgspec.Struct, frozen=True, array_like=True):
    """Which history a challenger had learned before it entered, and how it fared on it."""

    from_version: int
    to_version: int
    rounds: int
    mistakes: int


class ChallengerAdded(Event, frozen=True, tag="challenger_added"):
    """From now on a model has one more learner, which predicts in shadow and learns from the same reveals."""

    challenger: str
    settings: dict[str, Any]
    warm: WarmStart | None = None
    """None if it knows nothing yet."""
    state: bytes = b""
    """What it has learned, if it is warm, and when: see `OtherWorld.learner_bytes`."""


class ChallengerRemoved(Event, frozen=True, tag="challenger_removed"):
    challenger: str


class ChallengerPromoted(Event, frozen=True, tag="promoted"):
    """A challenger and the champion have changed places.

    With a `prediction_id` it is a mark for people: the evidence was enough, so the reveal before it has done this
    already. Like that of a drift, the id makes a second report a repetition.
    """

    challenger: str
    former: str
    round: int
    prediction_id: str | None = None
    rises: int | None = None
    """As that of a fit."""


class PromotionRuled(Event, frozen=True, tag="promotion_rule"):
    """From now on challengers are promoted by themselves as this says; None: never."""

    promote: dict[str, Any] | None
    rules: int = 1
    """The set of rules by which challengers are promoted: see `RULES` in `service/engine/models/settings.py`."""


class PredictionsExpired(Event, frozen=True, tag="expired"):
    """`count` predictions made up to the time `through` will never be revealed."""

    count: int
    through: int
    asked: list[tuple[int, int]] | None = None
    """Of how many of them the label was asked for with a probability of k/256, for each k; None if not known."""
    evicted: int = 0
    """How many of them were evicted before their time, because a limit was reached."""
    limit: str = ""
    """The name of that limit."""


class DriftDetected(Event, frozen=True, tag="drift"):
    """The error rose at this round. A mark for people: the statistics found it and need it not.

    The id makes a second report of the same drift a repetition, like a second reveal.
    """

    prediction_id: str
    round: int


class ModelReset(Event, frozen=True, tag="reset"):
    """Back to the start: no weights, no statistics, no names, means or classes that were learned.

    What was declared stays, and the dimension, also one that the first example has fixed. Predictions not yet
    revealed are void.
    """

    rules: int = 1
    """The set of rules that the model computes by from now on: see `RULES` in `service/engine/models/settings.py`."""
    ask_key: str | None = None
    """Another one, as of `ModelCreated`."""


class ModelRolledBack(Event, frozen=True, tag="rolled_back"):
    """Back to what the model was at the version `to`, all of it. Its version rises all the same.

    The event carries the state, so that it can be applied when the events that led there are no longer kept.
    Predictions not yet revealed are void, as after a reset: what served them is gone.
    """

    to: int
    state: bytes
    round: int | None = None
    """How many rounds had been revealed there: for people, as `as_of` is. None if an older program has written it."""
    as_of: int | None = None
    """When the model had become that."""


class RoundCorrected(Event, frozen=True, tag="corrected"):
    """The label of a finished round was wrong. Nothing changes by this but what is due: a `ModelRebuilt` follows.

    Its `prediction_id` is a key, other for each correction of a round, so that of two at once only one is the first.
    """

    prediction_id: str
    corrects: str
    """The id of the round."""
    label: Label | None
    """The right one; None if the round is voided."""
    former: Label | None
    """What had counted until then."""
    version: int
    """The model's version right after the round."""
    reason: str | None = None


class PredictionVoided(Event, frozen=True, tag="voided"):
    """A pending prediction was never shown to anybody: it is voided and will not be revealed."""

    prediction_id: str
    tag: str | None = None
    """That of the prediction, by which its id is forgotten."""


class RoundErased(Event, frozen=True, tag="erased"):
    """Rounds were here that are to be treated as if they had never been. Only their versions are left."""

    rounds: int
    prediction_id: str | None = None
    """Told to a replica on which the prediction of such a round waits still, since it was behind; never kept."""


class TagForgotten(Event, frozen=True, tag="forgotten"):
    """What carried a tag is to be as if it had never been. The event says neither the tag nor what it was.

    A `ModelRebuilt` follows if there were rounds among it; then it is erased, which `TagErased` tells.
    """

    events: list[int]
    """The numbers of the events that are to be erased."""
    rounds: int
    """How many of these are rounds."""
    version: int
    """The model's version right after the oldest of these; 0 if there are none."""


class TagErased(Event, frozen=True, tag="purged"):
    """What was forgotten is erased from the journal; see docs/api.md."""

    through: int
    """How many times something was forgotten until then."""


class ModelRebuilt(Event, frozen=True, tag="rebuilt"):
    """The model becomes what it would be had the corrections come first. Its version rises by one.

    The event carries the state, so that applying it needs nothing else. If anything has happened to the model since
    the state was made, it does nothing: then another one follows.
    """

    follows: list[int]
    """`Model.place` of the model whose place the state takes, or the beginning of that."""
    through: int
    """How many corrections of the model are in the state."""
    since: int
    """The version of the oldest round that it changes."""
    state: bytes


class ModelDeleted(Event, frozen=True, tag="deleted"):
    pass


AnyEvent = (
    ModelCreated
    | ModelImported
    | ModelFitted
    | DimensionFixed
    | RoundRevealed
    | RoundLearned
    | RoundsLearned
    | ChallengerAdded
    | ChallengerRemoved
    | ChallengerPromoted
    | PromotionRuled
    | PredictionsExpired
    | DriftDetected
    | ModelReset
    | ModelRolledBack
    | RoundCorrected
    | PredictionVoided
    | RoundErased
    | TagForgotten
    | TagErased
    | ModelRebuilt
    | ModelDeleted
)

VOIDING = (ModelReset, ModelRolledBack)
"""Events after which no prediction made before them can be revealed."""


class Prediction(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A served prediction that waits for its label: not an event, since it changes no model."""

    prediction_id: str
    model: str
    at: int
    features: Any
    served: Label | None
    score: float
    version: int
    updates: int
    certainty: Certainty | None = None
    """None if a version made it that did not know of it."""
    tag: str | None = None


def features_of(event: RoundsLearned) -> list[Any]:
    """The features of each round of a block, as an event of its own would have them."""
    features: list[Any] = []
    for table in event.features:
        size = table.values.nbytes // table.rounds
        values = bytes(table.values)
        rows = [values[at * size : (at + 1) * size] for at in range(table.rounds)]
        if table.names is None:
            features += rows
        else:
            numbers = struct.Struct(f"<{len(table.names)}d").unpack
            features += [dict(zip(table.names, numbers(row), strict=True)) for row in rows]
    return features


def revealed(prediction: Prediction, at: int, label: Label, weight: float = 1.0) -> RoundRevealed:
    """The event that reveals a prediction."""
    return RoundRevealed(
        prediction.model,
        at,
        prediction.prediction_id,
        label,
        prediction.at,
        prediction.features,
        prediction.served,
        prediction.score,
        prediction.version,
        prediction.updates,
        prediction.certainty,
        weight,
        prediction.tag,
    )


def prediction_in(event: RoundRevealed) -> Prediction:
    """The prediction that was revealed."""
    return Prediction(
        event.prediction_id,
        event.model,
        event.predicted_at,
        event.features,
        event.served,
        event.score,
        event.version_seen,
        event.updates_seen,
        event.certainty,
        event.tag,
    )
