"""The contract of every journal: what the engine hands over, what it gets back, and what it may rely on.

Two journals implement it, `sqlite/journal.py` and `jetstream/journal.py`. `tests/journal/test_journal_laws.py` runs
the same tests over both. All times are microseconds since 1970.
"""

from asyncio import Future
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import msgspec

from service.events import AnyEvent, Label, Prediction
from service.journal.codec import StateBytes
from service.runtime.timings import Timings

NEW_LIFE = 0
"""The `life` to append a ModelCreated or ModelImported with: the model gets its own by that event."""

Apply = Callable[[int, AnyEvent], Any]
"""Called with the sequence number of each durable event and the event, in the journal's order, on the event loop.

It is called once for each event; between two of them the loop may turn to others. What it returns becomes
`Appended.applied`. If it raises ModelDamaged, every waiter of the event gets that, and the next one is to be
applied; it must not raise anything else.
"""

Before = Callable[[str], Future[None] | None]
"""Called with the name of a model before an event of it is applied that another replica may have appended: what has to
be waited for first, if anything."""


Distrust = Callable[[str], None]
"""Called with the name of a model of which events turn out to be missing: it is to be reloaded, or not loaded at
all."""


Answer = Callable[[bytes], Awaitable[bytes]]
"""The answer to a question of another replica; see `Peers.ask`."""


class Appended(msgspec.Struct, frozen=True):
    """The answer to an append. There is one for every reveal, so it must be cheap."""

    seq: int
    """The event's sequence number; of a repetition, that of the event which is there already."""
    is_new: bool
    """False for a repetition: the prediction id, or the model's name, is in the journal already."""
    applied: Any = None
    """What `Apply` returned for the event; None if it is not new."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event that is in the journal."""

    seq: int
    """Its sequence number: rises from event to event over all models, with gaps."""
    event: AnyEvent


@dataclass(frozen=True, slots=True)
class WaitingPrediction:
    """A prediction whose label has not come yet."""

    prediction: Prediction
    life: int
    """The life of the model that made it."""


@dataclass(frozen=True, slots=True)
class Overdue:
    """The predictions of one model that have waited too long for their labels."""

    model: str
    life: int
    count: int
    """How many there are."""
    through: int
    """When the newest of them was made."""


def own_ttl_us(settings: dict[str, Any]) -> int | None:
    """How long the predictions of a model with these settings wait, if it has `pending_ttl_seconds` of its own."""
    seconds = settings.get("pending_ttl_seconds")
    return None if seconds is None else round(seconds * 1e6)


@dataclass(frozen=True, slots=True)
class OwnTime:
    """A model with `pending_ttl_seconds` of its own of which predictions wait."""

    model: str
    life: int
    ttl_us: int
    oldest: int
    """When the oldest of them was made."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A model's state, saved so that a load need not replay the events before it."""

    model: str
    life: int
    seq: int
    """The last event that is part of the state."""
    version: int
    """The model's version at that event, by which the journal decides how many events to keep."""
    state: StateBytes
    """What `Model.to_bytes` gives."""
    outcomes: bytes
    """The outcomes of the rounds since the snapshot before (`OutcomeLog`), from which a retry is answered."""
    needed: int | None = None
    """The version from which a rebuild that is due plays the history again; None if none is due. What it needs for
    that stays, as long as it is not more than as many events again as are kept without it."""
    replaced: Sequence[tuple[int, int]] = ()
    """From which version on, and before which, states were replaced by rebuilds. Such a version is made again from one
    before all of these: that stays for as long as the version, within the same bound."""


class Resting(NamedTuple):
    """A waiting prediction that is only in the journal, since too many wait to have all of them in memory."""

    prediction_id: str
    at: int
    ask_probability: float | None = None
    """With what probability its label was asked for, if the model asks for labels and the journal can tell."""


PENDING_LOADED_MAX = 10_000
"""How many waiting predictions of a model are in memory, the newest; the others rest in the journal. What is done with
all of them at once takes a few milliseconds then."""

