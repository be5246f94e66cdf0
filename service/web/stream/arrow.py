"""Arrow streams: whole rounds as columns, for replays at the speed of memory."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from service.engine.models.labels import LABEL_CHARS_MAX
from service.errors import InvalidRequest
from service.events import Label
from service.learning.vectors import Array
from service.runtime.cooperative import Turns
from service.web.problems import HttpError
from service.web.routes.rounds import check_label
from service.web.stream.arrow_compression import check_schema, inflated_bytes

ARROW = b"application/vnd.apache.arrow.stream"
ROWS_MAX = 2_048  # two batches of probabilities
BLOCK_BYTES_MAX = 1_048_576
"""Rounds in one event, and bytes of their features unless a single round has more."""

COLUMNS_HERE_MAX = 64
"""Batches of more columns are read in a thread: each column takes some microseconds."""

NUMBER_TYPES = ("double", "float", "halffloat", "int", "uint")
LABEL_TYPES = (*NUMBER_TYPES, "bool", "string", "large_string")

Block = tuple[Array, list[Label]]


async def batches(
    body: bytes, label_column: str, *, bytes_max: int, features_max: int
) -> AsyncIterator[Block]:
    """The rounds of a stream, as many at a time as go into one event.

    Features are one column of fixed-size lists called `features`, or else all columns but the label's. Compressed
    batches count against `bytes_max` by what they become.
    """
    try:
        pa = await asyncio.to_thread(import_module, "pyarrow")  # the first time it takes half a second
    except ImportError:
        raise HttpError(
            "unsupported-media-type", "Arrow needs the extra `arrow`: pip install pyarrow"
        ) from None
    turns = Turns()
    try:
        messages = pa.ipc.MessageReader.open_stream(pa.py_buffer(body))

        def opened() -> tuple[Any, Columns]:
            if (schema := next(iter(messages), None)) is not None:
                check_schema(schema, features_max + 1)
            stream = pa.ipc.open_stream(pa.py_buffer(body))
            return stream, _columns(stream.schema, label_column)

        stream, columns = await asyncio.to_thread(opened)
        with stream:
            inflated = 0
            while True:
                more = _inflated_by_next(messages)
                inflated += more
                if inflated > bytes_max:
                    raise HttpError("body-too-large", f"the body exceeds {bytes_max} bytes")
                in_thread = bool(more) or len(columns.names) > COLUMNS_HERE_MAX
                batch = await _call(in_thread, _next_batch, stream)
                if batch is None:
                    return
                batch = batch.select(columns.names)
                batch.validate()
                for start in range(0, batch.num_rows, columns.rows_at_once):
                    part = batch.slice(start, columns.rows_at_once)
                    yield await _call(len(columns.names) > COLUMNS_HERE_MAX, _rounds, part, columns)
                await turns.give()  # batches may be empty
    except (pa.ArrowException, OSError, ValueError) as error:  # cut off, overlong, names that are not UTF-8
        raise HttpError("malformed-json", f"not an Arrow stream: {str(error)[:100]}") from None


async def _call(in_thread: bool, function: Callable[..., Any], *args: Any) -> Any:
    return await asyncio.to_thread(function, *args) if in_thread else function(*args)


def _next_batch(stream: Any) -> Any:
    return next(stream, None)


def _inflated_by_next(messages: Any) -> int:
    """What the messages take, once decompressed, that are read with the next batch."""
    inflated = 0
    for message in messages:
        inflated += inflated_bytes(message)
        if message.type == "record batch":
            break
    return inflated


class Columns(NamedTuple):
    """Which columns of a batch have the label and the features."""

    label: str
    features: list[str]
    list_size: int | None
    """If the features are one column of lists."""

    @property
    def names(self) -> list[str]:
        return [self.label, *self.features]

    @property
    def rows_at_once(self) -> int:
        row_bytes = 8 * (self.list_size or len(self.features))
        return min(ROWS_MAX, max(1, BLOCK_BYTES_MAX // row_bytes))


def _columns(schema: Any, label: str) -> Columns:
    """InvalidRequest if a column is missing, there twice, or of a type that is not taken."""
    names = schema.names
    if label not in names:
        raise InvalidRequest.at("label", f"there is no column {label!r}")
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise InvalidRequest.at(twice[:200], "names more than one column")
    if not str(schema.field(label).type).startswith(LABEL_TYPES):
        raise _bad_labels()
    if "features" in names:
        kind = schema.field("features").type
        if not str(kind).startswith("fixed_size_list") or not kind.list_size:
            raise InvalidRequest.at("features", "must be a column of fixed-size lists of floats")
        if not str(kind.value_type).startswith(NUMBER_TYPES):
            raise _bad_numbers("features")
        return Columns(label, ["features"], kind.list_size)
    others = [name for name in names if name != label]
    if not others:
        raise InvalidRequest.at("features", "there are no feature columns")
    for name in others:
        if not str(schema.field(name).type).startswith(NUMBER_TYPES):
            raise _bad_numbers(name)
    return Columns(label, others, None)


def _rounds(batch: Any, columns: Columns) -> Block:
    batch.validate(full=True)  # or offsets could point anywhere in memory
    labels = _labels(batch.column(columns.label))
    if columns.list_size is not None:
        flat = _floats(batch.column("features").flatten(), "features")
        return flat.reshape(batch.num_rows, columns.list_size), labels
    values = [_floats(batch.column(name), name) for name in columns.features]
    return np.ascontiguousarray(np.stack(values, axis=1)), labels


def _floats(column: Any, name: str) -> Array:
    if column.null_count:
        raise _bad_numbers(name)
    values: Array = column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    if not (np.isfinite(np.vdot(values, values)) or np.isfinite(values).all()):  # the first is faster
        raise InvalidRequest.at(name, "must be finite numbers")
    return values


def _labels(column: Any) -> list[Label]:
    """Each distinct label is checked once."""
    if column.null_count:
        raise _bad_labels()
    if column.nbytes > len(column) * (4 * LABEL_CHARS_MAX + 8) + 8:  # four bytes a character, and the offsets
        raise InvalidRequest.at("label", f"must have at most {LABEL_CHARS_MAX} characters")
    encoded = column.dictionary_encode()
    checked = [check_label(value) for value in encoded.dictionary.to_pylist()]
    return [checked[place] for place in encoded.indices.to_numpy().tolist()]


def _bad_labels() -> InvalidRequest:
    return InvalidRequest.at("label", "must be strings, integers or booleans without nulls")


def _bad_numbers(name: str) -> InvalidRequest:
    return InvalidRequest.at(name, "must be a column of numbers without nulls")
