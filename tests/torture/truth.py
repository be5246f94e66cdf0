"""What has to be in a data directory: the fold of the events that the recorded service held for durable.

The events come from the log: the service notes each one when it applies it. They are folded here without a journal,
and what a directory opens to is compared with that.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from service.engine.fleet.live import Live, model_from
from service.engine.models.outcomes import Outcome
from service.events import (
    AnyEvent,
    ModelCreated,
    ModelDeleted,
    ModelImported,
    Prediction,
    RoundLearned,
    RoundRevealed,
)
from service.journal.codec import decode_event, decode_prediction
from tests.torture.operations import AnyOperation, Note

APPLIED, SERVED = "applied", "served"
"""Notes: an event was durable and is applied; a prediction was durable and is answered."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A round with an id, and what came of it."""

    seq: int
    event: RoundRevealed | RoundLearned
    outcome: Outcome


@dataclass(slots=True)
class Life:
    """A model from its first event on; after each event, what it is."""

    name: str
    began_at: int
    """The time of its first event."""
    seqs: list[int] = field(default_factory=list)
    states: list[bytes] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    voided_through: list[int] = field(default_factory=list)
    finished: dict[str, Finished] = field(default_factory=dict)
    """By id."""
    ended: int | None = None
    """The number of its deletion."""

    def lives_at(self, seq: int) -> bool:
        return self.seqs[0] <= seq and (self.ended is None or seq < self.ended)

    def place(self, seq: int) -> int:
        """Which of its events is the last up to this number."""
        return bisect_right(self.seqs, seq) - 1


class Truth:
    """All that was recorded, and up to where it was acknowledged at each place of the log."""

    def __init__(self, events_kept_max: int) -> None:
        self._kept_max = events_kept_max
        self.lives: dict[int, Life] = {}
        self.predictions: dict[str, tuple[int, Prediction]] = {}
        """Each with the place in the log where it was answered."""
        self._acknowledged: list[tuple[int, int]] = []

    def follow(self, log: list[AnyOperation]) -> None:
        """Take in the notes of a log that begins with an empty directory."""
        living: dict[str, tuple[int, Live]] = {}
        for at, operation in enumerate(log):
            match operation:
                case Note(kind="applied", content=(int(seq), bytes(body))):
                    self.acknowledge(at, seq)
                    self._apply(living, seq, decode_event(body))
                case Note(kind="served", content=bytes(body)):
                    prediction = decode_prediction(body)
                    self.predictions[prediction.prediction_id] = (at, prediction)

    def acknowledge(self, at: int, seq: int) -> None:
        self._acknowledged.append((at, seq))

    def acknowledged(self, at: int) -> int:
        """The number of the last event that stalled for durable before this place of the log."""
        before = bisect_right(self._acknowledged, at, key=lambda one: one[0])
        return max((seq for _, seq in self._acknowledged[:before]), default=0)

    def living_at(self, seq: int) -> Iterator[tuple[int, Life]]:
        return ((number, life) for number, life in self.lives.items() if life.lives_at(seq))

    def served_before(self, at: int) -> Iterator[Prediction]:
        return (prediction for place, prediction in self.predictions.values() if place < at)

    def life_of(self, prediction: Prediction) -> int:
        """The model that has served it."""
        names = (n for n, life in self.lives.items() if life.name == prediction.model)
        return max(number for number in names if self.lives[number].began_at <= prediction.at)

    def has_to_know(self, life: Life, finished: Finished, seq: int) -> bool:
        """Whether a retry of a round has to be known for one at this number: later, its event may be trimmed."""
        return finished.outcome.version > life.versions[life.place(seq)] - self._kept_max

    def _apply(self, living: dict[str, tuple[int, Live]], seq: int, event: AnyEvent) -> None:
        name = event.model
        if isinstance(event, ModelDeleted):
            number, _ = living.pop(name)
            self.lives[number].ended = seq
            return
        outcome = None
        if isinstance(event, ModelCreated | ModelImported):
            assert name not in living, "made twice"
            living[name] = seq, Live(model_from(event), seq, seq)
            self.lives[seq] = Life(name, event.at)
        else:
            outcome = living[name][1].apply(seq, event)
        number, live = living[name]
        life = self.lives[number]
        life.seqs.append(seq)
        life.states.append(live.model.to_bytes())
        life.versions.append(live.model.version)
        life.voided_through.append(live.voided_through)
        if isinstance(event, RoundRevealed | RoundLearned) and event.prediction_id is not None:
            assert isinstance(outcome, Outcome)
            earlier = life.finished.get(event.prediction_id)
            assert earlier is None or not self.has_to_know(life, earlier, life.seqs[-2]), "learned twice"
            life.finished[event.prediction_id] = Finished(seq, event, outcome)
