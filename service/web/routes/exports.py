"""The answers of GET /models/{model}/export: all that a model is, or what scikit-learn and ONNX need of a linear one.

Whatever is large is copied first, since the model goes on learning, made beside the event loop and sent in slices. Of
copies there are only as many bytes at a time as there is room for.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import Response

from service.engine.fleet.large_models import (
    CopyReservation,
    copy_bytes,
    in_thread,
    takes_long_to_read,
    weights_bytes,
)
from service.engine.models.model import Model
from service.engine.transfer.onnx_export import import_onnx, onnx_file, take_onnx
from service.engine.transfer.transfer import export_model, export_of, learned
from service.errors import InvalidRequest
from service.learning.export import Taken, as_sklearn, take_linear, with_lists
from service.learning.parameters import BadParameter
from service.runtime.byte_budget import ByteBudget
from service.web.http.answers import Json
from service.web.http.breaking_off import BreakingOff
from service.web.http.slices import SlicedJson, in_turns

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
    is_large, taken = await read(
        lambda model: (True, learned(model)) if takes_long_to_read(model) else (False, export_model(model)),
        room.take_for,
    )
    if is_large:
        return SlicedJson({**await in_thread(export_of, taken), **more}, room)
    return Json({**taken, **more})


async def for_sklearn(read: Read, copies: ByteBudget) -> Response:
    """The attributes of a linear model of scikit-learn, as JSON."""
    room = CopyReservation(copies, weights_bytes)

    def take(model: Model) -> tuple[bool, Taken]:
        taken = take_linear(model.features, model.classifier, model.labels.values)
        return takes_long_to_read(model), taken

    try:
        is_large, taken = await read(take, room.take_for)
    except BadParameter as error:
        raise InvalidRequest.at(error.field, error.message) from None
    if is_large:
        return SlicedJson(as_sklearn(await in_thread(taken.linear)), room)
    return Json(with_lists(taken.linear()))


async def for_onnx(read: Read, copies: ByteBudget) -> Response:
    """A linear model as a file for ONNX runtimes."""
    room = CopyReservation(copies, weights_bytes)
    await in_thread(import_onnx)
    is_large, *asked = await read(
        lambda model: (takes_long_to_read(model), take_onnx(model), model.name, model.settings["tie"]),
        room.take_for,
    )
    file = await in_thread(onnx_file, *asked) if is_large else onnx_file(*asked)
    if not is_large:
        return Response(b"".join(file.parts), media_type=ONNX_TYPE)
    length = {"content-length": str(file.size_bytes)}
    return BreakingOff(in_turns(file.parts, room), media_type=ONNX_TYPE, headers=length)
