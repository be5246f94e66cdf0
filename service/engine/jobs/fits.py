"""Batch training as jobs."""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any, NamedTuple

from service.engine.clock import Clock
from service.engine.fleet.fleet import Fleet
from service.engine.fleet.live import Live
from service.engine.fleet.pending import features_bytes
from service.engine.jobs.fit_process import (
    READ_HERE_BYTES_MAX,
    EncodedExamples,
    Report,
    Task,
    UnreadFit,
    check_can_fit,
    check_not_empty,
    encode_examples,
)
from service.engine.jobs.jobs import Job, Jobs, Running
from service.engine.models.model import Model
from service.engine.models.reclassing import Known
from service.engine.replay.counterfactual import Labels, labels_in
from service.errors import InvalidRequest
from service.events import (
    VOIDING,
    Label,
    ModelFitted,
    RoundLearned,
    RoundRevealed,
    RoundsLearned,
    features_of,
)
from service.journal.protocol import Journal
from service.runtime.child import frame
from service.runtime.processes import JobLimits, Worker

HISTORY_EVENTS_AT_ONCE = 100
Example = tuple[Any, Label, str | None]
"""Features, a label, and the id of the round if it has one."""

EXAMPLE_BYTES = 128
"""What an example takes beside its features."""


class Begun(NamedTuple):
    """What a model was when a fit of it began."""

    learner: int
    """The champion's number: what is trained for it is not for another one's weights."""
    rebuilds: int
    known: Known

    @classmethod
    def of(cls, model: Model) -> "Begun":
        return cls(model.champion_number, _rebuilds_of(model), Known.of(model))

    def lost_some(self, model: Model) -> bool:
        """Whether a rebuild has removed classes or names since: the fit would bring them back."""
        if _rebuilds_of(model) == self.rebuilds:
            return False
        now = Known.of(model)
        has_all = all(model.labels.index(label) >= 0 for label in self.known.labels)
        return not has_all or not set(self.known.names).issubset(now.names)


def _rebuilds_of(model: Model) -> int:
    """How many corrections were in force."""
    return 0 if model.amended is None else model.amended.in_force


class Fits:
    """Trains models on examples, or on their own history."""

    def __init__(self, jobs: Jobs, journal: Journal, fleet: Fleet, clock: Clock, limits: JobLimits) -> None:
        self._jobs = jobs
        self._journal = journal
        self._fleet = fleet
        self._clock = clock
        self._limits = limits
        self._reading_history = asyncio.Lock()

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
            self._jobs.check_room(name)
            found = await self._history(name)
            check_not_empty(found)
            return await self._begin(name, found, options, absorb=False)

    async def _begin(
        self, name: str, found: EncodedExamples, options: dict[str, Any], *, absorb: bool
    ) -> Job:
        live = await self._fleet.get(name)
        self._jobs.check_room(name)
        task = Task(live.model.to_bytes(), found, options, absorb=absorb)
        running = self._start(live, task)
        running.job.examples = len(found)
        running.accepted.set_result(None)
        return running.job

    async def _fit_unread(self, name: str, sent: UnreadFit) -> Job:
        """Let the process of the fit read the body; wait until it has, to refuse the request if it is wrong."""
        live = await self._fleet.get(name)
        self._jobs.check_room(name)
        task = Task(live.model.to_bytes(), [], sent.options, absorb=True, unread=sent)
        running = self._start(live, task)
        await asyncio.wait([running.accepted])
        if running.accepted.exception() is not None:
            await self._jobs.forget(running)
        running.accepted.result()
        return running.job

    def _start(self, live: Live, task: Task) -> Running:
        begun = Begun.of(live.model)
        return self._jobs.start(live, "fit", task.options, lambda running: self._run(running, task, begun))

    async def _history(self, name: str) -> EncodedExamples:
        """The rounds since the last reset that the journal still has; the newest, if there are more than the limit."""
        stored: deque[Example] = deque()
        labels: Labels = {}
        size, after = 0, 0
        while page := await self._journal.events(name, after=after, limit=HISTORY_EVENTS_AT_ONCE):
            after = page[-1].seq
            for recorded in page:
                event = recorded.event
                labels |= labels_in([event])
                if isinstance(event, VOIDING):
                    stored.clear()
                    size = 0
                elif isinstance(event, RoundRevealed | RoundLearned | RoundsLearned):
                    rounds = _rounds_of(event)
                    size += sum(_bytes_of(example) for example in rounds)
                    stored.extend(rounds)
            while size > self._limits.fit_examples_bytes_max:
                size -= _bytes_of(stored.popleft())
        return [(features, label) for features, label in _corrected(stored, labels) if label is not None]

    async def _run(self, running: Running, task: Task, begun: Begun) -> None:
        running.worker = await Worker.start("service.engine.jobs.fit_process", self._limits)
        framed = frame(task)
        task.examples, task.unread = [], None  # they may be large, and are not needed here any more
        await running.worker.send(framed)
        del framed
        report = await self._result(running, running.worker)
        await self._append(running, report, begun)

    async def _result(self, running: Running, worker: Worker) -> Report:
        job = running.job
        while True:
            report = await worker.receive(Report)
            if report.read is not None:
                job.examples, job.options = report.read
                running.accepted.set_result(None)
                continue
            if report.refused is not None:
                raise report.refused.as_error()
            if report.result is not None:
                return report
            job.progress = report.progress

    async def _append(self, running: Running, report: Report, begun: Begun) -> None:
        """Append the result as an event, by which the model takes the new weights."""
        job = running.job
        live = await self._fleet.get(job.model)
        model, labels = live.model, report.labels or []
        known, learner = len(model.labels.values), begun.learner
        is_new = not running.is_of(live) or model.labels.values != labels[:known] or begun.lost_some(model)
        if is_new or model.champion_number != learner:
            raise InvalidRequest(
                "the model was reset, learned new classes, forgot rounds or was promoted in the meantime"
            )
        job.result = report.result
        event = ModelFitted(job.model, self._clock.now(), job.id, labels, report.features, report.classifier,
                            {**job.options, **(report.result or {})}, learner, round=model.revealed)  # fmt: skip
        await self._fleet.append(live, event)
        if live.model.labels.values[known:] != labels[known:] or model.champion_number != learner:
            raise InvalidRequest("the model learned new classes or was promoted while the job ended")
        job.version = live.model.version


def _rounds_of(event: RoundRevealed | RoundLearned | RoundsLearned) -> list[Example]:
    if isinstance(event, RoundsLearned):
        return list(zip(features_of(event), event.labels, repeat(None), strict=False))
    return [(event.features, event.label, event.prediction_id)]


def _corrected(examples: Iterable[Example], labels: Labels) -> Iterator[tuple[Any, Label | None]]:
    """Examples with their right labels; None for a voided round."""
    for features, label, name in examples:
        yield features, labels.get(name, label) if name is not None else label


def _bytes_of(example: Example) -> int:
    return EXAMPLE_BYTES + features_bytes(example[0])
