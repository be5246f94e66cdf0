"""The contents of the cluster's messages, encoded and decoded.

All are arrays in MessagePack: the order of the fields is the format, their names are not.
"""

import itertools
import os
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from service.errors import JournalUnavailable
from service.events import AnyEvent, Prediction
from service.journal import codec
from service.journal.jetstream.link.api import Message
from service.journal.jetstream.streams import Streams

T = TypeVar("T")

TOKEN_BYTES = 12
INLINE, IN_BLOB = 0, 1
LINKED = 2
"""Added to one of these if the message has a link."""

DIGEST_BYTES = 8
LINK_BYTES = 8 + DIGEST_BYTES

COUNT_BYTES = 6

_encode = msgspec.msgpack.Encoder().encode


class Blob(msgspec.Struct, frozen=True, array_like=True):
    """Where the parts of a body are that is too large for one message."""

    life: int
    """Of its model; 0 if the body is that of the event that makes the model."""
    name: str
    parts: int
    """How many there are."""


class Link(NamedTuple):
    """A place in the history of a model: an event, and a digest of all its events up to there; see `chains.py`."""

    seq: int
    digest: bytes


UNKNOWN = Link(0, bytes(DIGEST_BYTES))


class Envelope(NamedTuple):
    """A message of the log."""

    token: bytes
    """Unique, so that the replica that has appended the event recognises it."""
    body: bytes | Blob
    link: Link = UNKNOWN
    """The last event of its model that the replica had applied by then."""


def wrap(token: bytes, body: bytes | Blob, link: Link = UNKNOWN) -> bytes:
    """
    >>> unwrap(wrap(b"t" * 12, b"body", Link(7, b"12345678")))
    Envelope(token=b'tttttttttttt', body=b'body', link=Link(seq=7, digest=b'12345678'))
    """
    head = token + link.seq.to_bytes(8, "big") + link.digest
    if isinstance(body, Blob):
        return bytes([LINKED + IN_BLOB]) + head + _encode(body)
    return bytes([LINKED + INLINE]) + head + body


def unwrap(data: bytes) -> Envelope:
    """Messages of the time before links are read, too."""
    at, link = 1 + TOKEN_BYTES, UNKNOWN
    token = data[1:at]
    if data[0] & LINKED:
        link = Link(int.from_bytes(data[at : at + 8], "big"), data[at + 8 : at + LINK_BYTES])
        at += LINK_BYTES
    body = data[at:]
    return Envelope(token, _decode_blob(body) if data[0] & IN_BLOB else body, link)


class KnownId(msgspec.Struct, frozen=True, array_like=True):
    """The record of a prediction id that is in use."""

    life: int
    prediction: Prediction | None
    """None for a round that was learned at once."""
    token: bytes = b""
    """Random, so that a replica recognises its own record when the answer to its first attempt was lost."""


class KeptSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """A snapshot that is stored; see `Snapshot` for `seq` and `version`."""

    seq: int
    version: int
    parts: int
    """How many messages it takes."""
    voided_through: int = 0
    """Predictions made up to this time could not be revealed any more when it was saved."""
    digest: bytes | None = None
    """That of the model's events up to `seq`; None if an older version has saved it."""


class KeptPage(msgspec.Struct, frozen=True, array_like=True):
    """A page of outcomes that is stored: those of the rounds since the snapshot before."""

    through: int
    """The last event that it covers."""
    version: int
    """The model's version at that event."""
    parts: int
    """How many messages it takes."""
    at: int
    """When it was saved."""
    state_seq: int
    """The last sequence number of the state stream at that time."""
    edition: str = ""
    """Other than empty if it was written anew without what was forgotten; see `Subjects.edition`."""


class KeptErased(msgspec.Struct, frozen=True, array_like=True):
    """A stored list of what stands in the places of events that were forgotten; see `forgetting.py`."""

    edition: str
    first: int
    """The first of these events."""
    last: int
    parts: int
    """How many messages it takes."""
    until: int = 0
    """Not used; older versions have written it."""


