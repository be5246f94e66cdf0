"""Events, predictions and states as bytes: MessagePack, with arrays as plain memory. Never pickle."""

from typing import Any

import msgspec
import numpy as np

from service.events import AnyEvent, Prediction

STATE_VERSION = 1
"""The first byte of every state; a reader that does not know it refuses."""

_ARRAY = 1  # the MessagePack extension type of an array

_encoder = msgspec.msgpack.Encoder()
_event_decoder = msgspec.msgpack.Decoder(AnyEvent)
_prediction_decoder = msgspec.msgpack.Decoder(Prediction)

encode = _encoder.encode
decode_event = _event_decoder.decode
decode_prediction = _prediction_decoder.decode


def encode_state(state: dict[str, Any]) -> bytes:
    """A state as bytes; equal states give equal bytes.

    >>> decode_state(encode_state({"w": np.array([1.0, 2.0]), "n": 3}))
    {'w': array([1., 2.]), 'n': 3}
    """
    return bytes([STATE_VERSION]) + _state_encoder.encode(state)


def decode_state(data: bytes) -> dict[str, Any]:
    if data[:1] != bytes([STATE_VERSION]):
        raise ValueError(f"state version {data[:1].hex() or 'missing'} is not known here")
    state: dict[str, Any] = _state_decoder.decode(data[1:])
    return state


def _encode_array(value: Any) -> msgspec.msgpack.Ext:
    if not isinstance(value, np.ndarray):
        raise TypeError(f"a state cannot hold a {type(value).__name__}")
    kind = "<f8" if value.dtype.kind == "f" else "<i8"
    return msgspec.msgpack.Ext(
        _ARRAY, _encoder.encode((kind, value.shape, value.astype(kind, copy=False).tobytes()))
    )


def _decode_array(code: int, data: memoryview) -> Any:
    if code != _ARRAY:
        raise ValueError(f"unknown extension {code}")
    kind, shape, memory = msgspec.msgpack.decode(data, type=tuple[str, tuple[int, ...], bytes])
    return np.frombuffer(memory, dtype=kind).reshape(shape).copy()


_state_encoder = msgspec.msgpack.Encoder(enc_hook=_encode_array)
_state_decoder = msgspec.msgpack.Decoder(ext_hook=_decode_array)
