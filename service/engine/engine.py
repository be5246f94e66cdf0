"""The engine as a whole: its parts, opened and closed together."""

from collections.abc import Callable, Sequence
from typing import Any

from service.engine.clock import Clock
from service.engine.engine_settings import EngineSettings
from service.engine.fleet.fleet import Fleet
from service.engine.fleet.models import Models
from service.engine.housekeeping import Housekeeping
from service.engine.jobs.fits import Fits
from service.engine.jobs.jobs import Jobs
from service.engine.jobs.what_ifs import Replaying, WarmChallengers, WhatIfs
from service.engine.replay.past import Past
from service.engine.replay.past_rounds import Record
from service.engine.replay.rebuilds import Rebuilds
from service.engine.replay.rollbacks import GoingBack
from service.engine.rounds.blocks import Blocks
from service.engine.rounds.corrections import Corrections
from service.engine.rounds.examples import Examples
from service.engine.rounds.forgetting import Forgetting
from service.engine.rounds.pending_list import WaitingList
from service.engine.rounds.rounds import Rounds
from service.journal.protocol import Journal
from service.runtime.byte_budget import ByteBudget, Tenants


class Engine:
    """`rounds`: predict, reveal, learn. `waiting_list`: pending predictions. `blocks`: many rounds at once.
    `models`: create, list, reset, delete. `past`: older versions. `going_back`: rollback and fork. `record`: rounds as
    data. `fits`, `what_ifs` and `warm_challengers`: what takes long, as `jobs`. `corrections`: of what was wrong.
    `fleet`: the models in memory. `copies`: those that answers are made from."""

    def __init__(
        self,
        journal: Journal,
        settings: EngineSettings,
        default_settings: dict[str, dict[str, Any]] | None = None,
        *,
        clock: Clock | None = None,
        tenants: Callable[[], Sequence[str]] = lambda: (),
    ) -> None:
        """`default_settings`: of models that a first example creates, by the kind of its features.
        `clock`: another than that of the journal, for tests. `tenants`: what the names of their models begin with, a
        prefix of another one before it."""
        self._journal = journal
        self.is_open = False
        self.clock = clock or Clock(journal.time_us, is_shared=journal.is_shared)
        self.fleet = fleet = Fleet(journal, self.clock, settings, Tenants(tenants))
        self.models = Models(journal, fleet, self.clock, settings, default_settings or {})
        self.past = Past(journal, fleet, settings)
        self.copies = ByteBudget(settings.copies_bytes_max, fleet.tenants)
        self.record = Record(journal, fleet, self.copies)
        self.going_back = GoingBack(fleet, self.models, self.past, self.clock)
        self.jobs = Jobs(journal, fleet, self.clock, settings)
        self.fits = Fits(self.jobs, journal, fleet, self.clock, settings)
        replaying = Replaying(journal, fleet, settings)
        self.what_ifs = WhatIfs(self.jobs, fleet, self.models, replaying)
        self.warm_challengers = WarmChallengers(self.jobs, fleet, self.models, replaying)
        examples = Examples(fleet, self.clock, settings)
        self.blocks = Blocks(fleet, self.models, examples, self.clock)
        self.rounds = Rounds(journal, fleet, self.models, examples, self.clock, settings)
        self.rebuilds = Rebuilds(journal, fleet, self.clock, settings)
        self.corrections = Corrections(journal, fleet, self.rounds, self.past, self.rebuilds, self.clock)
        self.waiting_list = WaitingList(journal, fleet, self.clock, self.rounds.expiry)
        self.forgetting = Forgetting(journal, fleet, self.past, self.rebuilds, self.clock)

    async def open(self) -> None:
        await self.fleet.open()
        await self._count()
        await self.jobs.open()
        await self.waiting_list.open()
        self.rebuilds.open()
        self._housekeeping = Housekeeping(self._journal, self.fleet, self.rounds.expiry)
        self._housekeeping.start()
        self.is_open = True

    async def _count(self) -> None:
        """Count the models and the predictions that wait, of each tenant and of nobody in particular."""
        in_all = await self._journal.totals("")
        models, pending = in_all.models, in_all.pending
        for tenant in self.fleet.tenants.all():
            of_one = await self._journal.totals(tenant)
            self._count_of(tenant, of_one.models, of_one.pending)
            models, pending = models - of_one.models, pending - of_one.pending
        self._count_of("", models, pending)

    def _count_of(self, tenant: str, models: int, pending: int) -> None:
        self.fleet.model_count.start(tenant, models)
        # In a shared journal each replica counts and expires only the predictions that it has served.
        if not self._journal.is_shared:
            self.fleet.waiting.count_unloaded(tenant, pending)

    async def close(self) -> None:
        """Save snapshots and close the journal. Nothing is lost without this, but the next start takes longer."""
        self.is_open = False
        await self.jobs.stop()
        await self.rebuilds.stop()
        await self._housekeeping.stop()
        await self.fleet.save_all()
        await self._journal.close()
