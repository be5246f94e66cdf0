"""What every journal promises."""

from asyncio import Future
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from service.events import AnyEvent, Prediction
from service.timings import Timings

NEW_LIFE = 0
"""In place of a life, for an event that makes a model."""

Apply = Callable[[int, AnyEvent], Any]
"""Called with each event and its sequence number, in order, on the event loop, once it is durable."""


@dataclass(frozen=True, slots=True)
class Appended:
    """Where an event stands in the journal. `applied` is what applying it gave, if it is new."""

    seq: int
    is_new: bool
    applied: Any = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event and where it stands."""

    seq: int
    event: AnyEvent


@dataclass(frozen=True, slots=True)
class WaitingPrediction:
    """A prediction that waits for its label, and the life of the model that made it."""

    prediction: Prediction
    life: int


@dataclass(frozen=True, slots=True)
class Overdue:
    """How many predictions of one model wait for longer than they may, and when the newest of them was made."""

    model: str
    life: int
    count: int
    through: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A model's state after the event `seq`, and the outcomes of the rounds since the snapshot before."""

    model: str
    life: int
    seq: int
    version: int
    state: bytes
    outcomes: bytes


@dataclass(frozen=True, slots=True)
class Stored:
    """All that is needed to bring a model back to life."""

    state: bytes | None
    seq: int
    tail: list[Recorded]
    pending: list[Prediction]
    voided_through: int
    """Predictions made up to this time are void, whoever remembers them."""
    life: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A line of the list of models; `key` is what it was sorted by. `settings` is None if it cannot be read."""

    model: str
    created_at: int
    settings: dict[str, Any] | None
    key: Any


@dataclass(frozen=True, slots=True)
class Summary:
    """What lists of models are sorted by, and totals are made of. A cache: never the truth."""

    model: str
    life: int
    updated_at: int
    revealed: int
    mistakes: int
    updates: int
    pending: int
    expired: int


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all models."""

    models: int
    revealed: int
    mistakes: int
    updates: int
    pending: int
    expired: int


@dataclass(frozen=True, slots=True)
class Page:
    """Which models to list: those after a place in the order, `after` being (key, name) of the last seen."""

    prefix: str = ""
    sort: str = "name"
    after: tuple[Any, str] | None = None
    limit: int = 100


class Journal(Protocol):
    """An ordered, durable log of events with the predictions that wait and the snapshots that shorten it.

    Nothing is applied before it is durable, and an append's answer comes after its event was applied.
    A prediction id is revealed at most once, whoever asks and however often.

    A model's name is not its identity: one that is deleted and made again under the same name is another model.
    Its `life`, the sequence number of the event that made it, is. Whatever belongs to a life that has ended is
    refused.
    """

    @property
    def is_shared(self) -> bool:
        """Whether others append to it too, so that what they do is heard of a little later."""
        ...

    @property
    def keeps_order(self) -> bool:
        """Whether an event handed over now is kept after those that still wait, and only if they are kept."""
        ...

    @property
    def lag_events(self) -> int:
        """How many events are known to be in the journal and not yet applied here."""
        ...

    def time_us(self) -> int:
        """The time by this machine's clock or, if that is later, by that of where the journal is."""
        ...

    @property
    def is_connected(self) -> bool:
        """Whether it is within reach, as far as is known."""
        ...

    @property
    def why_out_of_touch(self) -> str | None:
        """Why nothing is known of what others append just now; None if it is."""
        ...

    async def look(self) -> None:
        """Find out how far the journal has come, so that the figures above are of now; give up soon."""
        ...

    @property
    def waiting(self) -> int:
        """How many records wait for the journal."""
        ...

    @property
    def commits(self) -> Timings:
        """How long it took until events were durable."""
        ...

    @property
    def failures(self) -> int:
        """How often that failed."""
        ...

    @property
    def submitted(self) -> int:
        """How many records were handed to the journal so far."""
        ...

    @property
    def finished(self) -> int:
        """How many of them, from the first, are on disk and applied, or have failed."""
        ...

    async def open(self, apply: Apply) -> int:
        """Begin; the time of the newest event (microseconds), 0 for an empty journal."""
        ...

    async def close(self) -> None:
        """Finish what is queued and let go."""
        ...

    def append(self, event: AnyEvent, life: int = NEW_LIFE) -> Future[Appended]:
        """Make an event durable, then apply it. A prediction id or model that is there already is not new.

        `life` is that of the event's model; only an event that makes a model has none yet.
        Raises Overloaded at once when the queue is full. The future fails with JournalUnavailable, and then
        nothing was applied (in a shared journal it may be, later), with UnknownModel if the life has ended, or
        with PredictionIdTaken if another model has the id.
        """
        ...

    def put_pending(self, prediction: Prediction, life: int, *, wait: bool) -> Future[Appended] | None:
        """Keep a prediction until its label comes; with `wait`, a future that is done when it is durable.

        In a shared journal it is not new if another replica has kept one under this id. InvalidRequest if it
        is larger than the journal can keep.
        """
        ...

    async def overdue(self, after: int, through: int, limit: int) -> tuple[list[Overdue], int]:
        """WaitingPrediction predictions made after one time and up to another, whether their models are loaded or not.

        At most the `limit` oldest are looked at; the second of the pair is when the newest of these was made, or
        `after` if there are none.
        """
        ...

    async def find(
        self, prediction_id: str, *, expected: bool = False
    ) -> WaitingPrediction | Recorded | None:
        """The waiting prediction, or the event that revealed it and is applied here, or None.

        One that is `expected`, since a client knows its id, is waited for while it may be on its way.
        """
        ...

    async def may_come(self, prediction_id: str) -> bool:
        """Whether an id that was not found may be that of a prediction which others have yet to hand over."""
        ...

    async def load(self, model: str) -> Stored | None:
        """A model's newest snapshot, the events after it and its waiting predictions; None if unknown.

        ModelUnreadable if that is damaged, or cannot be read.
        """
        ...

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot, and trim what it makes superfluous. Nothing waits for it; a failure is logged."""
        ...

    async def settle(self) -> None:
        """Wait until what was handed over before is on disk, or has failed; Overloaded if that takes too long."""
        ...

    async def outcomes(self, model: str, seq: int) -> bytes | None:
        """The outcomes that were saved with the first snapshot at or after `seq`."""
        ...

    def save_summaries(self, summaries: list[Summary], through: int | None = None) -> Future[Appended]:
        """Keep summaries; with `through`, all summaries are right up to that event."""
        ...

    async def unsummarised(self, *, before: int | None = None) -> list[str]:
        """Models whose summaries may be older than their events: a crash came between.

        In a shared journal others may be about to bring theirs, so one can ask for those with events up to a time.
        """
        ...

    async def summary(self, model: str) -> Summary | None:
        """A model's summary, which needs nothing of the model itself to be readable; None if it is unknown."""
        ...

    async def models(self, page: Page) -> list[Listed]:
        """Models by name, or by a number of their summaries, largest first."""
        ...

    async def totals(self, prefix: str) -> Totals:
        """Sums over the summaries of the models whose names begin so."""
        ...

    async def events(self, model: str, *, after: int, limit: int) -> list[Recorded]:
        """A model's retained events, oldest first."""
        ...
