"""Explains a prediction by the largest terms of its score."""

from typing import Any, NamedTuple

import numpy as np

from service.engine.model.model import Model


class Term(NamedTuple):
    """One weight × value of a score."""

    feature: int | str
    value: float
    weight: float
    product: float


def explain(model: Model, example: Any, terms_max: int) -> list[Term]:
    """The terms of the score with the largest absolute values, largest first; of several classes, the chosen one's."""
    z = model.features.vector(example)
    chosen, _ = model.classifier.decide(z)
    if chosen < 0:
        return []
    weights = model.classifier.weights_for(chosen)
    at = np.arange(len(z.values)) if z.indices is None else z.indices
    products = weights[at] * z.values
    largest = np.argsort(-np.abs(products), kind="stable")[:terms_max]
    names = model.features.names_in(example)
    return [
        Term(names.get(int(i)) or model.features.name(int(i)), float(v), float(w), float(p))
        for i, v, w, p in zip(
            at[largest], z.values[largest], weights[at[largest]], products[largest], strict=True
        )
    ]
