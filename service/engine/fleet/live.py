"""A model in memory: its state, its waiting predictions, and how far it has come in the journal."""

from asyncio import Future, wait
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from time import perf_counter, thread_time
from typing import Any, NamedTuple

from msgspec.structs import replace

from service.engine.models.amendments import Evictions
from service.engine.models.checks import NONE_NEW, NewLabels
from service.engine.models.model import Model, model_from
from service.engine.models.outcomes import BlockOutcome, Outcome, OutcomeLog
from service.engine.models.serving import Unlabelled
from service.events import (
    VOIDING,
    AnyEvent,
    ModelRebuilt,
    Prediction,
    PredictionsExpired,
    PredictionVoided,
    RoundErased,
    RoundLearned,
    RoundRevealed,
    RoundsLearned,
    TagForgotten,
)
from service.journal.codec import encoded_state
from service.journal.protocol import Recorded, Snapshot, StoredModel, Summary
from service.learning.certainty.asking import LEVELS, level_of

REPLAY_SECONDS = 1.0
"""A snapshot is due when applying the events since the last one took so long, however few they were: a load replays
them, which takes as long again."""

SNAPSHOT_SHARE = 0.05
"""But not before encoding it takes at most this share of that time."""

NO_PREDICTIONS: OrderedDict[str, Prediction] = OrderedDict()
"""Shared by all models without waiting predictions, to save memory. Never added to."""

NO_TIMES: dict[str, int] = {}
NO_ASKED: dict[str, float] = {}
"""Likewise, of models of which no prediction waits in the journal only."""

NO_PEERS: "OrderedDict[str, Live]" = OrderedDict()
"""Of models that are not admitted yet. Never added to."""


COUNTED = (RoundLearned, RoundRevealed, RoundsLearned, PredictionsExpired)
"""Events that something happened. All others change or replace what was counted before."""


class Counts(NamedTuple):
    """What has happened to a model."""

    revealed: int
    mistakes: int
    updates: int
    expired: int
    drifts: int

    @classmethod
    def of(cls, model: Model) -> "Counts":
        """What the model's statistics have counted. A correction, a forgetting, a rollback and a reset lower it."""
        statistics = model.statistics
        return cls(
            statistics.revealed,
            statistics.mistakes,
            statistics.updates,
            model.expired,
            statistics.drift_count,
        )

    def less(self, other: "Counts") -> "Counts":
        return Counts(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))


