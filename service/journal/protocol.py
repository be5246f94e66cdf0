"""What every journal promises."""

from asyncio import Future
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from service.events import AnyEvent, Prediction

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
class Snapshot:
    """A model's state after the event `seq`, and the outcomes of the rounds since the snapshot before."""

    model: str
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


@dataclass(frozen=True, slots=True)
class Listed:
    """A line of the list of models."""

    model: str
    created_at: int
    settings: dict[str, Any]


class Journal(Protocol):
    """An ordered, durable log of events with the predictions that wait and the snapshots that shorten it.

    Nothing is applied before it is durable, and an append's answer comes after its event was applied.
    A prediction id is revealed at most once, whoever asks and however often.
    """

    async def open(self, apply: Apply) -> int:
        """Begin; the time of the newest event (microseconds), 0 for an empty journal."""
        ...

    async def close(self) -> None:
        """Finish what is queued and let go."""
        ...

    def append(self, event: AnyEvent) -> Future[Appended]:
        """Make an event durable, then apply it. A prediction id or model that is there already is not new.

        Raises Overloaded at once when the queue is full. The future fails with JournalUnavailable, and then
        nothing was applied, or with UnknownModel.
        """
        ...

    def put_pending(self, prediction: Prediction, *, wait: bool) -> Future[Appended] | None:
        """Keep a prediction until its label comes; with `wait`, a future that is done when it is durable."""
        ...

    async def find(self, prediction_id: str) -> Prediction | Recorded | None:
        """The waiting prediction, or the event that revealed it, or None."""
        ...

    async def load(self, model: str) -> Stored | None:
        """A model's newest snapshot, the events after it and its waiting predictions; None if unknown."""
        ...

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot, and trim what it makes superfluous. Nothing waits for it; a failure is logged."""
        ...

    async def outcomes(self, model: str, seq: int) -> bytes | None:
        """The outcomes that were saved with the first snapshot at or after `seq`."""
        ...

    async def models(self, *, prefix: str, after: str, limit: int) -> list[Listed]:
        """Models by name."""
        ...

    async def events(self, model: str, *, after: int, limit: int) -> list[Recorded]:
        """A model's retained events, oldest first."""
        ...
