"""All models as this replica knows them from the log, whether loaded or not: an entry in memory for each."""

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from heapq import nlargest, nsmallest
from typing import Any, NamedTuple

from service.events import (
    VOIDING,
    AnyEvent,
    ModelCreated,
    ModelDeleted,
    ModelImported,
    ModelRebuilt,
    PredictionsExpired,
    PredictionVoided,
    RoundLearned,
    RoundRevealed,
)
from service.journal.jetstream.messages import UNKNOWN, Blob, Link, StoredSummary, encode
from service.journal.protocol import Listed, Page, Summary, Totals
from service.runtime.cooperative import Turns

FIGURES = ("updated_at", "revealed", "mistakes", "updates", "pending", "expired", "ewma_error_rate")
"""The fields of a `Summary` that are stored."""

AFTER_ALL = "~"
"""Comes after whatever follows in a name."""


@dataclass(slots=True)
class Entry:
    """A model that exists: how it was made, how far its events have come, and its summary."""

    life: int
    model: str
    created_at: int
    settings: dict[str, Any]
    creation_blob: Blob | None
    """Where the body of the event that made it is, if it was too large for a message."""
    summary: Summary
    last_seq: int
    """Its newest event that the follower has brought."""
    has_tags: bool = False
    """Whether an event was seen here that may have to be forgotten. Who has loaded the model has seen all since its
    last snapshot."""
    link: Link = UNKNOWN
    """The place in the chain of the model that the stored summary names; see `chains.py`."""
    voided_through: int = 0
    """Predictions made up to this time cannot be revealed any more."""
    through: int = 0
    """The last event that the summary covers."""
    stored_seq: int = 0
    """The sequence number, in the state stream, of the summary that is stored in the cluster."""
    stored_through: int = 0
    """The last event that the stored summary covers."""

    def note(self, event: AnyEvent) -> None:
        """Note which predictions an event leaves that can be revealed, and whether it may have to be forgotten."""
        if isinstance(event, RoundRevealed | RoundLearned | PredictionVoided):
            self.has_tags = self.has_tags or event.tag is not None
        elif isinstance(event, ModelRebuilt):  # its state knows of predictions that wait, which may have tags
            self.has_tags = True
        elif isinstance(event, PredictionsExpired):
            self.voided_through = max(self.voided_through, event.through)
        elif isinstance(event, VOIDING):
            self.voided_through = max(self.voided_through, event.at)


class Deletion(NamedTuple):
    """A model that was deleted. Kept for a while, since its creation and deletion are still in the log."""

    model: str
    seq: int
    """Of the deletion."""
    at: int
    life: int
    """The life that it ended."""
    creation_blob: Blob | None


def _error_rate(summary: Summary) -> float:
    return summary.mistakes / summary.revealed if summary.revealed else -1.0


SORT_KEYS: dict[str, Callable[[Summary], float]] = {
    "rounds": lambda s: s.revealed,
    "mistakes": lambda s: s.mistakes,
    "updated_at": lambda s: s.updated_at,
    "pending": lambda s: s.pending,
    "error_rate": _error_rate,
    "ewma_error_rate": lambda s: s.ewma_error_rate if s.ewma_error_rate is not None else _error_rate(s),
}
"""What lists can be sorted by beside the name; largest first, equal ones by name."""


class _First(NamedTuple):
    """The first event of a model that its summary does not cover."""

    seq: int
    """Its sequence number, or a smaller one: no event from there up to it is of the model."""
    at: int
    """Its time, or when the summary was made that covers the events before it."""