PENDING_LOADED_BYTES_MAX = 16_777_216
"""And how many bytes of them, as the journal has them, a load brings."""


@dataclass(frozen=True, slots=True)
class StoredModel:
    """What is needed to have a model in memory again: apply `tail` to `state`."""

    state: StateBytes | None
    """Its newest snapshot; None if there is none, and then `tail` begins with the event that made the model."""
    seq: int
    """The last event that is part of `state`; 0 without one."""
    tail: list[Recorded]
    """All events after `seq`, oldest first."""
    pending: list[Prediction]
    """Its newest waiting predictions, oldest first; in a shared journal, those that this replica has served."""
    voided_through: int
    """Predictions made up to this time cannot be revealed any more: they have expired, or a reset came after them."""
    life: int
    resting: list[Resting] = field(default_factory=list)
    """The other ones, oldest first; they are older than `pending`."""


@dataclass(frozen=True, slots=True)
class Milestone:
    """A place in the history of a model from which it can be replayed: all events after it are kept."""

    life: int
    seq: int
    """The last event that is part of `state`; 0 without one, and then the event that made the model is the next."""
    state: StateBytes | None

    @property
    def state_view(self) -> memoryview | None:
        """The state as messages to other processes have it."""
        return None if self.state is None else memoryview(self.state)


@dataclass(frozen=True, slots=True)
class Erasure:
    """What is to be erased from the journal; see `Eraser` for how far that reaches."""

    life: int
    events: list[tuple[int, AnyEvent]]
    """Events that take the places of others, under their numbers. In a shared journal, they have no ids."""
    pages: list[tuple[int, int, bytes]]
    """Pages of outcomes that take the places of others: the last event, the version, the outcomes."""
    snapshots: tuple[int, int]
    """Snapshots from one event on and before another are to go."""
    predictions: list[str]
    """Ids of predictions that do not wait any more, and of which nothing is to be known."""
    is_whole: bool
    """Whether nothing of what it replaces may be left in the files of a file journal, either."""
    labels: Sequence[Label] = ()
    """Labels that nobody knows any more: what was served to a kept prediction is forgotten if it is one of them."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of the list of models."""

    model: str
    created_at: int
    settings: dict[str, Any] | None
    """None if they are damaged."""
    key: Any
    """The value that the list is sorted by, for `Page.after`."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A few figures of a model, so that lists and totals need not load it.

    A cache: it may lag behind the model's events, and can always be made again from them.
    """

    model: str
    life: int
    updated_at: int
    """The time of the last event that it covers."""
    revealed: int
    """Rounds whose labels have come."""
    mistakes: int
    updates: int
    """Rounds that changed the weights."""
    pending: int
    """Pending predictions."""
    expired: int
    """Predictions whose labels came too late or never."""
    ewma_error_rate: float | None = None
    """The recent error; None before the first reveal, and in summaries of versions that did not keep it."""


