"""Arrow streams: whole rounds as columns, for replays at the speed of memory."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from service.errors import InvalidRequest
from service.events import Label
from service.learning.vectors import Array
from service.web.problems import HttpError
from service.web.routes.rounds import check_label

ARROW = b"application/vnd.apache.arrow.stream"
ROWS_MAX = 2_000
"""Rounds in one event."""

NUMBER_TYPES = ("double", "float", "halffloat", "int", "uint")
LABEL_TYPES = (*NUMBER_TYPES, "bool", "string", "large_string")


def batches(body: bytes, label_column: str) -> Iterator[tuple[Array, list[Label]]]:
    """The rounds of a stream, as many at a time as go into one event.

    Features are one column of fixed-size lists called `features`, or else all columns but the label's.
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise HttpError(
            "unsupported-media-type", "Arrow needs the extra `arrow`: pip install 'novikoff[arrow]'"
        ) from None
    try:
        with pa.ipc.open_stream(pa.py_buffer(body)) as stream:
            for batch in stream:
                batch.validate(full=True)  # or offsets could point anywhere in memory
                for start in range(0, batch.num_rows, ROWS_MAX):
                    yield _rounds(batch.slice(start, ROWS_MAX), label_column)
    except (pa.ArrowException, OSError, ValueError) as error:  # cut off, overlong, names that are not UTF-8
        raise HttpError("malformed-json", f"this is not an Arrow stream: {str(error)[:100]}") from None


def _rounds(batch: Any, label_column: str) -> tuple[Array, list[Label]]:
    names = batch.schema.names
    if label_column not in names:
        raise InvalidRequest.at("label", f"there is no column {label_column!r}")
    labels = _labels(batch.column(label_column))
    if "features" in names:
        column = batch.column("features")
        if not str(column.type).startswith("fixed_size_list") or not column.type.list_size:
            raise InvalidRequest.at("features", "must be a column of fixed-size lists of floats")
        flat = _floats(column.flatten(), "features")
        return flat.reshape(batch.num_rows, column.type.list_size), labels
    columns = [_floats(batch.column(name), name) for name in names if name != label_column]
    if not columns:
        raise InvalidRequest.at("features", "there are no columns but the label's")
    return np.ascontiguousarray(np.stack(columns, axis=1)), labels


def _floats(column: Any, name: str) -> Array:
    if column.null_count or not str(column.type).startswith(NUMBER_TYPES):
        raise InvalidRequest.at(name, "must be a column of numbers without nulls")
    values: Array = column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    if not (np.isfinite(np.vdot(values, values)) or np.isfinite(values).all()):  # the first is faster
        raise InvalidRequest.at(name, "must be finite numbers")
    return values


def _labels(column: Any) -> list[Label]:
    """Each distinct label is checked once."""
    if column.null_count or not str(column.type).startswith(LABEL_TYPES):
        raise InvalidRequest.at("label", "must be strings, integers or booleans without nulls")
    encoded = column.dictionary_encode()
    checked = [check_label(value) for value in encoded.dictionary.to_pylist()]
    return [checked[place] for place in encoded.indices.to_numpy().tolist()]
