"""Models for a file: which settings fit its examples, and how its examples are given to a model."""

from typing import Any

from novikoff import ModelInfo
from novikoff.schemas import Label
from service.commands.console import CommandFailed
from service.commands.replay import shape
from service.commands.replay.source import Source
from service.commands.replay.survey import Survey


def settings_for(source: Source, survey: Survey, given: dict[str, Any]) -> dict[str, Any]:
    """The settings that were given; else the labels and the kind of features that the file has."""
    is_plain = survey.is_plain and source.format != "svmlight"
    if is_plain and survey.odd is not None and "features" not in given:
        raise CommandFailed(survey.odd)
    guessed = {"labels": guess_labels(survey.labels), "features": "dense" if is_plain else "named"}
    return guessed | given


def guess_labels(seen: list[Label]) -> list[Label] | None:
    """The labels of a model for such examples; None lets the classes appear as they are revealed.

    >>> guess_labels([0, 1]), guess_labels([1]), guess_labels(["a", "b", "c"])
    ([0, 1], [-1, 1], None)
    """
    if len(seen) == 2:
        return seen
    return [-1, 1] if seen in ([-1], [1]) else None


def shape_for(info: ModelInfo, source: Source) -> shape.Shape:
    """How the file's examples become what the model takes."""
    if info.features_kind != "dense":
        return shape.by_name
    if source.format != "svmlight":
        return shape.by_order(source.first)
    dimension = info.dimension or info.settings["features"]["dimension"]
    if not dimension:
        raise CommandFailed(
            f"{info.model} has dense features, and an svmlight file does not say how many:"
            """ make it with --settings '{"features": {"kind": "dense", "dimension": …}}'"""
        )
    return shape.by_index(dimension)
