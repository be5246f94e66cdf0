"""Batch training as jobs: one a model at a time, each in a process of its own."""

import asyncio
import logging
import sys
from asyncio import get_running_loop
from asyncio.subprocess import PIPE, Process
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from service.engine.clock import Clock, make_job_id
from service.engine.fleet.fleet import Fleet
from service.engine.fleet.live import Live
from service.engine.jobs.fit_bodies import READ_HERE_BYTES_MAX, UnreadFit, check_not_empty, encode_examples
from service.engine.jobs.fit_process import Report, Task, frame
from service.errors import InvalidRequest, JobRunning, NovikoffError, Overloaded, UnknownJob
from service.events import (
    Label,
    ModelFitted,
    ModelReset,
    RoundLearned,
    RoundRevealed,
    RoundsLearned,
    features_of,
)
from service.journal.protocol import Journal

FINISHED_KEPT = 100

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Job:
    """A fit: `running`, then `done`, `failed` or `cancelled`."""

    id: str
    model: str
    options: dict[str, Any]
    examples: int
    started_at: int
    state: str = "running"
    finished_at: int | None = None
    progress: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    error: str | None = None
    version: int | None = None
    process: Process | None = field(default=None, repr=False)
    accepted: asyncio.Future[None] = field(
        default_factory=lambda: get_running_loop().create_future(), repr=False
    )
    """Done when the examples were read; fails if something is wrong with them, which is the client's answer then."""

    def seconds_left(self, now: int) -> float | None:
        """How long it may still take if it needs `passes_max` passes; None if that is not known yet."""
        if self.state != "running" or not self.progress or not self.progress["passes"]:
            return None
        passes: int = self.progress["passes"]
        seconds_a_pass = (now - self.started_at) / 1e6 / passes
        return seconds_a_pass * float(self.options["passes_max"] - passes)


