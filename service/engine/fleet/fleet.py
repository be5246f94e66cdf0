"""The models in memory: loaded on first use, the least recently used unloaded, snapshots saved as they change."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar
from weakref import WeakSet

from service.engine.clock import Clock
from service.engine.engine_settings import EngineSettings
from service.engine.fleet.budgets import MemoryUse, ModelCount
from service.engine.fleet.large_models import in_thread, is_large_import, read_in_thread, takes_long_to_read
from service.engine.fleet.live import Live
from service.engine.fleet.loading import Loading, SetAside
from service.engine.fleet.pending import Waiting
from service.engine.fleet.reporting import report_drift, report_promotions
from service.engine.fleet.snapshots import Saving
from service.engine.fleet.unloading import Excess
from service.engine.fleet.version_waits import WAIT_SECONDS, Versions
from service.engine.models.checks import NONE_NEW, NewLabels, check_new_labels
from service.engine.models.model import Model, model_from
from service.engine.models.outcomes import BlockOutcome, Outcome, outcome_bytes
from service.errors import ModelDamaged, ModelUnreadable, Overloaded, UnknownModel
from service.events import (
    VOIDING,
    AnyEvent,
    ModelCreated,
    ModelDeleted,
    ModelImported,
    ModelRebuilt,
    ModelRolledBack,
    PredictionsExpired,
    PredictionVoided,
    RoundCorrected,
    RoundErased,
    RoundLearned,
    RoundRevealed,
    TagForgotten,
)
from service.journal.protocol import Appended, Journal, Overdue, OwnTime, own_ttl_us
from service.runtime.byte_budget import Tenants

DELETED_MAX = 1_000
SUMMARISED_AT_ONCE = 500
"""How many summaries go to the journal with one commit, which others wait for."""


WITH_PREDICTION = (RoundRevealed, RoundLearned, PredictionVoided, RoundErased)
"""Events after which a prediction does not wait any more."""
BRINGING_BACK = (ModelRebuilt, ModelRolledBack)

T = TypeVar("T")

log = logging.getLogger(__name__)


class Fleet:
    """Models by name. `apply` is the only way in which one changes."""

    def __init__(
        self, journal: Journal, clock: Clock, settings: EngineSettings, tenants: Tenants | None = None
    ) -> None:
        self._journal = journal
        self._clock = clock
        self.tenants = tenants or Tenants()
        self.memory = MemoryUse(settings, self.tenants)
        self._saving = Saving(journal, self.memory, every_events=settings.snapshot_every_events)
        self._loading = Loading(journal, self._apply_to, self._admit)
        self.model_count = ModelCount(self.tenants)
        self._versions = Versions()
        self._changed: OrderedDict[str, None] = OrderedDict()
        self._distrusted: WeakSet[Live] = WeakSet()
        """Models that were let go since events are missing, as far as a request still has them."""
        self.unsummarised: set[str] = set()
        """Loaded models that have changed since their summaries were saved."""
        self._summarising = asyncio.Lock()
        self._applied = 0
        self._deleting: dict[str, int] = {}
        """Models that are being deleted without being loaded, and how many predictions wait of each."""
        self._newest_at_start: int | None = None
        """The time of the newest event at the start; None once the journal was asked for `stale_summaries` up to it."""
        self.stale_summaries: set[str] = set()
        """Models with events that their summaries do not cover: a crash, or a full disk, came between."""
        self.tick = 0
        """Counts changes: events applied, predictions served or given up. A change is later if its tick is larger."""
        self.unloaded_own_times: list[OwnTime] = []
        """Models with `pending_ttl_seconds` of their own that were unloaded while predictions waited. `Expiry` takes
        them out."""
        self.unfinished: set[str] = set()
        """Loaded models with corrections that are not in force, or forgotten content that is not erased yet,
        until they are handled."""
        self.unfinished_came = asyncio.Event()
        self.set_aside = SetAside()
        self.loaded: dict[str, Live] = {}
        self.waiting = Waiting(self.tenants, settings.pending_bytes_max)
        """The predictions of loaded models that wait."""
        self._excess = Excess(journal, self.memory, self.waiting)
        self.deleted: OrderedDict[str, int] = OrderedDict()
        """The models deleted last, at most DELETED_MAX, and at which tick: for feeds, which report them."""

    async def open(self) -> None:
        """Open the journal and follow it."""
        apply = self._apply_of_others if self._journal.is_shared else self.apply
        self._newest_at_start = await self._journal.open(apply, self.being_read, self.distrust)
        self._clock.start_after(self._newest_at_start)

    @property
    def keeps_order(self) -> bool:
        """Whether an event submitted now is applied after those under way, and only if they are."""
        return self._journal.keeps_order

    def touch(self, name: str) -> Live | None:
        """The model of this name if it is loaded; it counts as the most recently used from now on."""
        live = self.loaded.get(name)
        if live is not None:
            live.peers.move_to_end(name)
        return live

    async def get(self, name: str) -> Live:
        """The model of this name, loaded if it is not; UnknownModel if there is none, ModelDamaged if it is set aside.

        It may be unloaded whenever the caller awaits something: get it again after that, or raise `pins` before.
        """
        while (live := self.touch(name)) is None:
            self.set_aside.check(name)
            try:
                if await self._loading.load(name) is None:
                    raise UnknownModel(f"there is no model {name!r}")
            except ModelDamaged as error:
                self.set_aside.add(name, error.detail)
                raise
        return live

    async def read(self, model: Model, read: Callable[[Model], T]) -> T:
        """What a function reads of a model while nothing changes it: in a thread, if that takes long.

        The model is a loaded one, without anything awaited since, or one of the past.
        """
        if not takes_long_to_read(model):
            return read(model)
        live = self.loaded.get(model.name)
        if live is None or live.model is not model:
            return await in_thread(read, model)
        return await read_in_thread(live, self._journal, read)

    def being_read(self, name: str) -> asyncio.Future[None] | None:
        """What has to be waited for before an event of another replica is applied to a model."""
        live = self.loaded.get(name)
        return live.held if live is not None and live.is_only_read else None

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
            self.set_aside.check(live.model.name)
            if live in self._distrusted:
                raise ModelUnreadable(f"events of {live.model.name!r} are missing here: reloading it")
            raise UnknownModel(f"the model {live.model.name!r} was deleted in the meantime")

    async def append(self, live: Live, event: AnyEvent, new_labels: NewLabels = NONE_NEW) -> Appended:
        """Make an event of a loaded model durable and apply it; the model stays loaded meanwhile.

        `new_labels` are those that it brings: until it is applied, others have to count them.
        """
        self.check_loaded(live)
        if live.held is not None:
            await self._released(live)
            check_new_labels(live.model, new_labels, live.new_labels)
        live.pins += 1  # until the caller goes on: others might unload it between its applying and that
        try:
            return await self.submit(live, event, new_labels)
        finally:
            live.pins -= 1

    async def _released(self, live: Live) -> None:
        with live.pinned():
            await live.released()
        self.check_loaded(live)

    def submit(
        self, live: Live, event: AnyEvent, new_labels: NewLabels = NONE_NEW
    ) -> asyncio.Future[Appended]:
        """The same without waiting, for callers with several events under way. They pin the model themselves."""
        appended = self._journal.append(event, live.life)
        live.submitted = self._journal.submitted
        if new_labels:
            live.new_labels |= new_labels
            appended.add_done_callback(lambda _: live.forget_new(new_labels))
        return appended

    async def expire_unloaded(self, overdue: Overdue, at: int, limit: str = "") -> bool:
        """Record predictions of a model that is not loaded as expired, or as evicted for a limit, without loading it.

        False, and nothing is recorded, if it is just being loaded.
        """
        name = overdue.model
        if name in self.loaded or name in self._loading:
            return False
        evicted = overdue.count if limit else 0
        event = PredictionsExpired(name, at, overdue.count, overdue.through, evicted=evicted, limit=limit)
        with suppress(UnknownModel):  # deleted meanwhile, with its predictions
            await self._loading.append_unloaded(event, overdue.life)
        self.waiting.count_unloaded(name, -overdue.count)
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

    def _apply_of_others(self, seq: int, event: AnyEvent) -> Outcome | BlockOutcome | None:
        """Apply an event that another replica may have timed; the clock here does not fall behind it."""
        self._clock.follow(event.at)
        return self.apply(seq, event)

    def apply(self, seq: int, event: AnyEvent) -> Outcome | BlockOutcome | None:
        """Apply a durable event: the journal calls this for every one, in its order.

        ModelDamaged if it cannot be applied: then its model is set aside, and the next event is to be applied.
        """
        self._applied = seq
        name = event.model
        live = self.loaded.get(name)
        if isinstance(event, ModelDeleted):
            self._apply_deletion(seq, event, live)
            return None
        if live is None:
            self.tick += 1  # totals know of models that are not loaded, too
            is_loading = self._loading.defer(seq, event)
            is_wanted = not is_loading and self._is_wanted(name)
            self.model_count.apply(event)
            if isinstance(event, ModelCreated | ModelImported):
                if is_wanted and is_large_import(event):
                    self._versions.changed(name)  # they load it, beside the loop
                elif is_wanted:
                    self._admit(self._made_by(seq, event))
            elif not isinstance(event, PredictionsExpired):  # which nobody waits for
                self.set_aside.check(name)
            return None
        prediction_id = event.prediction_id if isinstance(event, WITH_PREDICTION) else None
        if prediction_id is not None:
            if seq > live.seq:
                self.waiting.let_go(live, prediction_id)
        elif isinstance(event, VOIDING):
            self._forget_pending(live)
        elif isinstance(event, TagForgotten):
            self._apply_forgetting(live, seq, event)
            return None
        outcome = self._apply_to(live, seq, event)
        self.changed(live)
        if isinstance(event, RoundCorrected):
            self._note_unfinished(name)
        # Outcomes of rounds with an id are kept, for retries.
        if (
            prediction_id is not None
            and isinstance(outcome, Outcome)
            and self.memory.add_outcomes(outcome_bytes(outcome))
        ):
            self._saving.save_outcomes()
        self._saving.save_if_due(live)
        if self.memory.weigh(live):
            self._unload_excess(live)
        return outcome

    def _apply_forgetting(self, live: Live, seq: int, event: TagForgotten) -> None:
        outcomes_bytes = live.outcomes.size_bytes
        self._apply_to(live, seq, event)
        self.memory.add_outcomes(live.outcomes.size_bytes - outcomes_bytes)
        self.changed(live)
        self._note_unfinished(event.model)
        self._saving.save_if_due(live)

    def _note_unfinished(self, name: str) -> None:
        self.unfinished.add(name)
        self.unfinished_came.set()

    def _apply_deletion(self, seq: int, event: ModelDeleted, live: Live | None) -> None:
        self.model_count.apply(event)
        self.set_aside.discard(event.model)
        if live is not None:
            self._remove(live)
        else:
            self._loading.defer(seq, event)
            self.waiting.count_unloaded(event.model, -self._deleting.get(event.model, 0))
        self.deleted[event.model] = self.tick = self.tick + 1
        self.deleted.move_to_end(event.model)
        if len(self.deleted) > DELETED_MAX:
            self.deleted.popitem(last=False)

    def _is_wanted(self, name: str) -> bool:
        """Whether a new model is loaded at once. One that another replica has made is loaded on its first use here."""
        return not self._journal.is_shared or self.model_count.is_creating(name) or name in self._versions

    def _apply_to(self, live: Live, seq: int, event: AnyEvent) -> Outcome | BlockOutcome | None:
        """Apply an event to a model, and report the drifts that it shows and the promotions that it brings."""
        known = live.model.statistics.drift.count
        contest = live.model.contest
        promotions = 0 if contest is None else contest.promotions
        try:
            outcome = live.apply(seq, event)
        except MemoryError:  # that is not the model's: the process ends, and a new one applies it
            raise
        except Exception as error:
            if self.loaded.get(live.model.name) is live:
                self.distrust(live.model.name)
            raise self.set_aside.add_failed(seq, event, error) from error
        # A rollback or a rebuild may bring back statistics that have found more: these drifts were reported already.
        if live.model.statistics.drift.count > known and not isinstance(event, BRINGING_BACK):
            rises = outcome.rises if isinstance(outcome, BlockOutcome) else [live.model.revealed]
            for count, number in enumerate(rises, known + 1):
                report_drift(self._journal, live, event.at, number, count)
        if contest is not None and contest.promotions > promotions:
            report_promotions(self._journal, live, event.at, promotions)
        return outcome

    def distrust(self, name: str) -> None:
        """Let go of a model that lacks events, or may have applied one in part; it is loaded again at its next use."""
        live = self.loaded.get(name)
        if live is not None:
            self.waiting.count_unloaded(name, live.waiting)
            self._remove(live)
            self._versions.changed(name)
            self._distrusted.add(live)

    def _made_by(self, seq: int, event: AnyEvent) -> Live:
        """A new model, by its first event."""
        try:
            return Live(model_from(event), seq, seq)
        except MemoryError:
            raise
        except Exception as error:
            raise self.set_aside.add_failed(seq, event, error) from error

    def changed(self, live: Live) -> None:
        """Note that a model's statistics have changed: feeds, summaries and those who wait for a version use it."""
        self.tick += 1
        live.tick = self.tick
        name = live.model.name
        if self.loaded.get(name) is not live:
            return  # deleted while a request was busy with it
        self._changed[name] = None
        self._changed.move_to_end(name)
        self.unsummarised.add(name)
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
        """Save a snapshot of every model that has changed since its last."""
        await self._saving.save_all(list(self.loaded.values()))

    async def save(self, live: Live) -> None:
        """Save a snapshot of one model, if it has changed since its last."""
        await self._saving.save_all([live])

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
        if self._newest_at_start is not None:  # asked here and not in `open`, so that a start is quick
            self.stale_summaries.update(await self._journal.unsummarised(before=self._newest_at_start))
            self._newest_at_start = None

    async def _load_stale(self) -> None:
        """A model that is loaded counts as changed, and is summarised like any other."""
        await self._find_stale()
        for name in tuple(self.stale_summaries):
            with suppress(UnknownModel, ModelUnreadable):  # its summary stays as it is
                await self.get(name)
            self.stale_summaries.discard(name)

    async def _save_summaries(self) -> None:
        through = self._applied if self.stale_summaries <= self.loaded.keys() else None
        changed = list(self.unsummarised)
        for start in range(0, len(changed), SUMMARISED_AT_ONCE):
            end = start + SUMMARISED_AT_ONCE
            # One that was unloaded meanwhile has been summarised with that.
            names = self.unsummarised.intersection(changed[start:end])
            self.unsummarised -= names
            summaries = [self.loaded[name].summary() for name in names]
            try:
                await self._journal.save_summaries(
                    summaries, through=through if end >= len(changed) else None
                )
            except BaseException:
                self.unsummarised |= names & self.loaded.keys()
                raise

    def _admit(self, live: Live) -> None:
        self._clock.follow(live.newest_time)
        self.loaded[live.model.name] = live
        live.knows_all_predictions = not self._journal.is_shared
        self.memory.admit(live)
        self.waiting.admit(live)
        self.waiting.count_unloaded(live.model.name, -live.waiting)
        self.changed(live)
        if live.model.amended is not None and live.model.amended.is_unfinished:
            self._note_unfinished(live.model.name)
        self._saving.save_if_due(live)  # a load that took long will be short next time
        self._unload_excess(live)

    def _unload_excess(self, wanted: Live) -> None:
        for live in self._excess.beside(wanted):
            try:
                self._unload(live)
            except Overloaded:  # its summary does not fit the queue now: then they stay a little longer
                return

    def _unload(self, live: Live) -> None:
        name = live.model.name
        if name in self.unsummarised:
            saved = self._journal.save_summaries([live.summary()])
            saved.add_done_callback(
                lambda saved: self.stale_summaries.add(name) if saved.exception() else None
            )
        self.waiting.count_unloaded(name, live.waiting)
        ttl_us, oldest = own_ttl_us(live.model.settings), live.oldest_waiting_at
        if ttl_us is not None and oldest is not None:
            self.unloaded_own_times.append(OwnTime(name, live.life, ttl_us, oldest))
        self._remove(live)

    def _remove(self, live: Live) -> None:
        name = live.model.name
        del self.loaded[name], self._changed[name]
        self.memory.remove(live)
        self.unsummarised.discard(name)
        self._forget_pending(live)

    def _forget_pending(self, live: Live) -> None:
        for prediction in live.pending.values():
            self.waiting.remove(live, prediction)
        if live.resting:
            self.waiting.forget_resting(live, len(live.resting))
