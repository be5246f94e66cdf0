"""Events, predictions and states as bytes: MessagePack, with arrays as plain memory. Never pickle."""

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from service.events import AnyEvent, Prediction

STATE_VERSION = 6
"""The first byte of every state. Raise it with every change of what a state holds or means, and add the step from
the version before to `service/engine/models/state_migrations.py`."""

LARGE_BYTES = 65_536
"""The size of an array from which on MessagePack has its length in four bytes."""

ARRAY = 1
"""The MessagePack extension type of an array."""

StateBytes = bytes | memoryview
"""A large state is not copied just to be `bytes`."""

_encoder = msgspec.msgpack.Encoder()
_event_decoder = msgspec.msgpack.Decoder(AnyEvent)
_prediction_decoder = msgspec.msgpack.Decoder(Prediction)

encode = _encoder.encode
decode_event = _event_decoder.decode
decode_prediction = _prediction_decoder.decode


class NewerState(ValueError):
    """A newer program has written the state."""


def encode_state(state: dict[str, Any], version: int = STATE_VERSION) -> bytes:
    """A state as bytes; equal states of the same version give equal bytes.

    >>> decode_state(encode_state({"w": np.array([1.0, 2.0]), "n": 3}))
    (6, {'w': array([1., 2.]), 'n': 3})
    """
    return bytes(encoded_state(state, version))


def encoded_state(state: dict[str, Any], version: int = STATE_VERSION) -> memoryview:
    """The same without a last copy, which takes memory and time where it is large."""
    encoded = bytearray([version])
    _state_encoder.encode_into(state, encoded, 1)
    return memoryview(encoded)


def state_parts(state: dict[str, Any], version: int = STATE_VERSION) -> Iterator[bytes]:
    """The same in parts, one for each value: for a reader that does not need a large state in one piece.

    >>> state = {"w": [np.array([1.0, 2.0]), None], "n": {"a": 3, "b": []}}
    >>> b"".join(state_parts(state)) == encode_state(state)
    True
    """
    yield bytes([version])
    yield from _parts(state)


def _parts(value: Any) -> Iterator[bytes]:
    if isinstance(value, dict):
        yield _head(encode(dict.fromkeys(range(len(value)))), len(value))
        for key, part in value.items():
            yield encode(key)
            yield from _parts(part)
    elif isinstance(value, list) and any(isinstance(part, dict | list | np.ndarray) for part in value):
        yield _head(encode([None] * len(value)), len(value))
        for part in value:
            yield from _parts(part)
    else:
        yield encode_part(value)


def _head(encoded: bytes, count: int) -> bytes:
    """The beginning of an encoded map or list of so many entries: one byte, or three or five where they are many."""
    return encoded[: 1 if count < 16 else 3 if count < 65_536 else 5]


def decode_state(data: StateBytes) -> tuple[int, dict[str, Any]]:
    """The version of a state, this one or an older one, and its content as that version wrote it."""
    version = data[0] if data else 0
    if version > STATE_VERSION:
        raise NewerState(f"it has state version {version}, and this program supports {STATE_VERSION}")
    if version < 1:
        raise ValueError("it is no state")
    state: dict[str, Any] = _state_decoder.decode(memoryview(data)[1:])  # no copy: it may be large
    return version, state


def cut(whole: StateBytes, size: int, end: bytes = b"") -> Iterator[bytes]:
    """Bytes in pieces of this size, the last one smaller, with `end` behind it; of nothing, one piece.

    >>> list(cut(b"abcd", 2, b"e")), list(cut(b"", 2))
    ([b'ab', b'cde'], [b''])
    """
    last = max(0, len(whole) - 1) // size * size
    for start in range(0, last, size):
        yield bytes(whole[start : start + size])
    yield bytes(whole[last:]) + end


def _encode_array(value: Any) -> msgspec.msgpack.Ext:
    if not isinstance(value, np.ndarray):
        raise TypeError(f"a state cannot hold a {type(value).__name__}")
    kind = "<f8" if value.dtype.kind == "f" else "<i8"
    array = value.astype(kind, copy=False)
    if array.nbytes < LARGE_BYTES:
        return msgspec.msgpack.Ext(ARRAY, encode((kind, value.shape, array.tobytes())))
    # The same bytes, copied by numpy: unlike the encoder, it lets other threads run meanwhile.
    memory = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    head = b"\x93" + encode(kind) + encode(value.shape) + b"\xc6" + len(memory).to_bytes(4, "big")
    content = np.empty(len(head) + len(memory), np.uint8)
    content[: len(head)] = np.frombuffer(head, np.uint8)
    content[len(head) :] = memory
    return msgspec.msgpack.Ext(ARRAY, content.data)


def _decode_array(code: int, data: memoryview) -> Any:
    if code != ARRAY:
        raise ValueError(f"unknown extension {code}")
    kind, shape, memory = msgspec.msgpack.decode(data, type=tuple[str, tuple[int, ...], memoryview])
    return np.frombuffer(memory, dtype=kind).reshape(shape).copy()


_state_encoder = msgspec.msgpack.Encoder(enc_hook=_encode_array)
encode_part = _state_encoder.encode
_state_decoder = msgspec.msgpack.Decoder(ext_hook=_decode_array)
