"""How large a model is or may become, its challengers included: for limits on weights and on memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from service.learning.classes import strategies
from service.learning.features import kinds as feature_kinds
from service.learning.learners import algorithms
from service.learning.panel import sizes as panel_sizes

if TYPE_CHECKING:
    from service.engine.models.model import Model

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
        return panel_sizes.numbers_kept(number, kind, size, learners)
    of_learners = learners * algorithms.numbers_kept(settings["learner"], size)
    return of_learners + feature_kinds.numbers_kept(settings["features"], size)


def numbers_of(model: Model) -> int:
    """How many numbers a model keeps, those of all its learners together."""
    classes = len(model.labels.values)
    return sum(numbers_kept(one, features.size(), classes) for one, features in model.learners())


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


MODEL_BYTES, CLASS_BYTES, FEATURE_BYTES, CHALLENGER_BYTES = 16_384, 1_024, 256, 4_096
"""What a model takes beside its numbers: its statistics, those of each class, each name with its text, and what is
known of each challenger."""


def bytes_in_memory(model: Model) -> int:
    """What a model takes in memory, at most, unless it has very long names; a small one takes a quarter of this."""
    classes, total = len(model.labels.values), MODEL_BYTES - CHALLENGER_BYTES
    for one, features in model.learners():
        size = features.size()
        is_named = one["features"]["kind"] == "named"
        total += CHALLENGER_BYTES + CLASS_BYTES * classes + (FEATURE_BYTES * size if is_named else 0)
        total += 8 * numbers_kept(one, size, classes)
    return total