class Pointer(msgspec.Struct, frozen=True, array_like=True):
    """Where a model's snapshots and pages of outcomes are, and up to where its log was trimmed."""

    snapshots: list[KeptSnapshot] = []
    """Oldest first."""
    pages: list[KeptPage] = []
    """Oldest first."""
    trimmed_through: int = 0
    """Events up to this one may be gone."""
    blobs_below: int = 0
    """Blobs below this sequence number of the state stream belong to trimmed events only."""
    blobs_at: int = 0
    """When `blobs_below` was set."""
    erased: KeptErased | None = None
    """What stands in the places of events that were forgotten; None if none were."""
    has_tags: bool = False
    """Whether rounds of the model had tags, so that its snapshots may know of something that is forgotten later."""


class StoredSummary(msgspec.Struct, frozen=True, array_like=True):
    """A `Summary` as the state stream has it."""

    through: int
    """The last event that it covers."""
    voided_through: int
    """Predictions made up to this time cannot be revealed any more."""
    updated_at: int
    revealed: int
    mistakes: int
    updates: int
    pending: int
    expired: int
    ewma_error_rate: float | None = None
    link: Link = UNKNOWN
    """The newest event of the model that was known for sure, and the digest of its events up to there."""


class Unreadable(JournalUnavailable):
    """A message of the cluster that this version cannot decode; trying again does not help."""


def _readable(decode: Callable[[bytes], T], what: str) -> Callable[[bytes], T]:
    """The same decoder, but raising Unreadable."""

    def decode_or_tell(data: bytes) -> T:
        try:
            return decode(data)
        except msgspec.DecodeError as error:
            raise Unreadable(
                f"the cluster has {what} that this version cannot read: written by a newer version, or damaged"
            ) from error

    return decode_or_tell


decode_event: Callable[[bytes], AnyEvent] = _readable(codec.decode_event, "an event")
decode_known_id = _readable(msgspec.msgpack.Decoder(KnownId).decode, "an id")
decode_pointer = _readable(msgspec.msgpack.Decoder(Pointer).decode, "a list of snapshots")
decode_erased = _readable(msgspec.msgpack.Decoder(dict[int, bytes]).decode, "a list of what was forgotten")
decode_summary = _readable(msgspec.msgpack.Decoder(StoredSummary).decode, "a summary")
decode_ids = _readable(msgspec.msgpack.Decoder(dict[str, int]).decode, "a list of predictions")
_decode_blob = _readable(msgspec.msgpack.Decoder(Blob).decode, "an event")


def encode(content: Any) -> bytes:
    return _encode(content)


class Opened(NamedTuple):
    """A message of the log, decoded."""

    token: bytes
    """By which the replica that appended the event recognises it."""
    event: AnyEvent
    blob: Blob | None
    """Where its body was, if not in the message."""
    link: Link
    """What the replica that appended it had applied of its model."""


class Bodies:
    """Bodies of events: in their message of the log or, if they are too large for it, as a blob in the state stream."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._subjects = streams.subjects
        self._writer = os.urandom(TOKEN_BYTES - COUNT_BYTES)
        self._numbers = itertools.count()

    def new_token(self) -> bytes:
        return self._writer + next(self._numbers).to_bytes(COUNT_BYTES, "big")

    def fits(self, body: bytes) -> bool:
        return len(body) <= self._streams.publisher.payload_bytes_max

    async def store_blob(self, life: int, body: bytes) -> Blob:
        name = os.urandom(12).hex()
        parts, _ = await self._streams.store(partial(self._subjects.blob, life, name), body)
        return Blob(life, name, parts)

    async def open(self, message: Message) -> Opened | None:
        """The event of a message; None if its blob was purged with its model."""
        token, body, link = unwrap(message.data)
        if isinstance(body, bytes):
            return Opened(token, decode_event(body), None, link)
        found = await self._streams.load(partial(self._subjects.blob, body.life, body.name), body.parts)
        return Opened(token, decode_event(found), body, link) if found is not None else None
