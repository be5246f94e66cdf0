"""Batch training as jobs: one a model at a time, each in a process of its own.

On a cluster a job belongs to the replica that runs it. The id ends with that replica's name, so the others know whom
to ask.
"""

import asyncio
import logging
from asyncio import get_running_loop
from asyncio.subprocess import PIPE, Process
from collections import Counter, OrderedDict, deque
from contextlib import suppress
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import msgspec

from service.child_processes import command_of
from service.engine.clock import Clock, make_job_id
from service.engine.fleet.fleet import Fleet
from service.engine.fleet.live import Live
from service.engine.fleet.shares import Shares
from service.engine.fleet.waiting import features_bytes
from service.engine.jobs.fit_bodies import (
    READ_HERE_BYTES_MAX,
    EncodedExamples,
    UnreadFit,
    check_can_fit,
    check_not_empty,
    encode_examples,
)
from service.engine.jobs.fit_process import FitLimits, Report, Task, frame
from service.engine.jobs.job import Job, Question
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
HISTORY_EVENTS_AT_ONCE = 100
EXAMPLE_BYTES = 128
"""What an example takes beside its features."""
REPLICA_SEPARATOR = "-"
"""Stands in the id of a job before the name of the replica that runs it."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Running:
    """A job that is not finished: its task and what belongs to it."""

    job: Job
    tenant: str
    accepted: asyncio.Future[None]
    """Done when the examples were read; fails if something is wrong with them, which is the client's answer then."""
    process: Process | None = None
    task: asyncio.Task[None] = field(init=False)


