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
from service.journal.records import BirthRecord, DeathRecord, EventRecord, Record


def record_of(event: AnyEvent) -> Record:
    """An event with all that the writing process has to know of it."""
    body = encode(event)
    match event:  # the most frequent first
        case RoundRevealed():
            return EventRecord(event.model, event.prediction_id, True, None, body)
        case RoundLearned():
            return EventRecord(event.model, event.prediction_id, False, None, body)
        case ModelCreated() | ModelImported():
            return BirthRecord(event.model, event.at, encode(event.settings), body)
        case ModelDeleted():
            return DeathRecord(event.model, body)
        case PredictionsExpired():
            return EventRecord(event.model, None, False, event.through, body)
        case ModelReset():
            return EventRecord(event.model, None, False, event.at, body)
    return EventRecord(event.model, getattr(event, "prediction_id", None), False, None, body)
