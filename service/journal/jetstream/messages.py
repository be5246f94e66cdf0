"""What the cluster's messages hold."""

from typing import Any, NamedTuple

import msgspec

from service.events import Prediction

TOKEN_BYTES = 12
INLINE, ELSEWHERE = 0, 1

_encode = msgspec.msgpack.Encoder().encode


class Blob(msgspec.Struct, frozen=True, array_like=True):
    """A body too large for one message: where its parts are."""

    life: int
    name: str
    parts: int


class Envelope(NamedTuple):
    """An event as the log has it. The token tells its writer which of its events it is."""

    token: bytes
    body: bytes | Blob


def seal(token: bytes, body: bytes | Blob) -> bytes:
    """
    >>> unseal(seal(b"t" * 12, b"body"))
    Envelope(token=b'tttttttttttt', body=b'body')
    """
    if isinstance(body, Blob):
        return bytes([ELSEWHERE]) + token + _encode(body)
    return bytes([INLINE]) + token + body


def unseal(data: bytes) -> Envelope:
    token, body = data[1 : 1 + TOKEN_BYTES], data[1 + TOKEN_BYTES :]
    if data[0] == ELSEWHERE:
        return Envelope(token, msgspec.msgpack.decode(body, type=Blob))
    return Envelope(token, body)


class KnownId(msgspec.Struct, frozen=True, array_like=True):
    """An id in use: by a prediction or, without one, by a round that was learned at once."""

    life: int
    prediction: Prediction | None
    token: bytes = b""


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """A snapshot that is there; predictions up to the time `voided_through` were void when it was made."""

    seq: int
    version: int
    parts: int
    voided_through: int = 0


class PageKept(msgspec.Struct, frozen=True, array_like=True):
    """Outcomes up to the event `through`; when they were saved, and what the state stream had come to then."""

    through: int
    version: int
    parts: int
    at: int
    state_seq: int


class Pointer(msgspec.Struct, frozen=True, array_like=True):
    """Where a model's snapshots and pages of outcomes are, oldest first, and up to where its log was trimmed.

    Large bodies that were there at `blobs_at`, below `blobs_below`, belong to trimmed events only.
    """

    snapshots: list[Kept] = []
    pages: list[PageKept] = []
    trimmed_through: int = 0
    blobs_below: int = 0
    blobs_at: int = 0


class StoredSummary(msgspec.Struct, frozen=True, array_like=True):
    """A summary, right up to the event `through`; predictions up to the time `voided_through` are void."""

    through: int
    voided_through: int
    updated_at: int
    revealed: int
    mistakes: int
    updates: int
    pending: int
    expired: int


decode_known_id = msgspec.msgpack.Decoder(KnownId).decode
decode_pointer = msgspec.msgpack.Decoder(Pointer).decode
decode_summary = msgspec.msgpack.Decoder(StoredSummary).decode
decode_ids = msgspec.msgpack.Decoder(dict[str, int]).decode


def encode(content: Any) -> bytes:
    return _encode(content)
