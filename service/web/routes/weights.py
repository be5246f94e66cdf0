"""The weights of a model, for GET /models/{model}/weights."""

from functools import partial
from typing import Annotated, Any

import numpy as np
from fastapi import Query, Response
from pydantic import BaseModel, Field

from service.engine.fleet.copies import Copies
from service.engine.model.model import Model
from service.learning.packing import Kept
from service.learning.vectors import Array, Indices
from service.web.http.answers import Json
from service.web.http.slices import SlicedJson
from service.web.routes.model_settings import LabelField

Largest = Annotated[
    int | None, Query(ge=1, le=1000, description="only so many, by absolute value, with names")
]


SLICED_NUMBERS = 16_384
"""So many weights are answered at once; of more, the text is made as it is sent."""


class NamedWeight(BaseModel):
    feature: int | str
    weight: float


class ClassWeights(BaseModel):
    """The weights of one class; with two classes there is one row, which speaks for the second."""

    label: LabelField | None
    weights: list[float] | list[NamedWeight]
    bias: float | None


class WeightsAnswer(BaseModel):
    model: str
    version: int
    labels: list[LabelField]
    names: list[int | str] | None = Field(description="of the features, where they are not positions")
    classes: list[ClassWeights]
    expert: str | None = Field(
        None, description="of `auto` only: the expert that weighs most, whose weights these are"
    )


def weights_of(model: Model, largest: int | None) -> dict[str, Any]:
    """The answer, its rows of weights as lists."""
    content = _weights_of(model, largest)
    for row in content["classes"]:
        kept = row["weights"]
        row["weights"] = kept.part(0, kept.size).tolist() if isinstance(kept, Kept) else kept()
    return content


def answer(model: Model, largest: int | None, copies: Copies) -> Response:
    """The same as a response: of a large model in slices, with copies of the rows as they are now."""
    is_small = model.features.size() * max(1, len(model.labels.values)) <= SLICED_NUMBERS
    # The names of a panel's weights are those of the expert that leads, and another one may lead a moment later.
    if is_small or (largest is not None and model.panel is not None):
        return Json(weights_of(model, largest))
    copy = copies.of_weights(model)
    return SlicedJson(_weights_of(model, largest), copy)


def _weights_of(model: Model, largest: int | None) -> dict[str, Any]:
    names = None
    if largest is None and model.settings["features"]["kind"] == "named":
        names = [model.features.name(i) for i in range(model.bias_is_first, model.features.size())]
    return {
        "model": model.name,
        "version": model.version,
        "labels": list(model.labels.values),
        "names": names,
        "classes": [{"label": label, **_row(model, row, largest)} for label, row in model.weights()],
        **({} if model.panel is None else {"expert": model.panel.leader.name}),
    }


def _row(model: Model, row: Array, largest: int | None) -> dict[str, Any]:
    bias = None
    first = 0
    if model.bias_value is not None and len(row):
        first = 1 if model.bias_is_first else 0
        bias = float(row[0] if model.bias_is_first else row[-1])
        row = row[1:] if model.bias_is_first else row[:-1]
    kept = Kept(row)
    return {
        "weights": kept if largest is None else partial(_largest, model, kept, first, largest),
        "bias": bias,
    }


def _largest(model: Model, kept: Kept, first: int, count: int) -> list[dict[str, Any]]:
    row = kept.part(0, kept.size)
    return [
        {"feature": model.weight_name(int(i) + first), "weight": float(row[i])}
        for i in largest_in(row, count)
    ]


def largest_in(row: Array, count: int) -> Indices:
    """The places of the largest by absolute value, the first among equals first.

    >>> largest_in(np.array([0.0, -2.0, 1.0, 2.0, 0.0]), 4).tolist()
    [1, 3, 2, 0]
    """
    places = np.flatnonzero(row)
    if len(places) < min(count, len(row)):  # zeros are the smallest: the first of them make up the rest
        places = np.concatenate((places, np.flatnonzero(row[: 2 * count] == 0)))
    magnitudes = np.abs(row[places])
    if len(places) > count:
        least = np.partition(magnitudes, -count)[-count]
        places, magnitudes = places[magnitudes >= least], magnitudes[magnitudes >= least]
    top: Indices = places[np.lexsort((places, -magnitudes))[:count]]
    return top
