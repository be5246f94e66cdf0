"""Predictions as they are answered: explained, with their sets of labels; and those that are only looked at."""

from typing import Any, NamedTuple

import msgspec
import numpy as np

from service.engine.clock import Clock
from service.engine.fleet.fleet import Fleet
from service.engine.models.checks import Sent
from service.engine.models.model import Model
from service.engine.rounds.examples import Examples
from service.events import DimensionFixed, Label, Prediction
from service.journal.codec import encode_state


class Term(NamedTuple):
    """One weight × value of a score."""

    feature: int | str
    value: float
    weight: float
    product: float


class Answered(msgspec.Struct, frozen=True):
    """A prediction, and what comes with it."""

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


NO_ID = ""
"""Of a prediction that cannot be revealed."""


class DryRuns:
    """Serves what a model says to an example, as it is now."""

    def __init__(self, fleet: Fleet, examples: Examples, clock: Clock) -> None:
        self._fleet = fleet
        self._examples = examples
        self._clock = clock

    async def predict(self, name: str, sent: Sent, terms: int = 0) -> Answered:
        """The prediction that a model would serve, under NO_ID; UnknownModel if there is no such model.

        A model whose dimension is not fixed yet answers as if this example had fixed it.
        """
        live = self._fleet.touch(name) or await self._fleet.get(name)
        model, at = live.model, self._clock.now()
        example = self._examples.read_only(model, sent)
        if model.features.dimension is None:
            model = Model.from_bytes(encode_state(model.state()))
            model.apply(DimensionFixed(name, at, len(example)))
            example = model.features.read(sent)
        served, score, certainty = model.predict(example)
        label, features = model.labels.label(served), model.features.encode(example)
        made = Prediction(NO_ID, name, at, features, label, score, model.version, model.updates, certainty)
        explanation = explain(model, example, terms) if terms else []
        expert = None if model.panel is None else model.panel.leader.name
        among = None if certainty is None else model.labels_in(certainty.set)
        return Answered(made, explanation, model.sets is not None, among, None, expert)
