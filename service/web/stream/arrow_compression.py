"""How large the compressed buffers of an Arrow message become, before any of them is decompressed.

Arrow allocates what a buffer says of itself, and a thousand bytes may say a gigabyte. The numbers are read from the
message's metadata, a flatbuffer whose layout the columnar format fixes: `Message.fbs`.
"""

import struct
from typing import Any

import numpy as np

LENGTH_BYTES = 8
"""Each compressed buffer begins with its length after decompression; -1 if it is stored as it is."""

MESSAGE_HEADER = 2
DICTIONARY_DATA = 1
BATCH_BUFFERS, BATCH_COMPRESSION = 2, 3
"""Places of fields in their tables."""


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
    (offset,) = struct.unpack_from("<I", data, 0)
    return int(offset)


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
    if not at:
        return 0
    (offset,) = struct.unpack_from("<I", data, at)
    return at + int(offset)
