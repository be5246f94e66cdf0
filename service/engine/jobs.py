"""Batch training as jobs: one a model at a time, each in a process of its own."""

import asyncio
import logging
import sys
from asyncio.subprocess import PIPE, Process
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import msgspec

from service.engine.checks import LabelChecks, Sent, check_dimension
from service.engine.clock import Clock, make_job_id
from service.engine.fit_process import Report, Task, frame
from service.engine.fleet import Fleet
from service.errors import InvalidRequest, JobRunning, NovikoffError, Overloaded, UnknownJob, UnknownLabel
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
from service.learning import fitting
from service.learning.features import BadFeatures
from service.learning.parameters import BadParameter

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

    def seconds_left(self, now: int) -> float | None:
        """At most so long, if every pass takes as long as those before."""
        if self.state != "running" or not self.progress or not self.progress["passes"]:
            return None
        passes: int = self.progress["passes"]
        seconds_a_pass = (now - self.started_at) / 1e6 / passes
        return seconds_a_pass * float(self.options["passes_max"] - passes)


class Jobs:
    """Starts, watches and cancels fits. They are in memory only: a restart forgets those that run."""

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

    async def fit(self, name: str, examples: list[tuple[Sent, Label]] | None, options: dict[str, Any]) -> Job:
        """Begin to train a model on examples, or on its retained history if there are none given."""
        try:
            completed = fitting.complete(options)
        except BadParameter as error:
            raise InvalidRequest.at(error.field, error.message) from None
        stored = await self._history(name) if examples is None else await self._stored(name, examples)
        if not stored:
            raise InvalidRequest.at("examples", "there are none to learn from")
        live = await self._fleet.get(name)
        self._check_room(name)
        now = self._clock.now()
        job = Job(make_job_id(now), name, completed, len(stored), now)
        task = Task(live.model.to_bytes(), stored, completed, absorb=examples is not None)
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

    async def _stored(self, name: str, examples: list[tuple[Sent, Label]]) -> list[tuple[Any, Label]]:
        """Examples that a client sent, in the form that the journal would have them."""
        model = (await self._fleet.get(name)).model
        stored: list[tuple[Any, Label]] = []
        dimension = model.features.dimension
        labels = LabelChecks(model)
        for i, (sent, label) in enumerate(examples):
            try:
                example = model.features.read(sent)
                if dimension is None:
                    dimension = len(example)
                    check_dimension(model, dimension)
                if dimension and len(example) != dimension:
                    raise BadFeatures(
                        "features", f"the first example has {dimension} numbers, this {len(example)}"
                    )
                labels.check(label)
            except BadFeatures as error:
                raise InvalidRequest.at(f"examples[{i}].{error.field}", error.message) from None
            except UnknownLabel as error:
                raise InvalidRequest.at(f"examples[{i}].label", error.detail) from None
            except InvalidRequest as error:
                raise InvalidRequest.at(f"examples[{i}].features", error.fields[0].message) from None
            stored.append((model.features.encode(example), label))
        return stored

    async def _history(self, name: str) -> list[tuple[Any, Label]]:
        """The rounds that the journal still has, since the last reset."""
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
            await self._enter(job, report, life)
            job.state = "done"
        except asyncio.CancelledError:
            job.state = "cancelled"
        except NovikoffError as error:
            job.state, job.error = "failed", error.detail
        except Exception as error:
            log.error("a fit of %s failed", job.model, exc_info=error)
            job.state, job.error = "failed", "the service has logged what happened"
        finally:
            if job.process is not None and job.process.returncode is None:
                job.process.kill()
                await job.process.wait()
            job.finished_at = self._clock.now()
            self._tasks.pop(job.id, None)

    async def _train(self, job: Job, task: Task) -> Report:
        job.process = process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "service.engine.fit_process", stdin=PIPE, stdout=PIPE
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
            if report.wrong is not None:
                raise InvalidRequest.at(report.wrong_field or "examples", report.wrong)
            if report.result is not None:
                return report
            job.progress = report.progress

    async def _enter(self, job: Job, report: Report, life: int) -> None:
        """Let the result become the model's, as one event."""
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
