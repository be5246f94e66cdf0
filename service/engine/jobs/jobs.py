"""Jobs: one a model at a time, each in a process of its own.

On a cluster a job belongs to the replica that runs it. The id ends with that replica's name, so the others know whom
to ask.
"""

import asyncio
import logging
from asyncio import get_running_loop
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from service.engine.clock import Clock
from service.engine.engine_settings import EngineSettings
from service.engine.fleet.fleet import Fleet
from service.engine.fleet.live import Live
from service.engine.names import make_job_id
from service.errors import JobRunning, NovikoffError, Overloaded, UnknownJob
from service.journal.protocol import Journal
from service.runtime.byte_budget import Shares
from service.runtime.cooperative import end
from service.runtime.processes import Worker


class Job(msgspec.Struct):
    """A fit or a replay: `running`, then `done`, `failed` or `cancelled`."""

    id: str
    kind: str
    model: str
    options: dict[str, Any]
    started_at: int
    examples: int = 0
    """What a fit trains on."""
    state: str = "running"
    finished_at: int | None = None
    progress: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    error: str | None = None
    version: int | None = None

    def seconds_left(self, now: int) -> float | None:
        """How long it may still take, a fit if it needs `passes_max` passes; None if that is not known yet."""
        if self.state != "running" or not self.progress:
            return None
        done = self.progress
        share: float = done["passes"] / self.options["passes_max"] if self.kind == "fit" else done["share"]
        return (now - self.started_at) / 1e6 * (1 - share) / share if share else None


class Question(msgspec.Struct):
    """What one replica asks another about a job. The answer is the `Job`, or None if it is not there."""

    job_id: str
    cancel: bool


FINISHED_KEPT = 100
REPLICA_SEPARATOR = "-"
"""Stands in the id of a job before the name of the replica that runs it."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Running:
    """A job that is not finished: its tasks and what belongs to it."""

    job: Job
    tenant: str
    life: int
    """That of the model."""
    forgettings: int
    """How many times something of the model had been forgotten when it began."""
    accepted: asyncio.Future[None]
    """Done when the request was read; fails if something is wrong with it, which is the client's answer then."""
    worker: Worker | None = None
    work: asyncio.Task[None] = field(init=False)
    """May be cancelled at any time."""
    end: asyncio.Task[None] = field(init=False)
    """Waits for the work and tidies up after it; it is never cancelled."""

    def is_of(self, live: Live) -> bool:
        """Whether what it has learned may be kept: not if the model was reset, or some of that was forgotten."""
        return live.life == self.life and live.model.forgettings == self.forgettings


Work = Callable[[Running], Awaitable[None]]
"""What a job does. It fails with what it raises; its worker is ended in any case."""


