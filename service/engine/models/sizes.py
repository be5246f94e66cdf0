"""How large a model is or may become, its challengers included: for limits on weights and on memory."""

from collections.abc import Iterator, Mapping
from typing import Any

from service.learning.classes import strategies
from service.learning.features import kinds as feature_kinds
from service.learning.learners import algorithms
from service.learning.panel import forms as panel_forms

OWN = ("learner", "features", "multiclass", "tie", "classes_max", "size_max")
"""The settings that a challenger has of its own; all others are the model's."""


def each_learner(settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The settings of a model as each of its learners would have them as its only one, the champion's first."""
    yield {**settings}
    for own in settings.get("challengers", {}).values():
        yield {**settings, **own}


def capacity(features: dict[str, Any]) -> int:
    """How many features a model may come to have, the bias apart, as far as completed settings tell."""
    return feature_kinds.weights_of(features)


def numbers_kept(settings: Mapping[str, Any], size: int, classes: int) -> int:
    """How many numbers such a learner keeps with its features: for `size` features, the bias apart."""
    learners = max(1, strategies.learners(settings["multiclass"], classes))
    if settings["learner"]["algorithm"] == algorithms.AUTO:
        kind, number = settings["features"]["kind"], settings["learner"]["panel"]
        return panel_forms.numbers_kept(number, kind, size, learners)
    of_learners = learners * algorithms.numbers_kept(settings["learner"], size)
    return of_learners + feature_kinds.numbers_kept(settings["features"], size)


def numbers_to_come(settings: Mapping[str, Any], dimension: int | None, classes: int) -> int:
    """How many numbers a model may come to keep, all its learners together, with so many classes.

    `dimension` is what dense examples have been found to have, if the settings do not tell.
    """
    total = 0
    for one in each_learner(settings):
        features = one["features"]
        if features["kind"] == "dense":
            features = {**features, "dimension": features["dimension"] or dimension}
        total += numbers_kept({**one, "features": features}, capacity(features), classes)
    return total


def classes_max(settings: Mapping[str, Any]) -> int:
    """How many classes all learners of a model can tell apart.

    >>> classes_max({"classes_max": 1000, "challengers": {"pairs": {"classes_max": 100}}})
    100
    """
    most: int = min(one["classes_max"] for one in each_learner(settings))
    return most
