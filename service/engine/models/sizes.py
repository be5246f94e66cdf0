"""How large a model is or may become, its challengers included, and whether another challenger fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from service.learning.classes import strategies
from service.learning.features import kinds as feature_kinds
from service.learning.features.contract import Features
from service.learning.features.dense import Dense
from service.learning.features.pipeline import Pipeline
from service.learning.learners import algorithms
from service.learning.panel import forms as panel_forms

if TYPE_CHECKING:
    from service.engine.models.model import Model

OWN = ("learner", "features", "multiclass", "tie", "classes_max", "size_max")
"""The settings that a challenger has of its own; all others are the model's."""


def is_robust(settings: Mapping[str, Any]) -> bool:
    """Whether outliers and changes of unit leave the scales of features alone."""
    return settings["rules"] >= 3  # type: ignore[no-any-return]


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
        return panel_forms.numbers_kept(number, kind, size, learners, robust=is_robust(settings))
    of_learners = learners * algorithms.numbers_kept(settings["learner"], size)
    return of_learners + feature_kinds.numbers_kept(settings["features"], size, robust=is_robust(settings))


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
    """How many classes all learners of a model can separate.

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


CHALLENGERS_MAX = 8


def new_features(settings: Mapping[str, Any]) -> Features:
    """The features of a model with these settings, at their start."""
    bias_value = settings["bias_value"] if settings["bias"] else None
    return feature_kinds.build(
        settings["features"], bias_value, size_max=settings["size_max"], robust=is_robust(settings)
    )


def why_not(
    model: Mapping[str, Any], name: str, own: Mapping[str, Any], *, dimension: int | None, classes: int
) -> tuple[str, str] | None:
    """Why a challenger of this name and with these settings cannot join a model with those; None if it can.

    The field and what is wrong with it. `dimension` is that of the model's examples, if it is known, and `classes` how
    many the model has.
    """
    challengers = model["challengers"]
    if len(challengers) >= CHALLENGERS_MAX:
        return "name", f"challenger limit reached ({len(challengers)}); remove one first"
    if classes > own["classes_max"]:
        return "multiclass", f"the model has {classes} classes, and this takes at most {own['classes_max']}"
    if not takes_dimension(new_features({**model, **own}), dimension):
        return "features", f"examples of {dimension} numbers are too long for it"
    if (
        is_crossed(own)
        and own["features"]["kind"] != "dense"
        and not any(map(is_crossed, each_learner(model)))
    ):
        return (
            "features.crosses",
            "for named features, must be set when the model is created: its examples are too long",
        )
    joined = {**model, "challengers": {**challengers, name: own}}
    if numbers_to_come(joined, dimension, classes) > model["weights_max"]:
        return "features", f"with it the model could exceed {model['weights_max']} weights"
    return None


def is_crossed(settings: Mapping[str, Any]) -> bool:
    return "crosses" in settings["features"]


def takes_dimension(features: Features, dimension: int | None) -> bool:
    """Whether examples of so many numbers are not too long, where examples are lists of numbers."""
    kind = features.kind if isinstance(features, Pipeline) else features
    return not isinstance(kind, Dense) or dimension is None or dimension <= kind.dimension_max
