"""The answers of GET /models/{model}/export: all that a model is, or what scikit-learn and ONNX need of a linear one.

Whatever is large is copied first, since the model goes on learning, made beside the event loop and sent in slices. Of
copies there are only as many bytes at a time as there is room for.
"""

from typing import Any

from fastapi import Response
from fastapi.responses import StreamingResponse

from service.engine.fleet.copies import Copies
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


async def whole(model: Model, copies: Copies, **more: Any) -> Response:
    """All that a model is, as JSON."""
    if is_large(model):
        copy = copies.of_all(model)
        return SlicedJson({**await export_large(model), **more}, copy)
    return Json({**export_model(model), **more})


async def for_sklearn(model: Model, copies: Copies) -> Response:
    """The attributes of a linear model of scikit-learn, as JSON."""
    copy = copies.of_weights(model) if is_large(model) else None
    try:
        taken = take_linear(model.features, model.classifier, model.labels.values)
    except BadParameter as error:
        raise InvalidRequest.at(error.field, error.message) from None
    if copy is not None:
        return SlicedJson(as_sklearn(await beside_the_loop(taken.linear)), copy)
    return Json(with_lists(taken.linear()))


async def for_onnx(model: Model, copies: Copies) -> Response:
    """A linear model as a file for ONNX runtimes."""
    await beside_the_loop(import_onnx)
    copy = copies.of_weights(model) if is_large(model) else None
    asked = (take_onnx(model), model.name, model.settings["tie"])
    if copy is None:
        return Response(b"".join(onnx_file(*asked).parts), media_type=ONNX_TYPE)
    file = await beside_the_loop(onnx_file, *asked)
    length = {"content-length": str(file.size_bytes)}
    return StreamingResponse(in_turns(file.parts, copy), media_type=ONNX_TYPE, headers=length)
