"""The models of the fleet as this replica knows them: a dictionary entry each, whether loaded or not."""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable
from heapq import nsmallest
from typing import Any, NamedTuple

from service.events import AnyEvent, ModelCreated, ModelDeleted, ModelImported, ModelReset, PredictionsExpired
from service.journal.jetstream.messages import Blob, StoredSummary, encode
from service.journal.jetstream.sums import Sums
from service.journal.protocol import Listed, Page, Summary, Totals


class Entry:
    """A living model: what its birth said, how far its events have come, and its summary."""

    __slots__ = (
        "birth_blob",
        "created_at",
        "last_seq",
        "life",
        "model",
        "settings",
        "stored_seq",
        "stored_through",
        "summary",
        "through",
        "voided_through",
    )

    def __init__(self, life: int, model: str, created_at: int, settings: dict[str, Any]) -> None:
        self.life = life
        self.model = model
        self.created_at = created_at
        self.settings = settings
        self.birth_blob: Blob | None = None
        self.last_seq = life
        """The newest event that the follower has seen of it."""
        self.voided_through = 0
        self.summary = Summary(model, created_at, 0, 0, 0, 0, 0)
        self.through = 0
        """Up to which event the summary is right."""
        self.stored_seq = 0
        self.stored_through = 0
        """Where the stored summary stands, and up to which event it is right."""


class Death(NamedTuple):
    """A death, and the life that it ended."""

    model: str
    seq: int
    at: int
    life: int
    birth_blob: Blob | None


SORT_KEYS: dict[str, Callable[[Summary], float]] = {
    "rounds": lambda s: s.revealed,
    "mistakes": lambda s: s.mistakes,
    "updated_at": lambda s: s.updated_at,
    "error_rate": lambda s: s.mistakes / s.revealed if s.revealed else -1.0,
}
"""What lists can be sorted by beside the name; largest first, equal ones by name."""


