"""A prediction as it is answered: explained by the largest terms of its score, with its set of labels."""

from typing import Any, NamedTuple

import msgspec
import numpy as np

from service.engine.models.model import Model
from service.events import Label, Prediction


class Term(NamedTuple):
    """One weight × value of a score."""

    feature: int | str
    value: float
    weight: float
    product: float


class Answered(msgspec.Struct, frozen=True):
    """A prediction, and what is told with it."""

    prediction: Prediction
    explanation: list[Term]
    serves_sets: bool
    set: list[Label] | None
    """The labels that are not ruled out; None if nothing is ruled out, not even labels that have not been seen yet."""
    ask: bool | None
    """Whether the label is asked for; None if the model does not ask."""
    expert: str | None = None
    """Whose score is explained: the expert of a panel that weighs most; None if the model has no panel."""


def answered(model: Model, prediction: Prediction, explanation: list[Term]) -> Answered:
    certainty = prediction.certainty
    expert = None if model.panel is None else model.panel.leader.name
    if certainty is None or (model.sets is None and model.asking is None):
        return Answered(prediction, explanation, False, None, None, expert)
    chance = certainty.ask_probability
    ask = None if chance is None else model.is_asked(prediction.prediction_id, chance)
    return Answered(
        prediction, explanation, model.sets is not None, model.labels_in(certainty.set), ask, expert
    )


def explain(model: Model, example: Any, terms_max: int) -> list[Term]:
    """The terms of the score with the largest absolute values, largest first; of several classes, the chosen one's.

    Of a panel it is the score of the expert that weighs most, for the class that this one has chosen.
    """
    z = model.features.vector(example)
    classifier = model.classifier
    if model.panel is not None:
        classifier, z = model.panel.led_by(z)
    chosen = classifier.decide(z)[0]
    if chosen < 0:
        return []
    weights = classifier.weights_for(chosen)
    at = np.arange(len(z.values)) if z.indices is None else z.indices
    products = weights[at] * z.values
    largest = np.argsort(-np.abs(products), kind="stable")[:terms_max]
    names = model.features.names_in(example)
    return [
        Term(names.get(int(i)) or model.weight_name(int(i)), float(v), float(w), float(p))
        for i, v, w, p in zip(
            at[largest], z.values[largest], weights[at[largest]], products[largest], strict=True
        )
    ]
