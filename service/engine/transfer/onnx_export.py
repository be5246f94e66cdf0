"""A linear model as ONNX, for runtimes that know nothing of this service. Needs the extra `onnx`."""

from typing import Any

import numpy as np

from service.engine.model.model import Model
from service.errors import InvalidRequest
from service.learning.export import export_sklearn
from service.learning.parameters import BadParameter

OPSET = 17
ML_OPSET = 3


def export_onnx(model: Model) -> bytes:
    """A graph from `features` (float, batch × dimension) to `label` and `scores`.

    Labels are strings in it if any of the model's is, else integers. Weights become single-precision floats,
    which is all that the operator has: scores differ from the service's in the last digits.
    """
    try:
        from onnx import TensorProto, helper
    except ImportError:
        raise InvalidRequest.at("format", "onnx needs the extra `onnx`: pip install onnx") from None
    try:
        linear = export_sklearn(model.features, model.classifier, model.labels.values)
    except BadParameter as error:
        raise InvalidRequest.at("format", error.message.replace("sklearn", "onnx")) from None
    coefficients, intercepts = linear["coef_"], linear["intercept_"]
    if len(coefficients) == 1:  # one row speaks for the second class: the operator wants one for each
        coefficients = [[-weight for weight in coefficients[0]], coefficients[0]]
        intercepts = [-intercepts[0], intercepts[0]]
        if model.settings["tie"] == linear["classes_"][1]:
            intercepts[0] = _just_below(intercepts[0])  # the operator gives ties to the first class
    labels = _labels(linear["classes_"])
    kind = TensorProto.STRING if "classlabels_strings" in labels else TensorProto.INT64
    node = helper.make_node(
        "LinearClassifier",
        ["features"],
        ["label", "scores"],
        domain="ai.onnx.ml",
        coefficients=[weight for row in coefficients for weight in row],
        intercepts=intercepts,
        multi_class=0,
        post_transform="NONE",
        **labels,  # type: ignore[arg-type]
    )
    dimension = len(coefficients[0])
    graph = helper.make_graph(
        [node],
        model.name,
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, [None, dimension])],
        [
            helper.make_tensor_value_info("label", kind, [None]),
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, [None, len(coefficients)]),
        ],
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    made = helper.make_model(graph, producer_name="novikoff", opset_imports=opsets, ir_version=8)
    content: bytes = made.SerializeToString()
    return content


def _just_below(number: float) -> float:
    """The next smaller one in single precision; of numbers next to 0 one that no runtime takes for 0.

    >>> _just_below(1.0), _just_below(0.0) < 0
    (0.9999999403953552, True)
    """
    single = np.float32(number)
    return float(min(np.nextafter(single, np.float32(-np.inf)), single - np.finfo(np.float32).tiny))


def _labels(classes: list[Any]) -> dict[str, list[Any]]:
    if all(isinstance(label, int) for label in classes):
        return {"classlabels_ints": [int(label) for label in classes]}
    return {"classlabels_strings": [str(label) for label in classes]}
