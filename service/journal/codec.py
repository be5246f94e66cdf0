"""Events, predictions and states as bytes: MessagePack, with arrays as plain memory. Never pickle."""

from typing import Any

import msgspec
import numpy as np

from service.events import AnyEvent, Prediction

STATE_VERSION = 6
"""The first byte of every state. Raise it with every change of what a state holds or means, and add the step from
the version before to `service/engine/models/state_steps.py`."""

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
    return bytes([version]) + _state_encoder.encode(state)


def decode_state(data: StateBytes) -> tuple[int, dict[str, Any]]:
    """The version of a state, this one or an older one, and its content as that version wrote it."""
    version = data[0] if data else 0
    if version > STATE_VERSION:
        raise NewerState(f"it has state version {version}, and this program knows {STATE_VERSION}")
    if version < 1:
        raise ValueError("it is no state")
    state: dict[str, Any] = _state_decoder.decode(memoryview(data)[1:])  # no copy: it may be large
    return version, state


def array_kind(array: np.ndarray[Any, Any]) -> str:
    """The type of an array's numbers as states have it."""
    return "<f8" if array.dtype.kind == "f" else "<i8"


def _encode_array(value: Any) -> msgspec.msgpack.Ext:
    if not isinstance(value, np.ndarray):
        raise TypeError(f"a state cannot hold a {type(value).__name__}")
    kind = array_kind(value)
    return msgspec.msgpack.Ext(
        ARRAY, _encoder.encode((kind, value.shape, value.astype(kind, copy=False).tobytes()))
    )


def _decode_array(code: int, data: memoryview) -> Any:
    if code != ARRAY:
        raise ValueError(f"unknown extension {code}")
    kind, shape, memory = msgspec.msgpack.decode(data, type=tuple[str, tuple[int, ...], memoryview])
    return np.frombuffer(memory, dtype=kind).reshape(shape).copy()


_state_encoder = msgspec.msgpack.Encoder(enc_hook=_encode_array)
encode_part = _state_encoder.encode
_state_decoder = msgspec.msgpack.Decoder(ext_hook=_decode_array)
