"""A linear model as ONNX, for runtimes that know nothing of this service. Needs the extra `onnx`.

The coefficients are put into the file by hand, slice by slice. The library would take them as a list of Python's
floats, which is ten times as large as the file, and would need the whole file in memory, too.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from service.engine.models.model import Model
from service.errors import InvalidRequest
from service.learning.parameters import BadParameter
from service.learning.sklearn_export import Linear, Taken, check_linear, columns_of, take_linear
from service.learning.vectors import Array

OPSET = 17
ML_OPSET = 3
SLICE_NUMBERS = 65_536
"""How many coefficients are encoded at once, which takes less than a millisecond."""

FILE_BYTES_MAX = 2**31 - 2**20
"""A message of Protocol Buffers ends at 2 GiB; a part of that is left for all but the coefficients."""

COEFFICIENT = np.dtype([("tag", "u1"), ("value", "<f4")])
"""One entry of the field `floats` as it is in the file."""

MODEL_GRAPH, GRAPH_NODE, NODE_ATTRIBUTE, ATTRIBUTE_FLOATS = 7, 1, 5, 7
"""The numbers of fields in onnx.proto on the way from the whole file to the coefficients."""

FLOAT_TAG = ATTRIBUTE_FLOATS << 3 | 5
"""What precedes each number of 32 bits in the field `floats`."""


class OnnxFile(NamedTuple):
    """A file that is made as it is sent."""

    size_bytes: int
    parts: Iterator[bytes]


def import_onnx() -> None:
    """InvalidRequest if the library is not there. The first import takes long: call it beside the event loop."""
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise InvalidRequest.at("format", "onnx needs the extra `onnx`: pip install onnx") from None


def take_onnx(model: Model) -> Taken:
    """Copies of what the export needs; InvalidRequest, before anything is copied, if there can be none."""
    try:
        check_linear(model.features, model.classifier, model.labels.values)
        check_size(columns_of(model.features), len(model.labels.values))
        return take_linear(model.features, model.classifier, model.labels.values)
    except BadParameter as error:
        raise InvalidRequest.at("format", error.message.replace("sklearn", "onnx")) from None


def check_size(columns: int, classes: int) -> None:
    """BadParameter if the file would be larger than any reader takes.

    >>> check_size(65_536, 6_000)
    >>> check_size(65_536, 7_000)
    Traceback (most recent call last):
        ...
    service.learning.parameters.BadParameter: format: is too large for ONNX (2 GiB)
    """
    if columns * classes * COEFFICIENT.itemsize > FILE_BYTES_MAX:
        raise BadParameter("format", "is too large for ONNX (2 GiB)")


def onnx_file(taken: Taken, name: str, tie: Any) -> OnnxFile:
    """A graph from `features` (float, batch × dimension) to `label` and `scores`.

    Labels are strings in it if any of the model's is, else integers. Weights become single-precision floats,
    which is all that the operator has: scores differ from the service's in the last digits.
    """
    linear = taken.linear()
    rows, intercepts = [(1.0, row) for row in linear.rows], linear.intercepts.tolist()
    if len(rows) == 1:  # one row speaks for the second class: the operator wants one for each
        rows = [(-1.0, linear.rows[0]), *rows]
        intercepts = [-intercepts[0], intercepts[0]]
        if tie == linear.classes[1]:
            intercepts[0] = _just_below(intercepts[0])  # the operator gives ties to the first class
    size_bytes = sum(row.size for _, row in rows) * COEFFICIENT.itemsize
    head, tail = _around(name, linear, intercepts, size_bytes)
    return OnnxFile(len(head) + size_bytes + len(tail), _parts(head, rows, tail))


def _around(name: str, linear: Linear, intercepts: list[float], size_bytes: int) -> tuple[bytes, bytes]:
    """The file up to the coefficients, which take so many bytes, and what comes after them."""
    from onnx import AttributeProto, TensorProto, helper

    labels = _labels(linear.classes)
    kind = TensorProto.STRING if "classlabels_strings" in labels else TensorProto.INT64
    node = helper.make_node(
        "LinearClassifier",
        ["features"],
        ["label", "scores"],
        domain="ai.onnx.ml",
        intercepts=intercepts,
        multi_class=0,
        post_transform="NONE",
        **labels,  # type: ignore[arg-type]
    )
    graph = helper.make_graph(
        [],
        name,
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, [None, linear.rows[0].size])],
        [
            helper.make_tensor_value_info("label", kind, [None]),
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, [None, len(intercepts)]),
        ],
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    made = helper.make_model(graph, producer_name="novikoff", opset_imports=opsets, ir_version=8)
    made.ClearField("graph")
    # Each message ends with the one that it holds, and the innermost with the coefficients; but the node is the
    # beginning of its graph, so that the rest of the graph is all that comes after them.
    head: bytes = AttributeProto(name="coefficients", type=AttributeProto.FLOATS).SerializeToString()
    tail: bytes = graph.SerializeToString()
    head = node.SerializeToString() + _opened(NODE_ATTRIBUTE, len(head) + size_bytes) + head
    head = _opened(GRAPH_NODE, len(head) + size_bytes) + head
    head = made.SerializeToString() + _opened(MODEL_GRAPH, len(head) + size_bytes + len(tail)) + head
    return head, tail


def _opened(field: int, size_bytes: int) -> bytes:
    """The beginning of a message of so many bytes as a field of another one.

    >>> _opened(1, 300).hex()
    '0aac02'
    """
    encoded = bytearray([field << 3 | 2])
    while size_bytes >= 128:
        encoded.append(size_bytes & 127 | 128)
        size_bytes >>= 7
    encoded.append(size_bytes)
    return bytes(encoded)


def _parts(head: bytes, rows: list[tuple[float, Array]], tail: bytes) -> Iterator[bytes]:
    yield head
    for sign, row in rows:
        for start in range(0, row.size, SLICE_NUMBERS):
            numbers = row[start : start + SLICE_NUMBERS]
            encoded = np.empty(len(numbers), COEFFICIENT)
            encoded["tag"] = FLOAT_TAG
            with np.errstate(over="ignore"):  # larger ones become infinite, as the library makes them
                encoded["value"] = sign * numbers
            yield encoded.tobytes()
    yield tail


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
