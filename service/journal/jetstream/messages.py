"""What the cluster's messages hold."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgspec

from service.errors import JournalUnavailable
from service.events import AnyEvent, Prediction
from service.journal import codec

T = TypeVar("T")

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


def wrap(token: bytes, body: bytes | Blob) -> bytes:
    """
    >>> unwrap(wrap(b"t" * 12, b"body"))
    Envelope(token=b'tttttttttttt', body=b'body')
    """
    if isinstance(body, Blob):
        return bytes([ELSEWHERE]) + token + _encode(body)
    return bytes([INLINE]) + token + body


def unwrap(data: bytes) -> Envelope:
    token, body = data[1 : 1 + TOKEN_BYTES], data[1 + TOKEN_BYTES :]
    if data[0] == ELSEWHERE:
        return Envelope(token, _decode_blob(body))
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


class Unreadable(JournalUnavailable):
    """The cluster has something that this version cannot read, and trying again will not help."""


def _readable(decode: Callable[[bytes], T], what: str) -> Callable[[bytes], T]:
    """The same decoder, whose failures are errors of the journal."""

    def decode_or_tell(data: bytes) -> T:
        try:
            return decode(data)
        except msgspec.DecodeError as error:
            raise Unreadable(
                f"the cluster has {what} that this version cannot read: a newer one has written it, or it is damaged"
            ) from error

    return decode_or_tell


decode_event: Callable[[bytes], AnyEvent] = _readable(codec.decode_event, "an event")
decode_known_id = _readable(msgspec.msgpack.Decoder(KnownId).decode, "an id")
decode_pointer = _readable(msgspec.msgpack.Decoder(Pointer).decode, "a list of snapshots")
decode_summary = _readable(msgspec.msgpack.Decoder(StoredSummary).decode, "a summary")
decode_ids = _readable(msgspec.msgpack.Decoder(dict[str, int]).decode, "a list of predictions")
_decode_blob = _readable(msgspec.msgpack.Decoder(Blob).decode, "an event")


def encode(content: Any) -> bytes:
    return _encode(content)
