"""Rebuilds in the background: each model that has corrections which are not in force becomes what it should be.

Nothing of it is kept but the corrections themselves and, in the end, the event that carries the new state. So after a
kill the model is as it was, and the rebuild begins anew when the model is loaded.
"""

import asyncio
import logging
from asyncio import Semaphore, Task
from contextlib import suppress
from time import monotonic

from service.engine.clock import Clock
from service.engine.engine_settings import EngineSettings
from service.engine.fleet.fleet import Fleet
from service.engine.fleet.fold import Trimmed
from service.engine.fleet.large_models import ModelLock
from service.engine.fleet.live import Live
from service.engine.replay.counterfactual import Outdated
from service.engine.replay.erasing import erase
from service.engine.replay.playing import Playing, milestone_before
from service.errors import NovikoffError, UnknownModel, VersionGone
from service.events import ModelRebuilt, TagErased
from service.journal.protocol import Journal
from service.runtime.cooperative import end, keep_running

LOOK_SECONDS = 5.0
OTHERS_SECONDS = 30.0
"""How long another replica has for a rebuild before this one tries it."""
AGAIN_SECONDS = 60.0
"""When a rebuild that has failed is tried again."""
CATCH_UPS_MAX = 8
"""How often a rebuild follows what happens to the model meanwhile before it holds the model up for the rest."""

log = logging.getLogger(__name__)


class Rebuilds:
    """At most `jobs_max` at a time, one of a model."""

    def __init__(self, journal: Journal, fleet: Fleet, clock: Clock, settings: EngineSettings) -> None:
        self._journal = journal
        self._fleet = fleet
        self._clock = clock
        self._settings = settings
        self._turn = Semaphore(settings.jobs_max)
        self._tasks: dict[str, Task[None]] = {}
        self._due_at: dict[str, float] = {}
        """When models whose rebuild is due and not under way here are looked at."""
        self.rebuild_failures = self.forgetting_failures = 0

    def open(self) -> None:
        self._looking = keep_running("looking for models to rebuild", self._look())

    async def stop(self) -> None:
        await end([self._looking, *self._tasks.values()])

    def start(self, name: str) -> None:
        """Rebuild a model, unless that is under way: then it goes on until all corrections are in force."""
        self._due_at.pop(name, None)
        if name not in self._tasks:
            task = self._tasks[name] = asyncio.create_task(self._rebuild(name), name="rebuilding a model")
            task.add_done_callback(lambda _: self._tasks.pop(name, None))

    def _note(self, name: str) -> None:
        """A rebuild of a loaded model is due. On a cluster it is for the replica that took the correction."""
        if not self._journal.is_shared:
            self.start(name)
        elif name not in self._tasks:
            self._due_at.setdefault(name, monotonic() + OTHERS_SECONDS)

    async def _look(self) -> None:
        came = self._fleet.unfinished_came
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(came.wait(), LOOK_SECONDS)
            came.clear()
            while self._fleet.unfinished:
                self._note(self._fleet.unfinished.pop())
            for name in [name for name, at in self._due_at.items() if at <= monotonic()]:
                live = self._fleet.loaded.get(name)
                if live is not None and _is_unfinished(live):
                    self.start(name)
                self._due_at.pop(name, None)

    async def _rebuild(self, name: str) -> None:
        try:
            async with self._turn:
                # One that was deleted in the meantime may have been created again, and be due as well.
                while not await self._finished(await self._fleet.get(name)):
                    pass
        except UnknownModel:
            return  # deleted meanwhile
        except Exception as error:
            detail = error.detail if isinstance(error, NovikoffError) else repr(error)
            log.error("rebuild of %s postponed: %s", name, detail, extra={"model": name})
            live = self._fleet.loaded.get(name)
            if live is not None and is_forgetting(live):
                self.forgetting_failures += 1
            else:
                self.rebuild_failures += 1
            self._due_at[name] = monotonic() + AGAIN_SECONDS

    async def _finished(self, live: Live) -> bool:
        """Do all that there is to do for a model; False if it was deleted before that."""
        try:
            with live.pinned():
                while _is_unfinished(live):
                    while is_rebuilding(live):
                        await self._once(live)
                    await self._erase(live)
        except Exception:
            if self._fleet.loaded.get(live.model.name) is live:
                raise
            return False  # whatever it met came of that
        return True

    async def _once(self, live: Live) -> None:
        """Rebuild with the corrections that there are now, unless the model changes in a way that needs a new start."""
        amended = live.model.amended
        assert amended is not None
        through, since = amended.recorded, min(amended.due)
        seq, waiting = live.seq, list(live.pending.values())
        milestone = await milestone_before(self._journal, live.model, since - 1)
        self._fleet.check_loaded(live)  # else it may be that of another model of this name
        if milestone is None:
            raise VersionGone(since - 1, live.model.version)
        erasing = live.model.erasing
        replay = await Playing.start(self._journal, milestone, self._settings, erasing=erasing)
        try:
            async with asyncio.timeout(self._settings.fit_seconds_max):
                await replay.play(seq, waiting)
                while amended.in_force < through:
                    await self._finish(live, replay, through, since)
        except (Outdated, Trimmed):
            return  # once more, from another milestone
        finally:
            await replay.end()

    async def _finish(self, live: Live, replay: Playing, through: int, since: int) -> None:
        for _ in range(CATCH_UPS_MAX):
            if replay.seq == live.seq:
                break
            await replay.play(live.seq, live.pending.values())
        async with ModelLock(live):
            await self._journal.settle()
            self._fleet.check_loaded(live)
            # Other replicas may go on meanwhile. Without any, times are never the same.
            place = live.model.place if self._journal.is_shared else live.model.place[:1]
            state = await replay.state(live.seq, live.pending.values())
            self._fleet.check_loaded(live)
            event = ModelRebuilt(live.model.name, self._clock.now(), place, through, since, state)
            await self._fleet.submit(live, event)

    async def _erase(self, live: Live) -> None:
        amended = live.model.amended
        if amended is not None and amended.erasing is not None:
            through = amended.forgettings
            await erase(self._journal, self._fleet, live, self._settings)
            amended = live.model.amended
            if amended is not None and amended.erasing is not None:  # else another replica was as quick
                await self._fleet.append(live, TagErased(live.model.name, self._clock.now(), through))


def _is_unfinished(live: Live) -> bool:
    return live.model.amended is not None and live.model.amended.is_unfinished


def is_rebuilding(live: Live) -> bool:
    """Whether a model has corrections that are not in force."""
    return live.model.amended is not None and live.model.amended.is_due


def is_forgetting(live: Live) -> bool:
    """Whether something that a model is to forget is in the journal still."""
    return live.model.amended is not None and live.model.amended.erasing is not None
