"""From events to the records that the writing process takes."""

from service.events import (
    AnyEvent,
    ModelCreated,
    ModelDeleted,
    ModelImported,
    ModelReset,
    PredictionsExpired,
    RoundLearned,
    RoundRevealed,
)
from service.journal.codec import encode
from service.journal.sqlite.records import BirthRecord, DeathRecord, EventRecord, Record, Voids


def record_of(event: AnyEvent, life: int) -> Record:
    """An event of a model with this life, with all that the writing process has to know of it."""
    body = encode(event)
    match event:  # the most frequent first
        case RoundRevealed():
            return EventRecord(life, event.prediction_id, True, None, body)
        case RoundLearned():
            return EventRecord(life, event.prediction_id, False, None, body)
        case ModelCreated() | ModelImported():
            return BirthRecord(event.model, event.at, encode(event.settings), body)
        case ModelDeleted():
            return DeathRecord(life)
        case PredictionsExpired():
            return EventRecord(life, None, False, Voids(event.at, event.through, event.count), body)
        case ModelReset():
            return EventRecord(life, None, False, Voids(event.at, event.at, 0), body)
    return EventRecord(life, getattr(event, "prediction_id", None), False, None, body)
