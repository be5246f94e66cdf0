"""Whether a challenger fits a model as it is: its dimension, its classes, and what it may weigh."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.engine.models.sizes import each_learner, numbers_to_come
from service.learning.features import kinds as feature_kinds
from service.learning.features.contract import Features
from service.learning.features.dense import Dense
from service.learning.features.pipeline import Pipeline

CHALLENGERS_MAX = 8


def new_features(settings: Mapping[str, Any]) -> Features:
    """The features of a model with these settings, at their start."""
    bias_value = settings["bias_value"] if settings["bias"] else None
    return feature_kinds.build(settings["features"], bias_value, size_max=settings["size_max"])


def why_not(
    model: Mapping[str, Any], name: str, own: Mapping[str, Any], *, dimension: int | None, classes: int
) -> tuple[str, str] | None:
    """Why a challenger of this name and with these settings cannot join a model with those; None if it can.

    The field and what is wrong with it. `dimension` is that of the model's examples, if it is known, and `classes` how
    many the model has.
    """
    challengers = model["challengers"]
    if len(challengers) >= CHALLENGERS_MAX:
        return "name", f"the model has {len(challengers)} challengers, and no more are taken"
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
            "with names, must be asked for when the model is made: its examples are too long",
        )
    joined = {**model, "challengers": {**challengers, name: own}}
    if numbers_to_come(joined, dimension, classes) > model["weights_max"]:
        return "features", f"with it the model could have over {model['weights_max']} weights"
    return None


def is_crossed(settings: Mapping[str, Any]) -> bool:
    return "crosses" in settings["features"]


def takes_dimension(features: Features, dimension: int | None) -> bool:
    """Whether examples of so many numbers are not too long, where examples are lists of numbers."""
    kind = features.kind if isinstance(features, Pipeline) else features
    return not isinstance(kind, Dense) or dimension is None or dimension <= kind.dimension_max
