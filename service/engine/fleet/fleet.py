"""The models in memory: loaded on first use, the least recently used unloaded, snapshots saved as they change."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from service.engine.fleet.drifts import report_drift
from service.engine.fleet.live import Live, model_from
from service.engine.fleet.loading import Loading
from service.engine.fleet.model_count import ModelCount
from service.engine.fleet.versions import WAIT_SECONDS, Versions
from service.engine.model.outcomes import BlockOutcome, Outcome
from service.errors import ModelUnreadable, Overloaded, UnknownModel
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
from service.journal.protocol import Appended, Journal, Overdue

DELETED_MAX = 1_000
SAVED_AT_ONCE = 1_000

log = logging.getLogger(__name__)


class Fleet:
    """Models by name. `apply` is the only way in which one changes."""

    def __init__(self, journal: Journal, *, loaded_max: int, snapshot_every_events: int) -> None:
        self._journal = journal
        self._loaded_max = loaded_max
        self._snapshot_every_events = snapshot_every_events
        self._loading = Loading(journal, self._apply_to, self._admit)
        self.model_count = ModelCount()
        self._versions = Versions()
        self._changed: OrderedDict[str, None] = OrderedDict()
        self._unsummarised: set[str] = set()
        self._summarising = asyncio.Lock()
        self._applied = 0
        self._deleting: dict[str, int] = {}
        """Models that are being deleted without being loaded, and how many predictions wait of each."""
        self.newest_event_at_start: int | None = None
        """The time of the newest event at the start; None once the journal was asked for `stale_summaries` up to it."""
        self.stale_summaries: set[str] = set()
        """Models with events that their summaries do not cover: a crash, or a full disk, came between."""
        self.tick = 0
        """Counts changes: events applied, predictions served or given up. A change is later if its tick is larger."""
        self.loaded: OrderedDict[str, Live] = OrderedDict()
        """Least recently used first."""
        self.owner: dict[str, Live] = {}
        """Which loaded model a waiting prediction belongs to."""
        self.pending_unloaded = 0
        """How many predictions wait of models that are not loaded, by their summaries."""
        self.deleted: OrderedDict[str, int] = OrderedDict()
        """The models deleted last, at most DELETED_MAX, and at which tick: for feeds, which report them."""

    @property
    def keeps_order(self) -> bool:
        """Whether an event submitted now is applied after those under way, and only if they are."""
        return self._journal.keeps_order

    def touch(self, name: str) -> Live | None:
        """The model of this name if it is loaded; it counts as the most recently used from now on."""
        live = self.loaded.get(name)
        if live is not None:
            self.loaded.move_to_end(name)
        return live

    async def get(self, name: str) -> Live:
        """The model of this name, loaded if it is not; UnknownModel if there is none.

        It may be unloaded whenever the caller awaits something: get it again after that, or raise `pins` before.
        """
        while (live := self.touch(name)) is None:
            if await self._loading.load(name) is None:
                raise UnknownModel(f"there is no model {name!r}")
        return live

    async def reach(self, name: str, version: int) -> None:
        """Wait until the model has come to this version; VersionNotReached if that takes too long."""
        # Without other replicas, no version can arrive that is not here yet.
        seconds = WAIT_SECONDS if self._journal.is_shared else 0.0
        await self._versions.reach(self.get, name, version, seconds)

    async def create(self, event: ModelCreated | ModelImported) -> Appended:
        """Append the first event of a model, which is loaded with it."""
        with self.model_count.creating(event.model):
            return await self._journal.append(event)

    def check_loaded(self, live: Live) -> None:
        """UnknownModel if a pinned model was deleted while its caller waited for something."""
        if self.loaded.get(live.model.name) is not live:
            raise UnknownModel(f"the model {live.model.name!r} was deleted meanwhile")

    async def append(self, live: Live, event: AnyEvent) -> Appended:
        """Make an event of a loaded model durable and apply it; the model stays loaded meanwhile."""
        self.check_loaded(live)
        live.pins += 1  # until the caller goes on: others might unload it between its applying and that
        try:
            return await self.submit(live, event)
        finally:
            live.pins -= 1

    def submit(self, live: Live, event: AnyEvent) -> asyncio.Future[Appended]:
        """The same without waiting, for callers with several events under way. They pin the model themselves."""
        appended = self._journal.append(event, live.life)
        live.submitted = self._journal.submitted
        return appended

    async def expire_unloaded(self, overdue: Overdue, at: int) -> bool:
        """Record predictions of a model that is not loaded as expired, without loading it.

        False, and nothing is recorded, if it is just being loaded.
        """
        name = overdue.model
        if name in self.loaded or name in self._loading:
            return False
        event = PredictionsExpired(name, at, overdue.count, overdue.through)
        with suppress(UnknownModel):  # deleted meanwhile, with its predictions
            await self._loading.append_unloaded(event, overdue.life)
        self.pending_unloaded = max(0, self.pending_unloaded - overdue.count)
        return True

    async def delete(self, event: ModelDeleted) -> None:
        """Delete a model. It is not loaded for that, so that one that cannot be read can be deleted too."""
        name = event.model
        if (live := self.touch(name)) is not None:
            await self.append(live, event)
            return
        if (summary := await self._journal.summary(name)) is None:
            raise UnknownModel(f"there is no model {name!r}")
        self._deleting[name] = summary.pending
        try:
            await self._journal.append(event, summary.life)
        finally:
            self._deleting.pop(name, None)

    def apply(self, seq: int, event: AnyEvent) -> Outcome | BlockOutcome | None:
        """Apply a durable event: the journal calls this for every one, in its order."""
        self._applied = seq
        name = event.model
        live = self.loaded.get(name)
        if isinstance(event, ModelDeleted):
            self._apply_deletion(seq, event, live)
            return None
        if live is None:
            is_loading = self._loading.defer(seq, event)
            if isinstance(event, ModelCreated | ModelImported) and not is_loading and self._is_wanted(name):
                self._admit(Live(model_from(event), seq, seq))
            self.model_count.apply(event)
            return None
        if isinstance(event, RoundRevealed | RoundLearned) and event.prediction_id is not None:
            self.owner.pop(event.prediction_id, None)
        elif isinstance(event, ModelReset):
            self._forget_pending(live)
        outcome = self._apply_to(live, seq, event)
        self.changed(live)
        if live.since_snapshot >= self._snapshot_every_events:
            self._journal.save_snapshot(live.snapshot())
        return outcome

    def _apply_deletion(self, seq: int, event: ModelDeleted, live: Live | None) -> None:
        self.model_count.apply(event)
        if live is not None:
            self._remove(live)
        else:
            self._loading.defer(seq, event)
            self.pending_unloaded = max(0, self.pending_unloaded - self._deleting.get(event.model, 0))
        self.deleted[event.model] = self.tick = self.tick + 1
        self.deleted.move_to_end(event.model)
        if len(self.deleted) > DELETED_MAX:
            self.deleted.popitem(last=False)

    def _is_wanted(self, name: str) -> bool:
        """Whether a new model is loaded at once. One that another replica has made is loaded on its first use here."""
        return not self._journal.is_shared or self.model_count.is_creating(name) or name in self._versions

    def _apply_to(self, live: Live, seq: int, event: AnyEvent) -> Outcome | BlockOutcome | None:
        """Apply an event to a model, and report the drifts that it shows."""
        known = live.model.statistics.drift_count
        outcome = live.apply(seq, event)
        if live.model.statistics.drift_count > known:
            rises = outcome.rises if isinstance(outcome, BlockOutcome) else [live.model.revealed]
            for count, number in enumerate(rises, known + 1):
                report_drift(self._journal, live, event.at, number, count)
        return outcome

    def changed(self, live: Live) -> None:
        """Note that a model's statistics have changed: feeds, summaries and those who wait for a version use it."""
        self.tick += 1
        live.tick = self.tick
        name = live.model.name
        self._changed[name] = None
        self._changed.move_to_end(name)
        self._unsummarised.add(name)
        if name in self._versions:
            self._versions.changed(name)

    def changed_since(self, tick: int) -> Iterator[Live]:
        """The loaded models that have changed since, the latest first."""
        for name in reversed(self._changed):
            live = self.loaded[name]
            if live.tick <= tick:
                return
            yield live

    async def save_all(self) -> None:
        """Save a snapshot of every model that has changed since its last, as fast as the journal takes them."""
        changed = [live for live in self.loaded.values() if live.since_snapshot]
        for start in range(0, len(changed), SAVED_AT_ONCE):
            for live in changed[start : start + SAVED_AT_ONCE]:
                self._journal.save_snapshot(live.snapshot())
            with suppress(Overloaded):  # without these snapshots the next start replays more events
                await self._journal.settle()

    async def summarise(self) -> None:
        """Bring all summaries up to date, also those that were stale at the start."""
        async with self._summarising:  # a second caller waits until the first one's summaries are on disk
            await self._load_stale()
            await self._save_summaries()

    async def summarise_loaded(self) -> None:
        """The same without those that were stale at the start, which may be many: the next start finds them again."""
        async with self._summarising:
            await self._find_stale()
            await self._save_summaries()

    async def _find_stale(self) -> None:
        if self.newest_event_at_start is not None:  # asked here and not in `open`, so that a start is quick
            self.stale_summaries.update(await self._journal.unsummarised(before=self.newest_event_at_start))
            self.newest_event_at_start = None

    async def _load_stale(self) -> None:
        """A model that is loaded counts as changed, so it is summarised like any other."""
        await self._find_stale()
        for name in tuple(self.stale_summaries):
            with suppress(UnknownModel, ModelUnreadable):  # its summary stays as it is
                await self.get(name)
            self.stale_summaries.discard(name)

    async def _save_summaries(self) -> None:
        has_caught_up = self.stale_summaries <= self.loaded.keys()
        names, self._unsummarised = self._unsummarised, set()
        if names:
            summaries = [self.loaded[name].summary() for name in names]
            try:
                through = self._applied if has_caught_up else None
                await self._journal.save_summaries(summaries, through=through)
            except BaseException:
                self._unsummarised |= names & self.loaded.keys()
                raise

    def _admit(self, live: Live) -> None:
        self.loaded[live.model.name] = live
        self.owner.update(dict.fromkeys(live.pending, live))
        self.pending_unloaded = max(0, self.pending_unloaded - len(live.pending))
        self.changed(live)
        excess = len(self.loaded) - self._loaded_max
        if excess > 0:
            finished = self._journal.finished
            idle = (old for old in self.loaded.values() if old is not live and old.is_idle(finished))
            for old in list(islice(idle, excess)):
                with suppress(Overloaded):  # then it stays a little longer
                    self._unload(old)

    def _unload(self, live: Live) -> None:
        name = live.model.name
        if name in self._unsummarised:
            saved = self._journal.save_summaries([live.summary()])
            saved.add_done_callback(
                lambda saved: self.stale_summaries.add(name) if saved.exception() else None
            )
        self.pending_unloaded += len(live.pending)
        self._remove(live)

    def _remove(self, live: Live) -> None:
        name = live.model.name
        del self.loaded[name], self._changed[name]
        self._unsummarised.discard(name)
        self._forget_pending(live)

    def _forget_pending(self, live: Live) -> None:
        for prediction_id in live.pending:
            self.owner.pop(prediction_id, None)