@dataclass(frozen=True, slots=True)
class Totals:
    """How many models there are, and the sums of the figures of their summaries."""

    models: int
    revealed: int
    mistakes: int
    updates: int
    pending: int
    expired: int


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of the list of models is wanted."""

    prefix: str = ""
    """Only models whose names begin with it."""
    sort: str = "name"
    """`name` (from a to z), or `rounds`, `mistakes`, `error_rate`, `ewma_error_rate`, `pending`, `updated_at` (largest
    first, equal ones by name). Where a summary has no `ewma_error_rate`, its `error_rate` stands for it."""
    after: tuple[Any, str] | None = None
    """`Listed.key` and the name of the last line of the page before; None for the first page."""
    limit: int = 100
    contains: str = ""
    """Only models whose names have it anywhere; in lower case, and that of a name is not regarded."""
    is_reversed: bool = False
    """From the end of the list to its beginning."""


@dataclass(slots=True)
class Tagged:
    """Predictions that carry a tag."""

    predictions: dict[str, int]
    """Their ids, and when each was made; 0 if it can be revealed only where it waits."""
    through: int = 0
    """How far the journal was looked through, for the next call."""


class Eraser(Protocol):
    """Takes out of a journal what is to be forgotten.

    Of a file, no byte is left. On a cluster it cannot be read through the servers any more and is overwritten in the
    files of the streams; the logs by which servers replicate may keep the bytes until they are compacted.
    """

    async def tagged(self, life: int, tag: str, after: int = 0) -> Tagged:
        """The predictions of a model with this tag that are kept, also those that have expired.

        In a shared journal also those that were revealed, as far as their ids are remembered. `after` is `through` of
        a call before: then those that it has found need not be among them.
        """
        ...

    async def pages(self, life: int, seq: int) -> list[tuple[int, int, bytes]]:
        """The pages of outcomes of a model from an event on: the last event, the version, the outcomes."""
        ...

    async def erase(self, erasure: Erasure) -> None:
        """Replace and remove; JournalUnavailable if that cannot be done at the moment. It may be done again."""
        ...


@dataclass(frozen=True, slots=True)
class Figures:
    """How a journal fares."""

    queued: int
    """How many records wait to become durable."""
    commits: Timings
    """How long it took until events were durable."""
    failures: int
    """How often writing failed."""
    damage_found: int
    """How often something was found that is not what was written, by a read or by looking for it."""
    is_connected: bool
    """Whether the journal can be reached, as far as is known."""
    checkpoint_failures: int = 0
    """How often SQLite's log could not be folded into its file."""
    file_bytes: dict[str, int] = field(default_factory=dict)
    """How large the `file` and its write-ahead log, the `wal`, are; nothing of a journal that is no file."""


class Peers(Protocol):
    """The other replicas that share the journal, which answer questions. Nothing of these is kept."""

    @property
    def replica(self) -> str:
        """The name that others `ask` this replica by, another one after each start; empty if there are no others."""
        ...

    async def answer(self, answer: Answer) -> None:
        """From now on answer the questions of other replicas with this. Called once, after `open`."""
        ...

    async def ask(self, replica: str, question: bytes) -> bytes | None:
        """The answer of another replica; None if there is none of this name, JournalUnavailable if it is silent."""
        ...

    async def answer_all(self, answer: Answer) -> None:
        """The same for questions to all replicas. Called once, after `open`."""
        ...

    async def ask_all(self, question: bytes) -> list[bytes]:
        """What the other replicas answer within a moment; those that take longer are not waited for."""
        ...