class Jobs:
    """Starts, watches and cancels fits. Jobs are in memory only: a restart loses those that run."""

    def __init__(
        self, journal: Journal, fleet: Fleet, clock: Clock, *, running_max: int, limits: FitLimits
    ) -> None:
        self._journal = journal
        self._fleet = fleet
        self._clock = clock
        self._running_max = running_max
        self._limits = limits
        self._reading_history = asyncio.Lock()
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._running: dict[str, Running] = {}
        self._places = Shares(fleet.tenants)
        """Of jobs that run, whose they are."""

    async def open(self) -> None:
        """From now on tell other replicas of the jobs here."""
        await self._journal.answer(self._answer)

    async def find(self, job_id: str) -> Job:
        """A job, whichever replica it runs on."""
        return self._jobs.get(job_id) or await self._ask(Question(job_id, cancel=False))

    async def cancel(self, job_id: str) -> Job:
        """Cancel a job, whichever replica it runs on; a finished one stays as it is."""
        return await self._cancel(job_id) or await self._ask(Question(job_id, cancel=True))

    async def _ask(self, question: Question) -> Job:
        _, _, replica = question.job_id.partition(REPLICA_SEPARATOR)
        answer = await self._journal.ask(replica, msgspec.msgpack.encode(question))
        job = msgspec.msgpack.decode(answer, type=Job | None) if answer is not None else None
        if job is None:
            raise UnknownJob(f"there is no job {question.job_id!r}")
        return job

    async def _answer(self, question: bytes) -> bytes:
        asked = msgspec.msgpack.decode(question, type=Question)
        job = await self._cancel(asked.job_id) if asked.cancel else self._jobs.get(asked.job_id)
        return msgspec.msgpack.encode(job)

    async def fit(self, name: str, sent: UnreadFit) -> Job:
        """Start to train a model, on the examples of the request or on the model's retained history."""
        check_can_fit((await self._fleet.get(name)).model)
        if len(sent.body) > READ_HERE_BYTES_MAX:
            return await self._fit_unread(name, sent)
        examples, options = sent.read()
        if examples is None:
            return await self._fit_history(name, options)
        found = encode_examples((await self._fleet.get(name)).model, examples)
        return await self._begin(name, found, options, absorb=True)

    async def _fit_history(self, name: str, options: dict[str, Any]) -> Job:
        async with self._reading_history:  # only one history is in memory at a time
            await self._fleet.get(name)
            self._check_room(name)
            found = await self._history(name)
            check_not_empty(found)
            return await self._begin(name, found, options, absorb=False)

    async def _begin(
        self, name: str, found: EncodedExamples, options: dict[str, Any], *, absorb: bool
    ) -> Job:
        live = await self._fleet.get(name)
        self._check_room(name)
        task = Task(live.model.to_bytes(), found, options, absorb=absorb)
        return self._start(live, task, options, len(found)).job

    async def _fit_unread(self, name: str, sent: UnreadFit) -> Job:
        """Let the process of the fit read the body; wait until it has, to refuse the request if it is wrong."""
        live = await self._fleet.get(name)
        self._check_room(name)
        task = Task(live.model.to_bytes(), [], sent.options, absorb=True, unread=sent)
        running = self._start(live, task, sent.options, 0)
        await asyncio.wait([running.accepted])
        if running.accepted.exception() is not None:
            await asyncio.wait([running.task])
            del self._jobs[running.job.id]
        running.accepted.result()
        return running.job

    def _start(self, live: Live, task: Task, options: dict[str, Any], examples: int) -> Running:
        now = self._clock.now()
        job_id = REPLICA_SEPARATOR.join(filter(None, (make_job_id(now), self._journal.replica)))
        job = self._jobs[job_id] = Job(job_id, live.model.name, options, examples, now)
        running = self._running[job_id] = Running(job, live.tenant, get_running_loop().create_future())
        self._places.add(live.tenant, 0)
        if task.unread is None:
            running.accepted.set_result(None)
        running.task = asyncio.create_task(self._run(running, task, live.life, live.model.champion_number))
        return running

    async def _cancel(self, job_id: str) -> Job | None:
        running = self._running.get(job_id)
        if running is not None:
            running.task.cancel()
            await asyncio.wait([running.task])
        return self._jobs.get(job_id)

    async def stop(self) -> None:
        for job_id in list(self._running):
            await self._cancel(job_id)

    def _check_room(self, name: str) -> None:
        if any(running.job.model == name for running in self._running.values()):
            raise JobRunning(f"a job of {name!r} is running; wait for it or cancel it")
        # With tenants there are two places at least: of one, nobody could leave anything to others.
        most = max(self._running_max, 2) if self._fleet.tenants.are_there else self._running_max
        if not self._places.may_take(self._fleet.tenants.of(name), 1, most):
            left = ", and what is left is for others" if self._places.count < most else ""
            raise Overloaded(f"{self._places.count} jobs are running{left}; try again later")
        self._forget_some()

    def _forget_some(self) -> None:
        """Forget the oldest finished jobs of the tenant that has most, until FINISHED_KEPT are left."""
        finished = [job_id for job_id in self._jobs if job_id not in self._running]
        while len(finished) > FINISHED_KEPT:
            owners = [self._fleet.tenants.of(self._jobs[job_id].model) for job_id in finished]
            ((heaviest, _),) = Counter(owners).most_common(1)
            del self._jobs[finished.pop(owners.index(heaviest))]

    async def _history(self, name: str) -> EncodedExamples:
        """The rounds since the last reset that the journal still has; the newest, if they are more than may be."""
        stored: deque[tuple[Any, Label]] = deque()
        size, after = 0, 0
        while page := await self._journal.events(name, after=after, limit=HISTORY_EVENTS_AT_ONCE):
            after = page[-1].seq
            for recorded in page:
                event = recorded.event
                if isinstance(event, ModelReset):
                    stored.clear()
                    size = 0
                elif isinstance(event, RoundRevealed | RoundLearned | RoundsLearned):
                    rounds = _rounds_of(event)
                    size += sum(_bytes_of(example) for example in rounds)
                    stored.extend(rounds)
            while size > self._limits.examples_bytes_max:
                size -= _bytes_of(stored.popleft())
        return list(stored)

    async def _run(self, running: Running, task: Task, life: int, learner: int) -> None:
        job, accepted = running.job, running.accepted
        try:
            async with asyncio.timeout(self._limits.seconds_max):
                report = await self._train(running, task)
            await self._append_result(job, report, life, learner)
            job.state = "done"
        except asyncio.CancelledError:
            job.state = "cancelled"
        except TimeoutError:
            job.state = "failed"
            job.error = (
                f"the fit took longer than {self._limits.seconds_max:g} seconds, which is fit_seconds_max"
            )
        except NovikoffError as error:
            job.state, job.error = "failed", error.detail
            if not accepted.done():
                accepted.set_exception(error)
        except Exception as error:
            log.error("a fit of %s failed", job.model, exc_info=error)
            job.state, job.error = "failed", "the service has logged what happened"
        finally:
            if running.process is not None and running.process.returncode is None:
                running.process.kill()
                await running.process.wait()
            job.finished_at = self._clock.now()
            del self._running[job.id]
            self._places.remove(running.tenant, 0)
            if not accepted.done():
                accepted.set_exception(Overloaded("the fit was given up before it began; try again later"))
            accepted.exception()  # marks it as seen: if nobody waits for it, asyncio would log it

    async def _train(self, running: Running, task: Task) -> Report:
        job = running.job
        running.process = process = await asyncio.create_subprocess_exec(
            *command_of("service.engine.jobs.fit_process"),
            str(self._limits.memory_bytes_max),
            str(ceil(self._limits.seconds_max)),
            stdin=PIPE,
            stdout=PIPE,
        )
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(frame(task))
        task.examples, task.unread = [], None  # they may be large, and are not needed here any more
        with suppress(ConnectionError):  # it may have ended, and has said why
            await process.stdin.drain()
        while True:
            try:
                size = int.from_bytes(await process.stdout.readexactly(4), "big")
                report = msgspec.msgpack.decode(await process.stdout.readexactly(size), type=Report)
            except asyncio.IncompleteReadError:
                raise InvalidRequest("the training process ended before it was done") from None
            if report.read is not None:
                job.examples, job.options = report.read
                running.accepted.set_result(None)
                continue
            if report.refused is not None:
                raise report.refused.as_error()
            if report.failed is not None:
                raise InvalidRequest(report.failed)
            if report.wrong is not None:
                raise InvalidRequest.at(report.wrong_field or "examples", report.wrong)
            if report.result is not None:
                return report
            job.progress = report.progress

    async def _append_result(self, job: Job, report: Report, life: int, learner: int) -> None:
        """Append the result as an event, by which the model takes the new weights."""
        live = await self._fleet.get(job.model)
        model, labels = live.model, report.labels or []
        known = len(model.labels.values)
        if live.life != life or model.labels.values != labels[:known] or model.champion_number != learner:
            raise InvalidRequest("the model was made anew, learned new classes or was promoted meanwhile")
        job.result = report.result
        event = ModelFitted(job.model, self._clock.now(), job.id, labels, report.features, report.classifier,
                            {**job.options, **(report.result or {})}, learner)  # fmt: skip
        await self._fleet.append(live, event)
        if live.model.labels.values[known:] != labels[known:] or model.champion_number != learner:
            raise InvalidRequest("the model learned new classes or was promoted while the job ended")
        job.version = live.model.version


def _rounds_of(event: RoundRevealed | RoundLearned | RoundsLearned) -> EncodedExamples:
    if isinstance(event, RoundsLearned):
        return list(zip(features_of(event), event.labels, strict=True))
    return [(event.features, event.label)]


def _bytes_of(example: tuple[Any, Label]) -> int:
    return EXAMPLE_BYTES + features_bytes(example[0])
