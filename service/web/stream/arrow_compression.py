"""How large Arrow messages become, before Arrow reads them.

Arrow allocates what a compressed buffer says of itself, and a thousand bytes may say a gigabyte. All columns of a
schema may refer to one long text, of which Arrow makes as many copies. The numbers are read from the message's
metadata, a flatbuffer whose layout the columnar format fixes: `Message.fbs` and `Schema.fbs`.
"""

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from service.errors import InvalidRequest

LENGTH_BYTES = 8
"""Each compressed buffer begins with its length after decompression; -1 if it is stored as it is."""

MESSAGE_HEADER = 2
DICTIONARY_DATA = 1
BATCH_BUFFERS, BATCH_COMPRESSION = 2, 3
SCHEMA_COLUMNS, SCHEMA_METADATA = 1, 2
COLUMN_NAME, COLUMN_KIND, COLUMN_TYPE, COLUMN_CHILDREN, COLUMN_METADATA = 0, 2, 3, 5, 6
PAIR_KEY, PAIR_VALUE = 0, 1
TYPE_TEXT = 1
"""Places of fields in their tables."""

TIMESTAMP, UNION = 10, 14
"""The types that have a text or a list of numbers of their own."""

TABLES_PER_COLUMN = 4
"""A column of lists has another one in it, and some have metadata."""


def check_schema(message: Any, columns_max: int) -> None:
    """InvalidRequest for too many columns; ValueError for a schema that becomes larger than it came, or is damaged."""
    data = memoryview(message.metadata)
    left, tables_left = len(data), TABLES_PER_COLUMN * columns_max
    try:
        schema = _table(data, _root(data), MESSAGE_HEADER)
        columns = _table(data, schema, SCHEMA_COLUMNS)
        if columns and _number(data, columns) > columns_max:
            raise InvalidRequest.at(
                "features", f"at most {columns_max} columns are allowed, including the label"
            )
        for size in _texts(data, schema):
            left, tables_left = left - size, tables_left - 1
            if left < 0 or tables_left < 0:
                raise ValueError("its schema is too large")
    except (struct.error, IndexError):
        raise ValueError("its metadata is damaged") from None


def _texts(data: memoryview, schema: int) -> Iterator[int]:
    """How many bytes of text each table of a schema refers to: columns, those within them, and their metadata."""
    waiting = [(schema, SCHEMA_COLUMNS, SCHEMA_METADATA)]
    while waiting:
        table, children, metadata = waiting.pop()
        for pair in _tables(data, table, metadata):
            yield _length(data, pair, PAIR_KEY) + _length(data, pair, PAIR_VALUE)
        for column in _tables(data, table, children):
            size = _length(data, column, COLUMN_NAME)
            kind = _field(data, column, COLUMN_KIND)
            if kind and data[kind] in (TIMESTAMP, UNION):
                size += _length(data, _table(data, column, COLUMN_TYPE), TYPE_TEXT)
            yield size
            waiting.append((column, COLUMN_CHILDREN, COLUMN_METADATA))


def inflated_bytes(message: Any) -> int:
    """What decompressing a message takes; 0 if it is not compressed, ValueError if it is damaged."""
    if message.type not in ("record batch", "dictionary"):
        return 0
    data = memoryview(message.metadata)
    try:
        batch = _table(data, _root(data), MESSAGE_HEADER)
        if batch and message.type == "dictionary":
            batch = _table(data, batch, DICTIONARY_DATA)
        if not batch or not _field(data, batch, BATCH_COMPRESSION):
            return 0
        buffers = _table(data, batch, BATCH_BUFFERS)
        (count,) = struct.unpack_from("<I", data, buffers)
        places = np.frombuffer(data, "<i8", 2 * count, buffers + 4).reshape(count, 2)
    except struct.error:
        raise ValueError("its metadata is damaged") from None
    return _sum_of_lengths(np.frombuffer(message.body, np.uint8), places[places[:, 1] >= LENGTH_BYTES])


def _sum_of_lengths(body: Any, places: Any) -> int:
    """Of buffers at these places, each an offset and a length."""
    offsets, lengths = places[:, 0], places[:, 1]
    if np.any(offsets < 0) or np.any(offsets > body.size - LENGTH_BYTES):
        raise ValueError("a buffer is outside of its message")
    first = body[offsets[:, None] + np.arange(LENGTH_BYTES)]
    told = np.ascontiguousarray(first).view("<i8").ravel()
    return sum(np.where(told < 0, lengths, told).tolist())  # of Python's integers, which do not overflow


def _root(data: memoryview) -> int:
    return _number(data, 0)


def _number(data: memoryview, at: int) -> int:
    """An offset, or the length of a text or a vector."""
    return int(struct.unpack_from("<I", data, at)[0])


def _length(data: memoryview, table: int, number: int) -> int:
    """Of the text or vector that a field refers to; 0 if it is absent."""
    at = _table(data, table, number)
    return _number(data, at) if at else 0


def _tables(data: memoryview, table: int, number: int) -> Iterator[int]:
    """Where the tables are that a field of a table lists."""
    vector = _table(data, table, number)
    for at in range(vector + 4, vector + 4 + 4 * _number(data, vector), 4) if vector else ():
        yield at + _number(data, at)


def _field(data: memoryview, table: int, number: int) -> int:
    """Where a field of a table is; 0 if it is absent."""
    (back,) = struct.unpack_from("<i", data, table)
    vtable = table - back
    (size,) = struct.unpack_from("<H", data, vtable)
    place = 4 + 2 * number
    if place >= size:
        return 0
    (offset,) = struct.unpack_from("<H", data, vtable + place)
    return table + int(offset) if offset else 0


def _table(data: memoryview, table: int, number: int) -> int:
    """Where the table or vector that a field refers to is; 0 if it is absent."""
    at = _field(data, table, number)
    return at + _number(data, at) if at else 0
