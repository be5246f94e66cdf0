"""What the journal's process is sent and what it responds: plain records, the events in them already encoded.

A message is its length in four bytes, then MessagePack.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from service.events import (
    AnyEvent,
    ModelCreated,
    ModelDeleted,
    ModelImported,
    ModelReset,
    ModelRolledBack,
    PredictionsExpired,
    PredictionVoided,
    RoundLearned,
    RoundRevealed,
)
from service.journal.sqlite.ownership import OpenedFile


class EventRecord(msgspec.Struct, array_like=True, tag="event", gc=False):
    """An event of an existing model.

    `reveals`: with it the prediction of this id waits no more. `voids`: with it, predictions become void.
    """

    life: int
    prediction_id: str | None
    reveals: bool
    voids: "Voids | None"
    body: bytes


class Voids(msgspec.Struct, array_like=True):
    """Predictions made up to the time `through` are void; `expired` is how many that are, if they have expired."""

    at: int
    through: int
    expired: int


class BirthRecord(msgspec.Struct, array_like=True, tag="birth"):
    """The first event of a model."""

    model: str
    at: int
    settings: bytes
    body: bytes


class DeathRecord(msgspec.Struct, array_like=True, tag="death"):
    """A model is deleted: all it had goes, and its last event takes a number and is not kept."""

    life: int


class PendingRecord(msgspec.Struct, array_like=True, tag="pending", gc=False):
    """A prediction to keep; `retried` after a commit that failed, when it may have been revealed since."""

    prediction_id: str
    life: int
    at: int
    body: bytes
    retried: bool = False


class SnapshotRecord(msgspec.Struct, array_like=True, tag="snapshot"):
    """A snapshot; `state` is empty if its parts were written before."""

    life: int
    seq: int
    version: int
    state: bytes
    outcomes: bytes
    needed: int | None = None
    replaced: Sequence[tuple[int, int]] = ()


class PartRecord(msgspec.Struct, array_like=True, tag="part"):
    """A part of the state of a large snapshot, whose SnapshotRecord follows when all are written."""

    life: int
    seq: int
    part: int
    body: bytes


class SummariesRecord(msgspec.Struct, array_like=True, tag="summaries"):
    """Rows of life, updated_at, revealed, mistakes, updates, pending, expired, ewma_error_rate."""

    rows: list[tuple[int, int, int, int, int, int, int, float | None]]
    through: int | None


class ForgetRecord(msgspec.Struct, array_like=True, tag="forget"):
    """Void predictions made up to the time `through` need not be known any more."""

    through: int


class EraseRecord(msgspec.Struct, array_like=True, tag="erase"):
    """Rows to be replaced and removed; see `Erasure`. The bodies of pages are sealed already."""

    life: int
    events: list[tuple[int, str | None, bytes]]
    """Number, prediction id and body."""
    pages: list[tuple[int, int, bytes]]
    snapshots: tuple[int, int]
    predictions: list[str]
    is_whole: bool
    waiting: list[tuple[str, bytes]] = []
    """Ids and bodies of predictions that wait."""


class ProbeRecord(msgspec.Struct, array_like=True, tag="probe"):
    """Takes a number and leaves nothing else: written to see whether the journal can be written again."""


Record = (
    EventRecord
    | BirthRecord
    | DeathRecord
    | PendingRecord
    | SnapshotRecord
    | PartRecord
    | SummariesRecord
    | ForgetRecord
    | EraseRecord
    | ProbeRecord
)


class Group(msgspec.Struct, array_like=True):
    """What is committed together, and how many failures were known of when the first of it was submitted.

    One that was submitted before a failure was known is not written: what is in it may build on what was lost.
    """

    failures_known: int
    records: list[Record]


NEW, REPEATED, MODEL_UNKNOWN = range(3)
"""What became of a record."""


class Written(msgspec.Struct, array_like=True):
    """What became of each record of a group and, for events, where it stands; or why it failed.

    `is_final`: the journal is not what this service takes it for, and only a fresh start can tell what it is.
    `is_in_doubt`: the group failed and is not seen now, but after a crash it may be there.
    `log_failure`: why the log cannot be folded into the file, if it cannot, as far as is known.
    """

    results: list[tuple[int, int]]
    seconds: float
    failure: str | None = None
    is_final: bool = False
    is_in_doubt: bool = False
    log_failure: str | None = None


class Opening(msgspec.Struct, array_like=True):
    """The first message: what to write to and how. `files` have to stay at their paths, or nothing is written."""

    path: str
    durability: str
    events_kept_max: int
    expired_remembered_max: int
    files: list[OpenedFile]
    history_bytes_max: int = 0


# As `codec` encodes events. That module is not imported here because the writing process has no use for its numpy.
_encoder = msgspec.msgpack.Encoder()
decode_group = msgspec.msgpack.Decoder(Group).decode
decode_written = msgspec.msgpack.Decoder(Written).decode
decode_opening = msgspec.msgpack.Decoder(Opening).decode


def message(content: Any) -> bytearray:
    """What one process sends the other: the length of the rest, and the rest."""
    whole = bytearray(4)
    _encoder.encode_into(content, whole, 4)
    whole[:4] = (len(whole) - 4).to_bytes(4, "big")
    return whole


def record_of(event: AnyEvent, life: int) -> Record:
    """An event of a model with this life, with all that the writing process has to know of it."""
    body = _encoder.encode(event)
    match event:  # the most frequent first
        case RoundRevealed():
            return EventRecord(life, event.prediction_id, True, None, body)
        case RoundLearned():
            return EventRecord(life, event.prediction_id, False, None, body)
        case PredictionVoided():
            return EventRecord(life, event.prediction_id or None, True, None, body)
        case ModelCreated() | ModelImported():
            return BirthRecord(event.model, event.at, _encoder.encode(event.settings), body)
        case ModelDeleted():
            return DeathRecord(life)
        case PredictionsExpired():
            return EventRecord(life, None, False, Voids(event.at, event.through, event.count), body)
        case ModelReset() | ModelRolledBack():
            return EventRecord(life, None, False, Voids(event.at, event.at, 0), body)
    # Of what was forgotten the id is empty.
    return EventRecord(life, getattr(event, "prediction_id", None) or None, False, None, body)