class Journal(Protocol):
    """An ordered, durable log of events, with the predictions that wait and the snapshots that shorten a load.

    Three promises hold for every implementation:

    - An event is applied (see `Apply`) only after it is durable, and an append is answered only after that.
    - A prediction id is revealed at most once, by whomever and however often it is tried.
    - A name may be deleted and used again, so a model is identified by its `life`: the sequence number of the event
      that made it. Whatever is handed over for a life that has ended is refused, or ignored where nobody waits.

    The constructor takes hold of the file or the cluster and raises StartError if it cannot be used. All other
    members are called on one event loop, between `open` and `close`. A read raises JournalUnavailable if the file
    or the cluster cannot be read, and Overloaded if too many wait; both change nothing, and the call may be repeated.
    """

    # Life of the journal

    async def open(self, apply: Apply, before: Before | None = None, distrust: Distrust | None = None) -> int:
        """Start; called once, before anything else. The newest time in the journal, 0 if it is empty.

        That is the time of the newest event; without other replicas, that of a prediction if it is later.

        In a shared journal, `apply` is called for every event after this moment, whichever replica has appended it,
        `before` is asked first, and `distrust` is called if events did not come. In others events are only of those who
        append them, and these can wait.
        StartError if it cannot be used.
        """
        ...

    async def close(self) -> None:
        """Finish what is queued, then release the file or the connection. Called once, at shutdown."""
        ...

    # Writing

    def append(self, event: AnyEvent, life: int = NEW_LIFE) -> Future[Appended]:
        """Make an event durable and apply it; the future is done after both. Called for every change of a model.

        `life` is that of the event's model. Events are kept in the order of the calls, as far as `keeps_order` says.

        Overloaded is raised by the call itself if the queue is full: nothing was queued. The future fails with

        - JournalUnavailable: nothing was recorded. JournalFull, a subclass, if there is no room for it;
        - OutcomeUnknown, a subclass, too: nothing was applied, but the event may be in the journal. It may be seen
          after a crash or, in a shared journal, arrive later. Repeat it with the same prediction id to find out;
        - UnknownModel: the life has ended, and nothing was recorded;
        - PredictionIdTaken: another model, or a waiting prediction, has the id (shared journals only).

        A caller that stops waiting for the future does not withdraw the event.
        """
        ...

    @property
    def keeps_order(self) -> bool:
        """Whether an event appended now is recorded after those still queued, and only if they are.

        Read before blocks of rounds are appended without waiting for the one before.
        """
        ...

    def put_pending(self, prediction: Prediction, life: int, *, wait: bool) -> Future[Appended] | None:
        """Keep a prediction until its label comes. Called for each prediction that is served.

        With `wait`, a future that is done when the prediction is durable and that fails like an append's; it is not
        new if another replica has kept one under this id. Without, None: the journal tries until it is kept, and a
        crash before that loses it. A shared journal returns None too if the model was deleted a moment ago.

        Overloaded if the queue is full, InvalidRequest if the prediction is larger than the journal takes: then
        nothing is kept.
        """
        ...

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Save a snapshot some time later, and trim events that are no longer needed or wanted.

        Called every `snapshot_every_events` events of a model or sooner, and at shutdown. Never raises: if it cannot be
        saved, that is logged, and loads replay more events.
        """
        ...

    def save_summaries(self, summaries: list[Summary], through: int | None = None) -> Future[Appended]:
        """Replace the summaries of some models; called every few seconds and when a model is unloaded.

        `through`: with these, every model's summary covers all its events up to that sequence number. Raises and
        fails like an append; then the old summaries stay.
        """
        ...

    async def settle(self) -> None:
        """Wait until everything handed over before this call is durable or has failed.

        Overloaded, without waiting, if the queue takes too long.
        """
        ...

    # Predictions

    async def find(
        self, prediction_id: str, *, expected: bool = False
    ) -> WaitingPrediction | Recorded | None:
        """What an id stands for: a waiting prediction, the event that revealed it, or None. Called by each reveal
        whose prediction no loaded model has, and for ids that clients choose.

        An event that is returned was applied here. `expected`: a client knows the id, so the call waits for a moment
        if it may be on its way into the journal.
        """
        ...

    async def recorded(self, life: int, event_id: str) -> Recorded | None:
        """The event of a model that has this id; None if there is none, and none is on its way from here."""
        ...

    async def may_arrive_later(self, prediction_id: str) -> bool:
        """Whether an id that `find` did not find may be of a prediction that another replica has yet to send."""
        ...

    async def overdue(
        self, after: int, through: int, limit: int, *, own: bool = False
    ) -> tuple[list[Overdue], int]:
        """The predictions that still wait and were made after the time `after`, up to `through`; by model, whether
        loaded or not. Called by every sweep, and when too many predictions wait.

        Those of models with `pending_ttl_seconds` of their own are among them only with `own`.
        Only the `limit` oldest are considered. The second value is when the newest of these was made, the `after`
        of the next call; `after` itself if there are none.
        """
        ...

    @property
    def pending_seconds_max(self) -> float:
        """How long a prediction may wait, whatever its model says: the journal may forget it then. Never changes."""
        ...

    async def overdue_of(self, life: int, through: int) -> tuple[Overdue | None, int | None]:
        """The same of one model, and when the oldest of its other predictions that wait was made."""
        ...

    async def own_times(self) -> list[OwnTime]:
        """The models with `pending_ttl_seconds` of their own of which predictions wait, loaded or not. Called by the
        first sweep; in a shared journal, where a replica takes over what another one has served, every few seconds."""
        ...

    async def forget_expired(self, through: int) -> None:
        """Let go of predictions that are void and were made up to this time, some at a time. Called by every sweep.

        Until then the journal tells them from unknown ones. On a cluster the servers remove them by their age.
        """
        ...

    # Models

    async def load(self, model: str) -> StoredModel | None:
        """What is needed to have a model in memory; None if there is none of this name. Called on its first use.

        All events applied so far are in it, and possibly newer ones, which `apply` is called for too.
        ModelUnreadable if it is damaged or cannot be read.
        """
        ...

    async def outcomes(self, model: str, seq: int) -> bytes | None:
        """The outcomes saved with the first snapshot at or after `seq`; None if there is none. Called by retries."""
        ...

    async def events(self, model: str, *, after: int, limit: int) -> list[Recorded]:
        """A model's events that are still kept, with numbers above `after`, oldest first. `limit` -1: all of them."""
        ...

    async def milestone(self, model: str, version: int | None) -> Milestone | None:
        """The newest milestone at or before a version, or the oldest there is if `version` is None.

        None if there is none. The version of the oldest snapshot may not be known: it is returned if no other can be,
        and the caller has to see whether it is of a later version.
        """
        ...

    async def history(self, milestone: Milestone, *, after: int, limit: int) -> list[Recorded] | None:
        """The model's events with numbers above `after`, which is the milestone's or the last of the call before.

        None if some of them have been trimmed meanwhile, or the model was deleted.
        """
        ...

    @property
    def eraser(self) -> "Eraser | None":
        """What forgets for good; None of a journal that cannot. Never changes."""
        ...

    async def models(self, page: Page) -> list[Listed]:
        """One page of the list of models."""
        ...

    async def summary(self, model: str) -> Summary | None:
        """A model's summary, None if there is no such model. A model that is unreadable has one too."""
        ...

    async def totals(self, prefix: str) -> Totals:
        """Sums over the summaries of the models whose names begin with `prefix`."""
        ...

    async def unsummarised(self, *, before: int | None = None) -> list[str]:
        """Models with events that their summaries do not cover, since a service was killed before it saved them.

        Called at the first list after a start. In a shared journal also every few seconds, with a time `before`:
        only models with such events up to it, since the replica that applied newer ones is about to save them.
        """
        ...

    # Figures, for /metrics and to decide what may be unloaded

    @property
    def figures(self) -> Figures:
        """What `/metrics` tells of the journal."""
        ...

    @property
    def submitted(self) -> int:
        """How many records were handed over since the start."""
        ...

    @property
    def finished(self) -> int:
        """How many of these, counted from the first without a gap, are durable and applied, or have failed."""
        ...

    @property
    def trouble(self) -> str | None:
        """What is wrong, in words for people, though events may still be taken; None if nothing is known to be.

        It is cleared by itself once the journal works again.
        """
        ...

    # Other replicas; without any, `sqlite/unshared.py` answers these

    @property
    def is_shared(self) -> bool:
        """Whether other replicas append to the journal too. Never changes."""
        ...

    @property
    def lag_events(self) -> int:
        """How many events are known to be in the journal and are not yet applied here."""
        ...

    @property
    def why_out_of_touch(self) -> str | None:
        """Why this replica does not know what others append at the moment, in words for people; None if it does."""
        ...

    @property
    def peers(self) -> Peers:
        """The other replicas. Known after `open`, and never changes."""
        ...

    async def refresh(self) -> None:
        """Ask how far the journal has come, so that the three above are up to date. Gives up soon; never raises."""
        ...

    def time_us(self) -> int:
        """The time by this machine's clock; in a shared journal, within a second of the time by its servers' clocks."""
        ...
