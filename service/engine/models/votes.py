"""A model whose classifier is a panel (the learner `auto`): how it is made, serves a vote and learns from it."""

from collections.abc import Mapping
from typing import Any

from service.engine.models.labels import Labels
from service.engine.models.served import NO_STANDING, Seen, Served
from service.events import Certainty
from service.learning.certainty.asking import Asking
from service.learning.certainty.sets import Sets
from service.learning.classes import strategies
from service.learning.classes.classifier import Classifier
from service.learning.learners.algorithms import AUTO
from service.learning.panel.panel import Panel, behind_in, erred_weight
from service.learning.statistics import Statistics
from service.learning.vectors import Vector


def new_classifier(settings: Mapping[str, Any], labels: Labels) -> Classifier:
    """A classifier at its start, from a model's settings; a panel if the learner is `auto`."""
    classes, tie = len(labels.values), labels.index(settings["tie"])
    learner, multiclass = settings["learner"], settings["multiclass"]
    if learner["algorithm"] != AUTO:
        return strategies.build(learner, multiclass, classes=classes, tie=tie)
    kind, has_bias = settings["features"]["kind"], settings["bias"]
    return Panel(learner, multiclass, classes=classes, tie=tie, kind=kind, has_bias=has_bias)


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
    )
    return vote.chosen, vote.score, certainty


def learn_vote(panel: Panel, z: Vector, truth: int, served: int, seen: Seen, weight: float) -> bool:
    """Let a panel learn a reveal, its experts judged by what they had said; whether any weights changed."""
    certainty = seen.certainty
    if seen.before_reset or certainty is None or certainty.said is None or certainty.votes is None:
        return panel.learn_only(z, truth, weight)
    erred = erred_weight(certainty.said, certainty.votes, truth)
    return panel.reveal(z, truth, served, certainty.said, erred, weight, seen.delay)
