"""Fits, and challengers that have learned before they entered, for a model that knows other classes or names than the
one that they were made for: some came with rounds that had other labels, or that are to be forgotten."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from service.engine.models.labels import Labels
from service.engine.models.serving import new_classifier
from service.engine.models.sizes import new_features
from service.events import Label
from service.learning.features.pipeline import Pipeline
from service.learning.saved import packed, unpacked

if TYPE_CHECKING:
    from service.engine.models.state import ModelState


class Known(NamedTuple):
    """What a model knew at a place of its history."""

    labels: list[Label]
    names: list[str]

    @classmethod
    def of(cls, model: ModelState) -> Known:
        return cls(list(model.labels.values), names_in(model.features.state()))


def names_in(features: Any) -> list[str]:
    """The names in a state of features; none if they have no dictionary."""
    kind = features.get("kind", features)
    return list(kind["names"]) if "names" in kind else []


class Learned(NamedTuple):
    """The classes, the features and the classifier of a fit or a challenger, as states."""

    labels: list[Label]
    features: Any
    classifier: Any


def for_another(learned: Learned, settings: dict[str, Any], was: Known, here: Known) -> Learned:
    """What was made for a model that knew `was`, for one that knows `here`: its classes in its order, and nothing of
    classes and names that only the other knew. A class that was not there begins with nothing learned."""
    known, has_been, is_here = Labels(learned.labels), Labels(was.labels), Labels(here.labels)
    brought = [each for each in learned.labels if has_been.index(each) < 0 and is_here.index(each) < 0]
    labels = [*here.labels, *brought]
    gone = set(was.names).difference(here.names).intersection(names_in(learned.features))
    features, classifier = learned.features, learned.classifier
    form = new_features(settings)
    form.restore(features)
    if list(map(known.index, labels)) != list(range(len(learned.labels))):
        fresh = new_classifier(settings, Labels(labels))
        fresh.grow(form.size())
        classifier = _rearranged(classifier, list(map(known.index, labels)), fresh.state())
    if gone:
        assert isinstance(form, Pipeline)
        places = [at for at in range(form.size()) if not gone.isdisjoint(str(form.name(at)).split("×"))]
        classifier = _emptied(classifier, places)
        features = _without_names(features, gone, places)
    return Learned(labels, features, classifier)


def _rearranged(state: Any, places: list[int], fresh: Any) -> Any:
    """A classifier's state with its classes in another order. `places`: where each is in it, -1 if it is not."""
    if "experts" in state:
        both = zip(state["experts"], fresh["experts"], strict=True)
        return {**state, "experts": [_rearranged(each, places, new) for each, new in both]}
    if "pairs" in state:
        return _paired(state, places)
    if "learners" in state:
        new = fresh["learners"]
        learners = [state["learners"][at] if at >= 0 else new[to] for to, at in enumerate(places)]
        return {**state, "learners": learners}
    rows = unpacked(state["weights"])
    new = [rows[at] if at >= 0 else np.zeros(rows.shape[1]) for at in places]
    return {**state, "weights": packed(np.array(new).reshape(len(places), -1))}


def _paired(state: Any, places: list[int]) -> Any:
    to = {at: place for place, at in enumerate(places) if at >= 0}
    pairs, learners = [], []
    for (one, other), learner in zip(state["pairs"], state["learners"], strict=True):
        if one in to and other in to:
            if to[one] > to[other]:  # the first of a pair is its +1
                turned = {
                    name: packed(-unpacked(learner[name])) for name in ("weights", "lag") if name in learner
                }
                learner = {**learner, **turned}
            pairs.append(sorted((to[one], to[other])))
            learners.append(learner)
    return {**state, "pairs": pairs, "learners": learners, "classes": len(places)}


def _emptied(state: Any, places: list[int]) -> Any:
    """A state without what was learned of some weights."""
    if isinstance(state, list):
        return [_emptied(each, places) for each in state]
    if not isinstance(state, dict) or "experts" in state:  # whose forms have other places
        return state
    emptied = {name: _emptied(part, places) if name == "learners" else part for name, part in state.items()}
    for name in {"weights", "lag", "covariance"}.intersection(state):
        fill = float(name == "covariance")
        array = unpacked(state[name], fill)
        is_matrix = name == "covariance" and array.ndim == 2
        array[..., places] = 0.0 if is_matrix else fill
        if is_matrix:
            array[places] = 0.0
            array[places, places] = 1.0
        emptied[name] = array if is_matrix else packed(array, fill)
    return emptied


def _without_names(features: Any, gone: Iterable[str], places: list[int]) -> Any:
    """Other weights stay where they are, so something has to stand in the place of a name."""
    gone, names = set(gone), features["kind"]["names"]
    taken, number, instead = set(names), 0, []
    for name in names:
        if name in gone:
            while (name := f"(forgotten {number})") in taken:
                number += 1
            taken.add(name)
        instead.append(name)
    transforms = features["transforms"]
    if "standardize" in transforms:
        scaled = unpacked(transforms["standardize"]["kept"])
        scaled[:, [at for at in places if at < scaled.shape[1]]] = 0.0
        transforms = {**transforms, "standardize": {**transforms["standardize"], "kept": packed(scaled)}}
    return {**features, "kind": {**features["kind"], "names": instead}, "transforms": transforms}