class Uncovered:
    """The first uncovered event of each model, by its life.

    A busy model is never covered completely. Each summary moves its first uncovered event forward all the same, so
    that one busy model does not hold back `first_seq`, up to which the summaries of all models are complete.
    """

    def __init__(self) -> None:
        self._first: dict[int, _First] = {}

    def __iter__(self) -> Iterator[int]:
        return iter(self._first)

    def add(self, life: int, seq: int, at: int) -> None:
        """Note an event at `seq`, of the time `at`, that the summary does not cover."""
        first = self._first.get(life)
        if first is None or seq < first.seq:
            self._first[life] = _First(seq, at)

    def cover(self, life: int, through: int, last_seq: int) -> None:
        """Note that the summary covers the events up to `through`; the model's newest event is `last_seq`."""
        first = self._first.get(life)
        if first is None:
            return
        if last_seq <= through:
            del self._first[life]
        elif first.seq <= through:
            self._first[life] = _First(through + 1, time.time_ns() // 1000)

    def drop(self, life: int) -> None:
        """The model was deleted."""
        self._first.pop(life, None)

    def since(self, before: int | None) -> list[int]:
        """The lives whose first uncovered event came up to the time `before`; None: all."""
        return [life for life, first in self._first.items() if before is None or first.at <= before]

    def first_seq(self, default: int) -> int:
        """The first uncovered event of all models; `default` if everything is covered."""
        return min((first.seq for first in self._first.values()), default=default)


class Catalogue:
    """Which models exist, by the events of the log: the same on every replica that has come as far."""

    def __init__(self) -> None:
        self._by_name: dict[str, Entry] = {}
        self._by_life: dict[int, Entry] = {}
        self._settings: dict[bytes, dict[str, Any]] = {}
        self._names: list[str] | None = None
        self._deletions: dict[str, list[Deletion]] = {}
        """Those of each name whose messages may still be in the log, oldest first."""
        # Events that no summary in memory covers, and those that no summary stored in the cluster covers.
        self._unsummarised = Uncovered()
        self._unstored = Uncovered()

    def get(self, model: str) -> Entry | None:
        return self._by_name.get(model)

    def get_life(self, life: int) -> Entry | None:
        return self._by_life.get(life)

    def last_lifecycle_seq(self, model: str) -> int:
        """The sequence number of the newest creation or deletion of this name; 0 if there was none."""
        entry = self._by_name.get(model)
        if entry is not None:
            return entry.life
        deletions = self._deletions.get(model)
        return deletions[-1].seq if deletions else 0

    def deletions_before(self, at: int) -> list[Deletion]:
        """Deletions before a time, whose messages may be purged."""
        return [each for known in self._deletions.values() for each in known if each.at < at]

    def forget_deletion(self, deletion: Deletion) -> None:
        rest = [each for each in self._deletions.pop(deletion.model, ()) if each is not deletion]
        if rest:
            self._deletions[deletion.model] = rest

    def take_lifecycle_event(self, seq: int, event: AnyEvent, blob: Blob | None = None) -> bool:
        """Enter a creation or a deletion. False if it changes nothing: the name exists already, or does not."""
        entry = self._by_name.get(event.model)
        if isinstance(event, ModelDeleted):
            if entry is None:
                self._take_repeated_deletion(seq, event)
                return False
            if seq <= entry.life:
                return False
            del self._by_name[event.model], self._by_life[entry.life]
            deletion = Deletion(event.model, seq, event.at, entry.life, entry.creation_blob)
            self._deletions.setdefault(event.model, []).append(deletion)
            self._unsummarised.drop(entry.life)
            self._unstored.drop(entry.life)
            self._names = None
            return True
        assert isinstance(event, ModelCreated | ModelImported)
        if entry is not None:
            return False
        settings = self._settings.setdefault(encode(event.settings), event.settings)
        summary = Summary(event.model, seq, event.at, 0, 0, 0, 0, 0)
        entry = Entry(seq, event.model, event.at, settings, blob, summary, seq)
        self._by_name[event.model] = self._by_life[seq] = entry
        self._unsummarised.add(seq, seq, event.at)
        self._unstored.add(seq, seq, event.at)
        self._names = None
        return True

    def _take_repeated_deletion(self, seq: int, event: ModelDeleted) -> None:
        """A deletion without a model: a second one, or the creation was in a blob that is purged already."""
        known = self._deletions.setdefault(event.model, [])
        life, blob = (known.pop()[-2:]) if known else (seq, None)
        known.append(Deletion(event.model, seq, event.at, life, blob))

    def take_event(self, life: int, seq: int, event: AnyEvent) -> bool:
        """Enter any other event; False if its model was deleted before it."""
        entry = self._by_life.get(life)
        if entry is None or entry.model != event.model:
            return False
        is_summarised = entry.last_seq <= entry.through
        entry.note(event)
        entry.last_seq = max(entry.last_seq, seq)
        if seq > entry.through:
            self._unsummarised.add(life, seq, event.at)
        if seq > entry.stored_through:
            self._unstored.add(life, seq, event.at)
        if is_summarised and isinstance(event, PredictionsExpired):  # summarised without loading the model
            self.take_summary(_after_expiry(entry.summary, event), seq)
        return True

    # Summaries

    def take_summary(self, summary: Summary, through: int) -> None:
        """Enter a summary made by this replica that covers all events up to `through`."""
        entry = self._by_life.get(summary.life)
        if entry is not None and through >= entry.through:
            self._set_summary(entry, summary, through)

    def take_stored_summary(self, life: int, seq: int, stored: StoredSummary) -> None:
        """Enter a summary that some replica has stored in the cluster, at `seq` of the state stream."""
        entry = self._by_life.get(life)
        if entry is None:
            return
        entry.stored_seq, entry.stored_through = seq, stored.through
        entry.voided_through = max(entry.voided_through, stored.voided_through)
        entry.link = stored.link
        self._unstored.cover(life, stored.through, entry.last_seq)
        if stored.through > entry.through:
            figures = {name: getattr(stored, name) for name in FIGURES}
            self._set_summary(entry, Summary(entry.model, life, **figures), stored.through)

    def _set_summary(self, entry: Entry, summary: Summary, through: int) -> None:
        entry.summary, entry.through = summary, through
        self._unsummarised.cover(entry.life, through, entry.last_seq)

    def unsummarised(self, before: int | None) -> list[str]:
        """Models with events that no summary covers; with `before`, only events up to that time count."""
        return [self._by_life[life].model for life in self._unsummarised.since(before)]

    def to_store(self, link: Callable[[int], Link]) -> list[tuple[Entry, StoredSummary]]:
        """The summaries that are newer than those stored in the cluster; `link` tells the newest place in a chain."""
        entries = (self._by_life[life] for life in self._unstored)
        return [
            (entry, _stored(entry, max(entry.link, link(entry.life))))
            for entry in entries
            if entry.through > entry.stored_through
        ]

    def stored_through(self, position: int) -> int:
        """The last event up to which the stored summaries cover everything."""
        return self._unstored.first_seq(position + 1) - 1

    # Lists

    def page(self, page: Page) -> list[Listed]:
        is_by_name = page.sort == "name"
        if is_by_name and not page.contains and not page.is_reversed:
            return [self._listed(name, name) for name in self._names_after(page)]
        key = (lambda _: 0.0) if is_by_name else SORT_KEYS[page.sort]
        keyed = (
            (-key(entry.summary), name)
            for name, entry in self._by_name.items()
            if name.startswith(page.prefix) and page.contains in name.lower()
        )
        if page.after is not None:
            last = (0.0 if is_by_name else -page.after[0], page.after[1])
            keyed = (line for line in keyed if (line < last if page.is_reversed else line > last))
        first = nlargest(page.limit, keyed) if page.is_reversed else nsmallest(page.limit, keyed)
        return [self._listed(name, name if is_by_name else -key) for key, name in first]

    def _names_after(self, page: Page) -> list[str]:
        names = self._names_with(page.prefix)
        at = 0 if page.after is None else bisect_right(names, page.after[1])
        return names[at : at + page.limit]

    def _names_with(self, prefix: str) -> list[str]:
        """The names that begin so, in their order."""
        if self._names is None:
            self._names = sorted(self._by_name)
        names = self._names
        return names[bisect_left(names, prefix) : bisect_left(names, prefix + AFTER_ALL)] if prefix else names

    def _listed(self, name: str, key: Any) -> Listed:
        entry = self._by_name[name]
        return Listed(name, entry.created_at, entry.settings, key)

    async def totals(self, prefix: str) -> Totals:
        """Others have their turns meanwhile: with 100,000 models it takes some 50 ms."""
        sums, turns = [0] * 6, Turns()
        for name in self._names_with(prefix):
            await turns.give()
            if (entry := self._by_name.get(name)) is not None:
                s = entry.summary
                figures = (1, s.revealed, s.mistakes, s.updates, s.pending, s.expired)
                sums = [total + figure for total, figure in zip(sums, figures, strict=True)]
        return Totals(*sums)


def _after_expiry(summary: Summary, event: PredictionsExpired) -> Summary:
    return replace(
        summary,
        updated_at=event.at,
        pending=max(0, summary.pending - event.count),
        expired=summary.expired + event.count,
    )


def _stored(entry: Entry, link: Link) -> StoredSummary:
    figures = {name: getattr(entry.summary, name) for name in FIGURES}
    return StoredSummary(entry.through, entry.voided_through, link=link, **figures)
