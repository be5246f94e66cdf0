"""The answers of GET /models/{model}/export: all that a model is, or what scikit-learn and ONNX need of a linear one.

Whatever is large is copied first, since the model goes on learning, made beside the event loop and sent in slices.
"""

from typing import Any

from fastapi import Response
from fastapi.responses import StreamingResponse

from service.engine.fleet.large_models import beside_the_loop, is_large
from service.engine.model.model import Model
from service.engine.transfer.onnx_export import import_onnx, onnx_file, take_onnx
from service.engine.transfer.transfer import export_large, export_model
from service.errors import InvalidRequest
from service.learning.export import as_sklearn, take_linear, with_lists
from service.learning.parameters import BadParameter
from service.web.http.answers import Json
from service.web.http.slices import SlicedJson, in_turns

ONNX_TYPE = "application/octet-stream"


async def whole(model: Model, **more: Any) -> Response:
    """All that a model is, as JSON."""
    if is_large(model):
        return SlicedJson({**await export_large(model), **more})
    return Json({**export_model(model), **more})


async def for_sklearn(model: Model) -> Response:
    """The attributes of a linear model of scikit-learn, as JSON."""
    try:
        taken = take_linear(model.features, model.classifier, model.labels.values)
    except BadParameter as error:
        raise InvalidRequest.at(error.field, error.message) from None
    if is_large(model):
        return SlicedJson(as_sklearn(await beside_the_loop(taken.linear)))
    return Json(with_lists(taken.linear()))


async def for_onnx(model: Model) -> Response:
    """A linear model as a file for ONNX runtimes."""
    await beside_the_loop(import_onnx)
    taken, of_large = take_onnx(model), is_large(model)
    asked = (taken, model.name, model.settings["tie"])
    file = await beside_the_loop(onnx_file, *asked) if of_large else onnx_file(*asked)
    if not of_large:
        return Response(b"".join(file.parts), media_type=ONNX_TYPE)
    length = {"content-length": str(file.size_bytes)}
    return StreamingResponse(in_turns(file.parts), media_type=ONNX_TYPE, headers=length)