class Jobs:
    """Starts, watches and cancels jobs. They are in memory only: a restart loses those that run."""

    def __init__(self, journal: Journal, fleet: Fleet, clock: Clock, settings: EngineSettings) -> None:
        self._journal = journal
        self._fleet = fleet
        self._clock = clock
        self._settings = settings
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._running: dict[str, Running] = {}
        self._places = Shares(fleet.tenants)
        """Of jobs that run, whose they are."""
        self.ended = {"done": 0, "failed": 0, "cancelled": 0}
        """How many have ended here, by their states."""

    async def open(self) -> None:
        """From now on tell other replicas of the jobs here."""
        await self._journal.peers.answer(self._answer)

    @property
    def running(self) -> int:
        """How many run here."""
        return len(self._running)

    async def find(self, job_id: str) -> Job:
        """A job, whichever replica it runs on."""
        return self._jobs.get(job_id) or await self._ask(Question(job_id, cancel=False))

    async def cancel(self, job_id: str) -> Job:
        """Cancel a job, whichever replica it runs on; a finished one stays as it is."""
        return await self._cancel(job_id) or await self._ask(Question(job_id, cancel=True))

    async def _ask(self, question: Question) -> Job:
        _, _, replica = question.job_id.partition(REPLICA_SEPARATOR)
        answer = await self._journal.peers.ask(replica, msgspec.msgpack.encode(question))
        job = msgspec.msgpack.decode(answer, type=Job | None) if answer is not None else None
        if job is None:
            raise UnknownJob(f"there is no job {question.job_id!r}")
        return job

    async def _answer(self, question: bytes) -> bytes:
        asked = msgspec.msgpack.decode(question, type=Question)
        job = await self._cancel(asked.job_id) if asked.cancel else self._jobs.get(asked.job_id)
        return msgspec.msgpack.encode(job)

    def check_room(self, name: str) -> None:
        """JobRunning or Overloaded unless a job of this model may be started now."""
        if any(running.job.model == name for running in self._running.values()):
            raise JobRunning(f"a job of {name!r} is running; wait for it, or cancel it")
        live = self._fleet.loaded.get(name)
        if live is not None and live.model.erasing:
            raise Overloaded(f"forgotten rounds of {name!r} are being erased; try again later")
        # With tenants there are two places at least: of one, nobody could leave anything to others.
        most = self._settings.jobs_max
        if self._fleet.tenants.are_there:
            most = max(most, 2)
        if not self._places.may_take(self._fleet.tenants.of(name), 1, most):
            left = "; the remaining places are for other tenants" if self._places.count < most else ""
            count = self._places.count
            running = "a job is running" if count == 1 else f"{count} jobs are running"
            raise Overloaded(f"{running}{left}; try again later")
        self._forget_some()

    def start(self, live: Live, kind: str, options: dict[str, Any], work: Work) -> Running:
        """Start a job for which there is room. The caller, or the work, says when the request is `accepted`."""
        now = self._clock.now()
        job_id = REPLICA_SEPARATOR.join(filter(None, (make_job_id(now), self._journal.peers.replica)))
        job = self._jobs[job_id] = Job(job_id, kind, live.model.name, options, now)
        running = Running(
            job, live.tenant, live.life, live.model.forgettings, get_running_loop().create_future()
        )
        self._running[job_id] = running
        self._places.add(live.tenant, 0)
        running.work = asyncio.create_task(self._within_limits(running, work))
        running.end = asyncio.create_task(self._finish(running))
        return running

    async def forget(self, running: Running) -> None:
        """Wait for the end of a job that has failed, and tell nobody of it."""
        await asyncio.wait([running.end])
        del self._jobs[running.job.id]

    async def _cancel(self, job_id: str) -> Job | None:
        running = self._running.get(job_id)
        if running is not None:
            await end([running.work])
            await asyncio.wait([running.end])
        return self._jobs.get(job_id)

    async def stop(self) -> None:
        for job_id in list(self._running):
            await self._cancel(job_id)

    def _forget_some(self) -> None:
        """Forget the oldest finished jobs of the tenant that has most, until FINISHED_KEPT are left."""
        finished = [job_id for job_id in self._jobs if job_id not in self._running]
        while len(finished) > FINISHED_KEPT:
            owners = [self._fleet.tenants.of(self._jobs[job_id].model) for job_id in finished]
            ((heaviest, _),) = Counter(owners).most_common(1)
            del self._jobs[finished.pop(owners.index(heaviest))]

    async def _within_limits(self, running: Running, work: Work) -> None:
        async with asyncio.timeout(self._settings.fit_seconds_max):
            await work(running)

    async def _finish(self, running: Running) -> None:
        """Wait for the end of a job's work. Its result is published only when its place is free again: who sees a job
        done may start the next one."""
        job, accepted = running.job, running.accepted
        await asyncio.wait([running.work])
        if running.worker is not None:
            await running.worker.end()
        del self._running[job.id]
        self._places.remove(running.tenant, 0)
        error = None if running.work.cancelled() else running.work.exception()
        if error is not None:
            job.state, job.error = "failed", self._reason(job, error)
        else:
            job.state = "cancelled" if running.work.cancelled() else "done"
        self.ended[job.state] += 1
        job.finished_at = self._clock.now()
        if not accepted.done():
            given_up = Overloaded("the job was cancelled before it began; try again later")
            accepted.set_exception(error if isinstance(error, NovikoffError) else given_up)
        accepted.exception()  # marks it as seen: if nobody waits for it, asyncio would log it

    def _reason(self, job: Job, error: BaseException) -> str:
        if isinstance(error, TimeoutError):
            return f"the job took longer than `fit_seconds_max` ({self._settings.fit_seconds_max:g} s)"
        if isinstance(error, NovikoffError):
            return error.detail
        log.error("a job of %s failed", job.model, exc_info=error)
        return "see the log of the service"