class Jobs:
    """Starts, watches and cancels fits. Jobs are in memory only: a restart loses those that run."""

    def __init__(self, journal: Journal, fleet: Fleet, clock: Clock, *, running_max: int) -> None:
        self._journal = journal
        self._fleet = fleet
        self._clock = clock
        self._running_max = running_max
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def get(self, job_id: str) -> Job:
        job = self._jobs.get(job_id)
        if job is None:
            raise UnknownJob(f"there is no job {job_id!r}")
        return job

    async def fit(self, name: str, sent: UnreadFit) -> Job:
        """Start to train a model, on the examples of the request or on the model's retained history."""
        if len(sent.body) > READ_HERE_BYTES_MAX:
            return await self._fit_unread(name, sent)
        examples, options = sent.read()
        if examples is None:
            found = await self._history(name)
            check_not_empty(found)
        else:
            found = encode_examples((await self._fleet.get(name)).model, examples)
        live = await self._fleet.get(name)
        self._check_room(name)
        task = Task(live.model.to_bytes(), found, options, absorb=examples is not None)
        return self._start(live, task, options, len(found))

    async def _fit_unread(self, name: str, sent: UnreadFit) -> Job:
        """Let the process of the fit read the body; wait until it has, to refuse the request if it is wrong."""
        live = await self._fleet.get(name)
        self._check_room(name)
        task = Task(live.model.to_bytes(), [], sent.options, absorb=True, unread=sent)
        job = self._start(live, task, sent.options, 0)
        await asyncio.wait([job.accepted])
        if job.accepted.exception() is not None:
            with suppress(KeyError):
                await asyncio.wait([self._tasks[job.id]])
            del self._jobs[job.id]
        job.accepted.result()
        return job

    def _start(self, live: Live, task: Task, options: dict[str, Any], examples: int) -> Job:
        now = self._clock.now()
        job = Job(make_job_id(now), live.model.name, options, examples, now)
        if task.unread is None:
            job.accepted.set_result(None)
        self._jobs[job.id] = job
        self._tasks[job.id] = asyncio.create_task(self._run(job, task, live.life))
        return job

    async def cancel(self, job_id: str) -> Job:
        job = self.get(job_id)
        task = self._tasks.get(job_id)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        return job

    async def stop(self) -> None:
        for job_id in list(self._tasks):
            await self.cancel(job_id)

    def _check_room(self, name: str) -> None:
        running = [job for job in self._jobs.values() if job.state == "running"]
        if any(job.model == name for job in running):
            raise JobRunning(f"a job of {name!r} is running; wait for it or cancel it")
        if len(running) >= self._running_max:
            raise Overloaded(f"{len(running)} jobs are running; try again later")
        while len(self._jobs) - len(running) > FINISHED_KEPT:
            del self._jobs[next(job.id for job in self._jobs.values() if job.state != "running")]

    async def _history(self, name: str) -> list[tuple[Any, Label]]:
        """The rounds since the last reset that the journal still has."""
        await self._fleet.get(name)
        stored: list[tuple[Any, Label]] = []
        for recorded in await self._journal.events(name, after=0, limit=-1):
            event = recorded.event
            if isinstance(event, ModelReset):
                stored.clear()
            elif isinstance(event, RoundRevealed | RoundLearned):
                stored.append((event.features, event.label))
            elif isinstance(event, RoundsLearned):
                stored.extend(zip(features_of(event), event.labels, strict=True))
        return stored

    async def _run(self, job: Job, task: Task, life: int) -> None:
        try:
            report = await self._train(job, task)
            await self._append_result(job, report, life)
            job.state = "done"
        except asyncio.CancelledError:
            job.state = "cancelled"
        except NovikoffError as error:
            job.state, job.error = "failed", error.detail
            if not job.accepted.done():
                job.accepted.set_exception(error)
        except Exception as error:
            log.error("a fit of %s failed", job.model, exc_info=error)
            job.state, job.error = "failed", "the service has logged what happened"
        finally:
            if job.process is not None and job.process.returncode is None:
                job.process.kill()
                await job.process.wait()
            job.finished_at = self._clock.now()
            self._tasks.pop(job.id, None)
            if not job.accepted.done():
                job.accepted.set_exception(
                    Overloaded("the fit was given up before it began; try again later")
                )
            job.accepted.exception()  # marks it as seen: if nobody waits for it, asyncio would log it

    async def _train(self, job: Job, task: Task) -> Report:
        job.process = process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "service.engine.jobs.fit_process", stdin=PIPE, stdout=PIPE
        )
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(frame(task))
        await process.stdin.drain()
        while True:
            try:
                size = int.from_bytes(await process.stdout.readexactly(4), "big")
                report = msgspec.msgpack.decode(await process.stdout.readexactly(size), type=Report)
            except asyncio.IncompleteReadError:
                raise InvalidRequest("the training process ended before it was done") from None
            if report.read is not None:
                job.examples, job.options = report.read
                job.accepted.set_result(None)
                continue
            if report.refused is not None:
                raise report.refused.as_error()
            if report.wrong is not None:
                raise InvalidRequest.at(report.wrong_field or "examples", report.wrong)
            if report.result is not None:
                return report
            job.progress = report.progress

    async def _append_result(self, job: Job, report: Report, life: int) -> None:
        """Append the result as an event, by which the model takes the new weights."""
        live = await self._fleet.get(job.model)
        model, labels = live.model, report.labels or []
        known = len(model.labels.values)
        if live.life != life or model.labels.values != labels[:known]:
            raise InvalidRequest("the model was made anew, or learned new classes, while the job ran")
        job.result = report.result
        event = ModelFitted(job.model, self._clock.now(), job.id, labels, report.features, report.classifier,
                            {**job.options, **(report.result or {})})  # fmt: skip
        await self._fleet.append(live, event)
        if live.model.labels.values[known:] != labels[known:]:
            raise InvalidRequest("the model learned new classes while the job ended")
        job.version = live.model.version
