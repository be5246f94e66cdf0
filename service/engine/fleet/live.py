"""A model in memory: its state, and what is known about it that is not part of the fold."""

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
"""What applying an event that was tampered with may end in; msgspec's errors are values too."""

log = logging.getLogger(__name__)

NO_PREDICTIONS: OrderedDict[str, Prediction] = OrderedDict()
"""What models have in common for which nothing waits; never added to."""


class Live:
    """A loaded model, its waiting predictions (oldest first), and where it stands in the journal."""

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
        self.life = life
        """The event that made it: what tells it from others of the same name, before it and after it."""
        self.pending = NO_PREDICTIONS
        self.outcomes = OutcomeLog()
        self.since_snapshot = 0
        self.tick = 0
        """When it last changed, by the fleet's count of changes."""
        self.submitted = 0
        """The journal's count of records after its latest."""
        self.pins = 0
        """How many requests are under way with it."""
        self.dropped = 0
        self.dropped_through = 0
        """Predictions given up but not yet recorded as expired, and the time of the newest of them."""
        self.expiring: PredictionsExpired | None = None
        """The event that records them; other replicas record theirs."""
        self.voided_through = 0
        """Predictions made up to this time are void."""

    @classmethod
    def awaken(cls, stored: StoredModel) -> "Live":
        """The newest snapshot, then the events after it."""
        tail = stored.tail
        if stored.state is not None:
            live = cls(Model.from_bytes(stored.state), stored.seq, stored.life)
        else:
            first, tail = tail[0], tail[1:]
            live = cls(born(first.event), first.seq, stored.life)
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
        """A prediction waits for its label."""
        if self.pending is NO_PREDICTIONS:
            self.pending = OrderedDict()
        self.pending[prediction.prediction_id] = prediction

    def may_reveal(self, prediction: Prediction) -> bool:
        """Whether a prediction that another replica has served can still be revealed."""
        return prediction.at > max(self.voided_through, self.dropped_through)

    def drop(self, prediction: Prediction) -> None:
        """Give a prediction up; the next sweep records it."""
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
        """Whether it may be unloaded: nobody works with it, and the journal has all there is to know.

        `finished` counts the records that the journal is done with.
        """
        return not self.pins and not self.dropped and self.submitted <= finished

    @property
    def expired(self) -> int:
        return self.model.expired + self.dropped

    def snapshot(self) -> Snapshot:
        """What the journal shall keep; from here on a new log of outcomes begins."""
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


def awakened(name: str, stored: StoredModel) -> Live:
    """The model that the journal has; ModelUnreadable if that is damaged."""
    try:
        return Live.awaken(stored)
    except NewerState as error:
        log.error("saved by a newer program: %s", name, exc_info=error, extra={"model": name})
        raise ModelUnreadable(f"the model {name!r} was saved by a newer Novikoff: {error}") from error
    except DAMAGE as error:
        log.error("the history of %s is damaged", name, exc_info=error, extra={"model": name})
        raise ModelUnreadable(f"the history of {name!r} is damaged: novikoff doctor tells more") from error


def born(event: AnyEvent) -> Model:
    """The model that its first event makes."""
    if isinstance(event, ModelCreated):
        return Model(event)
    assert isinstance(event, ModelImported)
    model = Model.from_bytes(event.state)
    model.name = event.model
    model.created_at = model.updated_at = event.at
    model.origin = "imported"
    model.bound = None
    return model
