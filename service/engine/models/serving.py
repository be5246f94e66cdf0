"""What a prediction is served with, and what is known of it when its label is revealed; votes of the learner `auto`."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from service.engine.models.labels import Labels
from service.events import Certainty, Word
from service.learning.certainty.asking import Asking
from service.learning.certainty.sets import Sets
from service.learning.classes import strategies
from service.learning.classes.classifier import Classifier
from service.learning.learners.algorithms import AUTO
from service.learning.panel.panel import Panel, behind_in, erred_weight
from service.learning.statistics import Statistics
from service.learning.statistics.calibration import Standing
from service.learning.vectors import Vector

NO_STANDING: Standing = (0.0, 0.0, None)
"""That of a prediction without a label, since no class was known."""


Served = tuple[int, float, Certainty]
"""A prediction: its class, -1 for none, its score, and how sure the model is of it."""


class Seen(msgspec.Struct, frozen=True, gc=False):
    """What was true when a prediction was served whose label is revealed now."""

    at: int
    """When it was served."""
    certainty: Certainty | None
    """None if a version made it that did not know of it."""
    stale_updates: int = 0
    """How many updates came between prediction and reveal."""
    stale_weight: float = 0.0
    """What these weigh together."""
    delay: int = 0
    """How many reveals came between."""
    was_asked: bool | None = None
    """Whether its label was asked for; None if that was not the question."""
    before_reset: bool = False
    """Whether a reset came between."""


def served_by(certainty: Certainty | None) -> int:
    """The number of the learner that served a prediction: 0 if the model had no challengers then."""
    return 0 if certainty is None or certainty.lineup is None else certainty.lineup.learner


def words_of(seen: Seen, served: int) -> dict[int, Word]:
    """What each learner of a model had said of an example, by its number; nothing from before a reset counts."""
    certainty = seen.certainty
    if certainty is None or seen.before_reset:
        return {}
    number, c = served_by(certainty), certainty
    own = Word(number, served, c.gap, c.lead, c.probability, c.said, c.votes, c.disagreements)
    shadows = () if certainty.lineup is None else certainty.lineup.shadows
    return {number: own, **{word.learner: word for word in shadows}}


class Unlabelled(NamedTuple):
    """What the predictions were served with that still wait for their labels."""

    predictions: int
    with_probability: int
    probabilities: float
    """The sum of their probabilities."""
    unasked: int
    """Those of them whose labels were not asked for."""
    awaited: list[float]
    """With what probabilities the labels of the others were asked for."""

    def report(self) -> dict[str, Any]:
        expected = 1.0 - self.probabilities / self.with_probability if self.with_probability else None
        return {"predictions": self.predictions, "expected_error_rate": expected}


def new_classifier(settings: Mapping[str, Any], labels: Labels) -> Classifier:
    """A classifier at its start, from a model's settings; a panel if the learner is `auto`."""
    classes, tie = len(labels.values), labels.index(settings["tie"])
    learner, multiclass = settings["learner"], settings["multiclass"]
    if learner["algorithm"] != AUTO:
        return strategies.build(learner, multiclass, classes=classes, tie=tie)
    kind, has_bias = settings["features"]["kind"], settings["bias"]
    return Panel(
        learner,
        multiclass,
        classes=classes,
        tie=tie,
        kind=kind,
        has_bias=has_bias,
        rules=settings["rules"],
    )


def serve_vote(
    panel: Panel,
    z: Vector,
    statistics: Statistics,
    sets: Sets | None,
    asking: Asking | None,
    last_class: int | None,
) -> Served:
    """A prediction by the vote of a panel, with what each of its experts says; changes nothing."""
    vote = panel.vote(z)
    standing = statistics.calibration.standing(vote.gap) if vote.chosen >= 0 else NO_STANDING
    certainty = Certainty(
        *standing,
        set=sets.serve(statistics.calibration.leads(behind_in(vote))) if sets else None,
        ask_probability=asking.probability(vote.gap) if asking else None,
        said=vote.said,
        votes=vote.votes,
        last_class=last_class,
        disagreements=panel.hedge.disagreements,
    )
    return vote.chosen, vote.score, certainty


def learn_vote(panel: Panel, z: Vector, truth: int, served: int, seen: Seen, weight: float) -> bool:
    """Let a panel learn a reveal, its experts judged by what they had said; whether any weights changed."""
    certainty = seen.certainty
    if seen.before_reset or certainty is None or certainty.said is None or certainty.votes is None:
        return panel.learn_only(z, truth, weight)
    erred = erred_weight(certainty.said, certainty.votes, truth)
    return panel.reveal(z, truth, served, certainty.said, erred, weight, seen.delay, certainty.disagreements)