@dataclass(eq=False, slots=True, weakref_slot=True)
class Live:
    """A loaded model, with what is not part of the fold over its events."""

    model: Model
    seq: int
    """The last event that was applied."""
    life: int
    """The event that made it; see `Journal`."""
    counted_elsewhere: Counts = field(init=False)
    """What the model's statistics have counted and this process has not seen happen since it loaded the model,
    less what it has seen happen and they do not count any more."""
    pending: OrderedDict[str, Prediction] = field(default_factory=lambda: NO_PREDICTIONS)
    """Waiting predictions in memory by id, oldest first."""
    resting: dict[str, int] = field(default_factory=lambda: NO_TIMES)
    """Waiting predictions that are only in the journal, and when each was made: by id, oldest first. They are older
    than those in memory."""
    resting_asked: dict[str, float] = field(default_factory=lambda: NO_ASKED)
    """Those of them whose labels were asked for, and with what probability."""
    probability: float | None = None
    """What its newest prediction or round was served with, as far as this process has seen any."""
    outcomes: OutcomeLog = field(default_factory=OutcomeLog)
    """Of the rounds since the last snapshot."""
    since_snapshot: int = 0
    """How many rounds and other events were applied since the last snapshot."""
    unsaved_seconds: float = 0.0
    """How long applying them took."""
    round_seconds: float = 0.0
    """How long each round of its newest block took; 0 if it has learned none since it was loaded or changed."""
    snapshot_seconds: float = 0.0
    """How long encoding the last snapshot took."""
    is_being_saved: bool = False
    """Whether a snapshot of it is being encoded in a thread."""
    tick: int = 0
    """When it last changed, by the fleet's count of changes."""
    submitted: int = 0
    """`Journal.submitted` right after the model's latest record was handed over."""
    new_labels: NewLabels = NONE_NEW
    """Labels of rounds under way that the model does not have yet."""
    held: Future[None] | None = None
    """While it is locked, what requests wait for before they predict or begin an event. See `ModelLock`."""
    is_only_read: bool = False
    """Whether it is locked only to be read, so that predictions need not wait."""
    knows_all_predictions: bool = False
    """Whether all that wait are here: not on a cluster, and not if it is the model of another time."""
    pins: int = 0
    """How many requests need it to stay loaded."""
    dropped: int = 0
    """Predictions given up and not yet recorded as expired."""
    dropped_asked: Counter[int] = field(default_factory=Counter)
    """Of how many of them the label was asked for with a probability of k/256, by k."""
    dropped_through: int = 0
    """When the newest of them was made."""
    evicted: int = 0
    """How many of them were evicted before their time."""
    evicted_by: str = ""
    """The limit for which the newest of these was."""
    evicted_through: int = 0
    """When the newest of these was made."""
    expiring: PredictionsExpired | None = None
    """The event that is under way to record them, to tell it from those of other replicas; None if none is."""
    voided_through: int = 0
    """Predictions made up to this time cannot be revealed any more."""
    tenant: str = ""
    """Whose model it is, for limits that tenants share."""
    peers: OrderedDict[str, "Live"] = field(default_factory=lambda: NO_PEERS)
    """The tenant's models in memory, the least recently used first; this one among them once it is admitted."""
    weight_bytes: int = 0
    """What the model takes in memory, as it was estimated last."""
    weighed: tuple[int, ...] = ()
    """How many features and classes it had then, and which challengers."""

    def __post_init__(self) -> None:
        self.counted_elsewhere = Counts.of(self.model)

    def pinned(self) -> "Live":
        """The model stays loaded within this context."""
        return self

    def __enter__(self) -> None:
        self.pins += 1

    def __exit__(self, *_: object) -> None:
        self.pins -= 1

    @classmethod
    def at_snapshot(cls, stored: StoredModel) -> "Live":
        """The model of the newest snapshot, or as its first event made it; the events after that are to be applied."""
        if stored.state is not None:
            return cls(Model.from_bytes(stored.state), stored.seq, stored.life)
        first = stored.tail[0]
        return cls(model_from(first.event), first.seq, stored.life)

    def rest_of(self, stored: StoredModel) -> list[Recorded]:
        """The events that are not in the model yet."""
        return [recorded for recorded in stored.tail if recorded.seq > self.seq]

    def complete(self, stored: StoredModel) -> None:
        """Take the waiting predictions, when all events are applied."""
        self.counted_elsewhere = Counts.of(self.model)
        self.voided_through = max(self.voided_through, stored.voided_through)
        for resting in stored.resting:
            self._rest(resting.prediction_id, resting.at, resting.ask_probability)
        for prediction in stored.pending:
            self.keep(prediction)
        self._forget_served()

    def _forget_served(self) -> None:
        """Let nothing be known of classes that waiting predictions were served, if they go with a forgetting."""
        if self.model.erasing:
            known = self.model.labels.index
            for prediction_id, each in self.pending.items():
                if each.served is not None and known(each.served) < 0:
                    self.pending[prediction_id] = replace(each, served=None)

    def apply(self, seq: int, event: AnyEvent) -> Outcome | BlockOutcome | None:
        """Apply an event unless it was applied before."""
        return None if seq <= self.seq else self.apply_next(seq, event)

    def apply_next(self, seq: int, event: AnyEvent) -> Outcome | BlockOutcome | None:
        """Apply an event, or some rounds of a block and then the others."""
        outcome = self._applied(event)
        self.seq = seq
        if isinstance(outcome, BlockOutcome):
            self.since_snapshot += len(outcome)
            self.probability = outcome.probabilities[-1]
            return outcome
        self.since_snapshot += 1
        if outcome is None:
            self._apply_lifecycle_event(event)
            return None
        self.probability = outcome.probability
        if event.prediction_id is not None:  # type: ignore[union-attr]
            self.outcomes.add(seq, outcome)
            self.forget(event.prediction_id)  # type: ignore[union-attr]
        return outcome

    def forget(self, prediction_id: str) -> None:
        """A prediction waits no longer."""
        if self.pending.pop(prediction_id, None) is None and self.resting:
            self.resting.pop(prediction_id, None)
            self.resting_asked.pop(prediction_id, None)

    def _applied(self, event: AnyEvent) -> Outcome | BlockOutcome | None:
        # A block tells how long the next may be, however loaded the machine is.
        clock = thread_time if isinstance(event, RoundsLearned) else perf_counter
        before = None if isinstance(event, COUNTED) else self.counts
        began = clock()
        outcome = self.model.apply(event)
        seconds = clock() - began
        if before is not None:
            self.counted_elsewhere = Counts.of(self.model).less(before)
        self.unsaved_seconds += seconds
        if isinstance(outcome, BlockOutcome):
            self.round_seconds = seconds / len(outcome)
        elif outcome is None:  # it may be another learner now, or have challengers
            self.round_seconds = 0.0
        return outcome

    @property
    def counts(self) -> Counts:
        """What has happened to the model since this process loaded it. It never goes down, and starts at 0 with each
        load: from a state that a correction has lowered meanwhile, it would seem to have been counted anew."""
        return Counts.of(self.model).less(self.counted_elsewhere)

    def _apply_lifecycle_event(self, event: AnyEvent) -> None:
        if isinstance(event, PredictionsExpired):
            self.voided_through = max(self.voided_through, event.through)
            if event == self.expiring:
                self.dropped -= min(event.count, self.dropped)
                self.dropped_asked -= Counter(dict(event.asked or ()))
                self.evicted -= min(event.evicted, self.evicted)
                self.expiring = None
        elif isinstance(event, PredictionVoided | RoundErased):
            self.forget(event.prediction_id or "")
        elif isinstance(event, ModelRebuilt):
            self._forget_served()
        elif isinstance(event, TagForgotten):
            self.outcomes = self.outcomes.without(set(event.events))
        elif isinstance(event, VOIDING):
            self.voided_through = max(self.voided_through, event.at)
            self.pending.clear()
            self.resting, self.resting_asked = NO_TIMES, NO_ASKED
            self.dropped = self.evicted = 0
            self.dropped_asked.clear()
            self.probability = None

    async def released(self) -> None:
        """Wait while a rebuild ends or a copy is made. Look again after anything else that is waited for."""
        while self.held is not None:
            await wait([self.held])

    def keep(self, prediction: Prediction) -> None:
        """Keep a prediction until its label comes."""
        if self.pending is NO_PREDICTIONS:
            self.pending = OrderedDict()
        self.pending[prediction.prediction_id] = prediction
        self.probability = None if prediction.certainty is None else prediction.certainty.probability

    def forget_new(self, labels: NewLabels) -> None:
        """These labels are no longer under way: the model has them now, or their event could not be kept."""
        self.new_labels -= labels

    def may_reveal(self, prediction: Prediction) -> bool:
        """Whether a prediction that another replica has served can still be revealed."""
        return prediction.at > max(self.voided_through, self.dropped_through)

    def awaits(self, prediction_id: str) -> bool:
        """Whether a prediction waits for its label, in memory or in the journal only."""
        return prediction_id in self.pending or prediction_id in self.resting

    def rest(self, prediction: Prediction) -> None:
        """Let a prediction, the oldest in memory, wait in the journal only."""
        del self.pending[prediction.prediction_id]
        certainty = prediction.certainty
        asked = None if certainty is None else certainty.ask_probability
        self._rest(prediction.prediction_id, prediction.at, asked)

    def _rest(self, prediction_id: str, at: int, ask_probability: float | None) -> None:
        if self.resting is NO_TIMES:
            self.resting, self.resting_asked = {}, {}
        self.resting[prediction_id] = at
        if ask_probability is not None and self.model.is_asked(prediction_id, ask_probability):
            self.resting_asked[prediction_id] = ask_probability

    def drop(self, prediction_id: str, at: int, limit: str = "") -> None:
        """Give a prediction up, since its time is over or for a limit; the next sweep records it as expired."""
        prediction = self.pending.get(prediction_id)
        resting = self.resting_asked.get(prediction_id)
        if asked := resting if prediction is None else self.model.asked_with(prediction):
            self.dropped_asked[level_of(asked)] += 1
        self.forget(prediction_id)
        self.dropped += 1
        self.dropped_through = max(self.dropped_through, at)
        if limit:
            self.evicted += 1
            self.evicted_by = limit
            self.evicted_through = max(self.evicted_through, at)

    @property
    def waiting(self) -> int:
        """How many predictions wait, in memory or in the journal only."""
        return len(self.pending) + len(self.resting)

    @property
    def oldest_waiting_at(self) -> int | None:
        """When the oldest of them was made."""
        at = next(iter(self.resting.values()), None)
        return at if at is not None else next((each.at for each in self.pending.values()), None)

    def summary(self) -> Summary:
        model = self.model
        return Summary(
            model.name,
            self.life,
            model.updated_at,
            model.revealed,
            model.mistakes,
            model.updates,
            self.waiting,
            self.expired,
            model.statistics.ewma.error_rate,
        )

    def report(self, now: int) -> dict[str, Any]:
        """All statistics of the model, also of predictions whose labels have not come, as of a time."""
        unlabelled = self._unlabelled()
        lost = [k / LEVELS for k in self.dropped_asked.elements()]
        unasked = unlabelled.unasked + self.dropped - len(lost)
        ask = self.model.ask_report(unasked, [*unlabelled.awaited, *lost], are_all=self.knows_all_predictions)
        recorded = self.model.evicted or Evictions()
        count, limit = recorded.count + self.evicted, self.evicted_by if self.evicted else recorded.limit
        evicted = {"predictions": count, "limit": limit} if count else None
        return {**self.model.report(now), "unlabelled": unlabelled.report(), "ask": ask, "evicted": evicted}

    def _unlabelled(self) -> Unlabelled:
        """What the waiting predictions were served with, as far as this replica has them in memory."""
        count, total, amended = 0, 0.0, self.model.amended
        awaited = list(self.resting_asked.values())
        unasked = len(self.resting) - len(awaited)
        for prediction in self.pending.values():
            certainty = prediction.certainty if amended is None else amended.certainty_of(prediction)
            if certainty is None:
                continue
            if certainty.probability is not None:
                count += 1
                total += certainty.probability
            if asked := self.model.asked_with(prediction):
                awaited.append(asked)
            elif asked is not None:
                unasked += 1
        return Unlabelled(self.waiting, count, total, unasked, awaited)

    @property
    def newest_time(self) -> int:
        """The newest time that is known of it: of an event, of what is void, or of a waiting prediction."""
        predicted = next((prediction.at for prediction in reversed(self.pending.values())), 0)
        return max(self.model.updated_at, self.voided_through, predicted)

    def is_idle(self, finished: int) -> bool:
        """Whether it may be unloaded: no request needs it, and the journal has all its records.

        `finished` is `Journal.finished`.
        """
        return not self.pins and not self.dropped and self.submitted <= finished

    @property
    def expired(self) -> int:
        return self.model.expired + self.dropped

    def is_snapshot_due(self, every_events: int) -> bool:
        """Whether to save it: for so many events, or since applying those after the last snapshot took long."""
        if self.since_snapshot >= every_events:
            return True
        unsaved = self.unsaved_seconds
        return unsaved >= REPLAY_SECONDS and unsaved * SNAPSHOT_SHARE >= self.snapshot_seconds

    def snapshot(self) -> Snapshot:
        """A snapshot of the model as it is."""
        model, amended = self.model, self.model.amended
        needed, spans = (None, ()) if amended is None else (amended.needed, tuple(amended.spans))
        began = perf_counter()
        state = encoded_state(model.state())
        self.snapshot_seconds = perf_counter() - began
        outcomes = self.outcomes.tobytes()
        return Snapshot(model.name, self.life, self.seq, model.version, state, outcomes, needed, spans)

    def saved(self) -> None:
        """A snapshot of it as it is goes to the journal: a new log of outcomes begins."""
        self.outcomes = OutcomeLog()
        self.since_snapshot, self.unsaved_seconds = 0, 0.0

    def outcome_of(self, seq: int) -> Outcome | None:
        """What came of an event, if no snapshot is saved since."""
        return self.outcomes.find(seq)
