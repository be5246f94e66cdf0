"""What is read out of a model: the responses of GET /models/{model}/weights and /models/{model}/export.

What is sent is copied first, since the model goes on learning, made beside the event loop and sent in slices. Of copies
of large models there are only as many bytes at a time as there is room for.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any

import numpy as np
from fastapi import Query, Response

from service.engine.fleet.large_models import CopyReservation, copy_bytes, in_thread, weights_bytes
from service.engine.models.model import Model
from service.engine.transfer.json_export import export_of, learned
from service.engine.transfer.onnx_export import import_onnx, onnx_file, take_onnx
from service.errors import InvalidRequest
from service.learning.parameters import BadParameter
from service.learning.sklearn_export import as_sklearn, take_linear
from service.learning.vectors import Array, Indices
from service.runtime.byte_budget import ByteBudget
from service.web.http.responses import BreakingOff, SlicedJson, in_turns

Largest = Annotated[
    int | None, Query(ge=1, le=1000, description="only this many, the largest by absolute value, with names")
]


def read_weights(model: Model, largest: int | None) -> dict[str, Any]:
    """Copies of all that is answered: the model may go on. It takes long of a large one.

    Rows of weights in it are arrays or, if only the largest are wanted, functions that compute them.
    """
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
    if largest is None:
        return {"weights": row.copy(), "bias": bias}
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


ONNX_TYPE = "application/octet-stream"

Read = Callable[[Callable[[Model], Any], Callable[[Model], None]], Awaitable[Any]]
"""Calls the first function with the model that is exported, in a thread if that takes long. Nothing changes it
meanwhile. The second is called before that, and says whether there is room for a copy."""


def of_nobody_else(model: Model) -> Read:
    """Reads a model that is not served."""

    async def read(take: Callable[[Model], Any], first: Callable[[Model], None]) -> Any:
        first(model)
        return await in_thread(take, model)

    return read


async def whole(read: Read, copies: ByteBudget, **more: Any) -> Response:
    """All that a model is, as JSON."""
    room = CopyReservation(copies, copy_bytes)
    taken = await read(learned, room.take_for)
    return SlicedJson({**await in_thread(export_of, taken), **more}, room)


async def for_sklearn(read: Read, copies: ByteBudget) -> Response:
    """The attributes of a linear model of scikit-learn, as JSON."""
    room = CopyReservation(copies, weights_bytes)
    try:
        taken = await read(
            lambda model: take_linear(model.features, model.classifier, model.labels.values), room.take_for
        )
    except BadParameter as error:
        raise InvalidRequest.at(error.field, error.message) from None
    return SlicedJson(as_sklearn(await in_thread(taken.linear)), room)


async def for_onnx(read: Read, copies: ByteBudget) -> Response:
    """A linear model as a file for ONNX runtimes."""
    room = CopyReservation(copies, weights_bytes)
    await in_thread(import_onnx)
    asked = await read(lambda model: (take_onnx(model), model.name, model.settings["tie"]), room.take_for)
    file = await in_thread(onnx_file, *asked)
    length = {"content-length": str(file.size_bytes)}
    return BreakingOff(in_turns(file.parts, room), media_type=ONNX_TYPE, headers=length)
