"""The weights of a model, for GET /models/{model}/weights."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
from fastapi import Query, Response

from service.engine.fleet.large_models import weights_bytes
from service.engine.models.model import Model
from service.learning.saved import Kept
from service.learning.vectors import Array, Indices
from service.runtime.byte_budget import Reservation
from service.web.http.answers import Json
from service.web.http.slices import SlicedJson

Largest = Annotated[
    int | None, Query(ge=1, le=1000, description="only so many, by absolute value, with names")
]


class Read(NamedTuple):
    """What is answered. Rows of weights in it are `Kept` or, if only the largest are told, functions that tell them."""

    content: dict[str, Any]
    is_small: bool


def weights_of(model: Model, largest: int | None) -> dict[str, Any]:
    """The answer, its rows of weights as lists."""
    return _with_lists(read_weights(model, largest).content)


def answer(read: Read, room: Reservation) -> Response:
    """The same as a response: of a large model in slices, from copies in this room."""
    return Json(_with_lists(read.content)) if read.is_small else SlicedJson(read.content, room)


def _with_lists(content: dict[str, Any]) -> dict[str, Any]:
    for row in content["classes"]:
        kept = row["weights"]
        row["weights"] = kept.part(0, kept.size).tolist() if isinstance(kept, Kept) else kept()
    return content


def read_weights(model: Model, largest: int | None) -> Read:
    """Copies of all that is answered: the model may go on. It takes long of a large one."""
    names = None
    if largest is None and model.settings["features"]["kind"] == "named":
        names = [model.features.name(i) for i in range(model.bias_is_first, model.features.size())]
    content = {
        "model": model.name,
        "version": model.version,
        "labels": list(model.labels.values),
        "names": names,
        "classes": [{"label": label, **_row(model, row, largest)} for label, row in model.weights()],
        **({} if model.panel is None else {"expert": model.panel.leader.name}),
    }
    return Read(content, not weights_bytes(model))


def _row(model: Model, row: Array, largest: int | None) -> dict[str, Any]:
    bias = None
    first = 0
    if model.bias_value is not None and len(row):
        first = 1 if model.bias_is_first else 0
        bias = float(row[0] if model.bias_is_first else row[-1])
        row = row[1:] if model.bias_is_first else row[:-1]
    if largest is None:
        return {"weights": Kept(row), "bias": bias}
    places = largest_in(row, largest)
    if model.panel is None:
        # Nobody takes a name from these features any more: after a reset the model has others.
        name: Callable[[int], int | str] = model.features.name
    else:  # the names are those of the expert that leads, and another one may lead a moment later
        name = {int(i) + first: model.weight_name(int(i) + first) for i in places}.__getitem__
    return {"weights": partial(_named, name, places + first, row[places]), "bias": bias}


def _named(name: Callable[[int], int | str], places: Indices, weights: Array) -> list[dict[str, Any]]:
    told = zip(places.tolist(), weights.tolist(), strict=True)
    return [{"feature": name(place), "weight": weight} for place, weight in told]


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
