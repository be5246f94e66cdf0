"""A model in memory: its state, its waiting predictions, and how far it has come in the journal."""

import logging
from collections import OrderedDict

from service.engine.model.model import Model
from service.engine.model.outcomes import BlockOutcome, Outcome, OutcomeLog
from service.errors import ModelUnreadable
from service.events import (
    AnyEvent,
    ModelCreated,
    ModelImported,
    ModelReset,
    Prediction,
    PredictionsExpired,
)
from service.journal.codec import NewerState
from service.journal.protocol import Snapshot, StoredModel, Summary

DAMAGE = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What decoding or applying a damaged event may raise; msgspec's errors are ValueErrors too."""

log = logging.getLogger(__name__)

NO_PREDICTIONS: OrderedDict[str, Prediction] = OrderedDict()
"""Shared by all models without waiting predictions, to save memory. Never added to."""


class Live:
    """A loaded model, with what is not part of the fold over its events."""

    __slots__ = (
        "dropped",
        "dropped_through",
        "expiring",
        "life",
        "model",
        "outcomes",
        "pending",
        "pins",
        "seq",
        "since_snapshot",
        "submitted",
        "tick",
        "voided_through",
    )

    def __init__(self, model: Model, seq: int, life: int) -> None:
        self.model = model
        self.seq = seq
        """The last event that was applied."""
        self.life = life
        """The event that made it; see `Journal`."""
        self.pending = NO_PREDICTIONS
        """Waiting predictions by id, oldest first."""
        self.outcomes = OutcomeLog()
        """Of the rounds since the last snapshot."""
        self.since_snapshot = 0
        """How many rounds and other events were applied since the last snapshot."""
        self.tick = 0
        """When it last changed, by the fleet's count of changes."""
        self.submitted = 0
        """`Journal.submitted` right after the model's latest record was handed over."""
        self.pins = 0
        """How many requests need it to stay loaded."""
        self.dropped = 0
        """Predictions given up and not yet recorded as expired."""
        self.dropped_through = 0
        """When the newest of them was made."""
        self.expiring: PredictionsExpired | None = None
        """The event by which this replica records them, to tell it from those of other replicas."""
        self.voided_through = 0
        """Predictions made up to this time cannot be revealed any more."""

    @classmethod
    def from_stored(cls, stored: StoredModel) -> "Live":
        """The model of the newest snapshot with the events after it applied."""
        tail = stored.tail
        if stored.state is not None:
            live = cls(Model.from_bytes(stored.state), stored.seq, stored.life)
        else:
            first, tail = tail[0], tail[1:]
            live = cls(model_from(first.event), first.seq, stored.life)
        for recorded in tail:
            live.apply(recorded.seq, recorded.event)
        live.voided_through = max(live.voided_through, stored.voided_through)
        for prediction in stored.pending:
            live.keep(prediction)
        return live

    def apply(self, seq: int, event: AnyEvent) -> Outcome | BlockOutcome | None:
        """Apply an event unless it was applied before."""
        if seq <= self.seq:
            return None
        outcome = self.model.apply(event)
        self.seq = seq
        if isinstance(outcome, BlockOutcome):
            self.since_snapshot += len(outcome)
            return outcome
        self.since_snapshot += 1
        if outcome is None:
            self._apply_lifecycle_event(event)
        elif event.prediction_id is not None:  # type: ignore[union-attr]
            self.outcomes.add(seq, outcome)
            self.pending.pop(event.prediction_id, None)  # type: ignore[union-attr]
        return outcome

    def _apply_lifecycle_event(self, event: AnyEvent) -> None:
        if isinstance(event, PredictionsExpired):
            self.voided_through = max(self.voided_through, event.through)
            if event == self.expiring:
                self.dropped -= min(event.count, self.dropped)
        elif isinstance(event, ModelReset):
            self.voided_through = max(self.voided_through, event.at)
            self.pending.clear()
            self.dropped = 0

    def keep(self, prediction: Prediction) -> None:
        """Keep a prediction until its label comes."""
        if self.pending is NO_PREDICTIONS:
            self.pending = OrderedDict()
        self.pending[prediction.prediction_id] = prediction

    def may_reveal(self, prediction: Prediction) -> bool:
        """Whether a prediction that another replica has served can still be revealed."""
        return prediction.at > max(self.voided_through, self.dropped_through)

    def drop(self, prediction: Prediction) -> None:
        """Give a prediction up; the next sweep records it as expired."""
        del self.pending[prediction.prediction_id]
        self.dropped += 1
        self.dropped_through = max(self.dropped_through, prediction.at)

    def summary(self) -> Summary:
        model = self.model
        return Summary(
            model.name,
            self.life,
            model.updated_at,
            model.revealed,
            model.mistakes,
            model.updates,
            len(self.pending),
            self.expired,
        )

    def is_idle(self, finished: int) -> bool:
        """Whether it may be unloaded: no request needs it, and the journal has all its records.

        `finished` is `Journal.finished`.
        """
        return not self.pins and not self.dropped and self.submitted <= finished

    @property
    def expired(self) -> int:
        return self.model.expired + self.dropped

    def snapshot(self) -> Snapshot:
        """The state for the journal to save, with the outcomes since the last one. A new log of outcomes begins."""
        outcomes, self.outcomes = self.outcomes, OutcomeLog()
        self.since_snapshot = 0
        return Snapshot(
            self.model.name,
            self.life,
            self.seq,
            self.model.version,
            self.model.to_bytes(),
            outcomes.tobytes(),
        )


def restore_live(name: str, stored: StoredModel) -> Live:
    """The model that the journal has stored; ModelUnreadable if it is damaged."""
    try:
        return Live.from_stored(stored)
    except NewerState as error:
        log.error("saved by a newer program: %s", name, exc_info=error, extra={"model": name})
        raise ModelUnreadable(f"the model {name!r} was saved by a newer Novikoff: {error}") from error
    except DAMAGE as error:
        log.error("the history of %s is damaged", name, exc_info=error, extra={"model": name})
        raise ModelUnreadable(f"the history of {name!r} is damaged: novikoff doctor tells more") from error


def model_from(event: AnyEvent) -> Model:
    """The model that a ModelCreated or a ModelImported makes."""
    if isinstance(event, ModelCreated):
        return Model(event)
    assert isinstance(event, ModelImported)
    model = Model.from_bytes(event.state)
    model.name = event.model
    model.created_at = model.updated_at = event.at
    model.origin = "imported"
    model.bound = None
    return model