class Catalogue:
    """Which models live, in the log's order: the same on every replica that has come as far."""

    def __init__(self) -> None:
        self._by_name: dict[str, Entry] = {}
        self._by_life: dict[int, Entry] = {}
        self._settings: dict[bytes, dict[str, Any]] = {}
        self._names: list[str] | None = None
        self._sums = Sums(lambda: (entry.summary for entry in self._by_name.values()))
        self._deaths: dict[str, Death] = {}
        # By life, the first event that no summary covers: here in memory, or stored in the cluster.
        self._unsummarised: OrderedDict[int, int] = OrderedDict()
        self._unstored: OrderedDict[int, int] = OrderedDict()

    def get(self, model: str) -> Entry | None:
        return self._by_name.get(model)

    def living(self, life: int) -> Entry | None:
        return self._by_life.get(life)

    def last_life_event(self, model: str) -> int:
        """Where the newest birth or death of this name stands; 0 if there was none."""
        entry = self._by_name.get(model)
        if entry is not None:
            return entry.life
        death = self._deaths.get(model)
        return death.seq if death is not None else 0

    def deaths_before(self, at: int) -> list[Death]:
        """The deaths before a time of which no new life came."""
        return [death for death in self._deaths.values() if death.at < at]

    def forget_death(self, death: Death) -> None:
        if self._deaths.get(death.model) is death:
            del self._deaths[death.model]

    def take_life_event(self, seq: int, event: AnyEvent, blob: Blob | None = None) -> bool:
        """A birth or a death; whether it counts."""
        entry = self._by_name.get(event.model)
        if isinstance(event, ModelDeleted):
            if entry is None:
                self._take_late_death(seq, event)
                return False
            if seq <= entry.life:
                return False
            del self._by_name[event.model], self._by_life[entry.life]
            self._sums.remove(entry.summary)
            self._deaths[event.model] = Death(event.model, seq, event.at, entry.life, entry.birth_blob)
            self._unsummarised.pop(entry.life, None)
            self._unstored.pop(entry.life, None)
            self._names = None
            return True
        assert isinstance(event, ModelCreated | ModelImported)
        if entry is not None:
            return False
        settings = self._settings.setdefault(encode(event.settings), event.settings)
        entry = Entry(seq, event.model, event.at, settings)
        entry.birth_blob = blob
        self._by_name[event.model] = self._by_life[seq] = entry
        self._sums.add(entry.summary)
        self._deaths.pop(event.model, None)
        self._unsummarised[seq] = self._unstored[seq] = seq
        self._names = None
        return True

    def _take_late_death(self, seq: int, event: ModelDeleted) -> None:
        """A second death, or that of a model whose birth was too large for a message and is forgotten already."""
        first = self._deaths.get(event.model)
        life, blob = (first.life, first.birth_blob) if first is not None else (seq, None)
        self._deaths[event.model] = Death(event.model, seq, event.at, life, blob)

    def take_event(self, life: int, seq: int, event: AnyEvent) -> bool:
        """Any other event; whether its model lives."""
        entry = self._by_life.get(life)
        if entry is None or entry.model != event.model:
            return False
        self.note(entry, seq)
        if isinstance(event, PredictionsExpired):
            entry.voided_through = max(entry.voided_through, event.through)
        elif isinstance(event, ModelReset):
            entry.voided_through = max(entry.voided_through, event.at)
        return True

    def note(self, entry: Entry, seq: int) -> None:
        """There is an event of this model at `seq`."""
        entry.last_seq = seq
        self._unsummarised.setdefault(entry.life, seq)
        self._unstored.setdefault(entry.life, seq)

    # Summaries

    def take_summary(self, summary: Summary, through: int) -> None:
        """A summary made here, right up to an event."""
        entry = self._by_name.get(summary.model)
        if entry is not None and through >= entry.through:
            self._set_summary(entry, summary, through)

    def take_stored_summary(self, life: int, seq: int, stored: StoredSummary) -> None:
        """A summary that some replica has stored."""
        entry = self._by_life.get(life)
        if entry is None:
            return
        entry.stored_seq, entry.stored_through = seq, stored.through
        entry.voided_through = max(entry.voided_through, stored.voided_through)
        _settle(self._unstored, entry, stored.through)
        if stored.through > entry.through:
            s = stored
            summary = Summary(
                entry.model, s.updated_at, s.revealed, s.mistakes, s.updates, s.pending, s.expired
            )
            self._set_summary(entry, summary, s.through)

    def _set_summary(self, entry: Entry, summary: Summary, through: int) -> None:
        self._sums.remove(entry.summary)
        self._sums.add(summary)
        entry.summary, entry.through = summary, through
        _settle(self._unsummarised, entry, through)

    def unsummarised(self) -> list[str]:
        return [self._by_life[life].model for life in self._unsummarised]

    def to_store(self) -> list[tuple[Entry, StoredSummary]]:
        """The summaries that are newer than what is stored."""
        entries = (self._by_life[life] for life in self._unstored)
        return [(entry, _stored(entry)) for entry in entries if entry.through > entry.stored_through]

    def stored_through(self, position: int) -> int:
        """Up to which event every stored summary is right."""
        return min(self._unstored.values(), default=position + 1) - 1

    # Lists

    def page(self, page: Page) -> list[Listed]:
        if page.sort == "name":
            return [self._listed(name, name) for name in self._names_after(page)]
        key = SORT_KEYS[page.sort]
        keyed = (
            (-key(entry.summary), name)
            for name, entry in self._by_name.items()
            if name.startswith(page.prefix)
        )
        if page.after is not None:
            last_key, last_name = page.after
            keyed = (line for line in keyed if line > (-last_key, last_name))
        return [self._listed(name, -key) for key, name in nsmallest(page.limit, keyed)]

    def _names_after(self, page: Page) -> list[str]:
        if self._names is None:
            self._names = sorted(self._by_name)
        at = bisect_left(self._names, page.prefix)
        if page.after is not None:
            at = max(at, bisect_right(self._names, page.after[1]))
        found = self._names[at : at + page.limit]
        return [name for name in found if name.startswith(page.prefix)]

    def _listed(self, name: str, key: Any) -> Listed:
        entry = self._by_name[name]
        return Listed(name, entry.created_at, entry.settings, key)

    def totals(self, prefix: str) -> Totals:
        return self._sums.of(prefix)


def _settle(open_since: OrderedDict[int, int], entry: Entry, through: int) -> None:
    if entry.last_seq <= through:
        open_since.pop(entry.life, None)


def _stored(entry: Entry) -> StoredSummary:
    s = entry.summary
    return StoredSummary(
        entry.through,
        entry.voided_through,
        s.updated_at,
        s.revealed,
        s.mistakes,
        s.updates,
        s.pending,
        s.expired,
    )
