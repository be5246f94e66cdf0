"""The way of a model's history into a process that plays it through other settings."""

from service.engine.history.stepping import Trimmed, pages
from service.engine.jobs.job import Job
from service.engine.jobs.jobs import Running
from service.engine.jobs.messages import frame
from service.engine.jobs.what_if_process import Batch, Report, Task
from service.engine.jobs.worker import JobLimits, Worker
from service.errors import InvalidRequest
from service.journal.protocol import Journal, Milestone

TURNS_MAX = 10
"""How often it is looked whether there are new events, at most: they may come faster than they are played."""

FEW_EVENTS = 16
"""With so many new ones or fewer it has caught up."""


class Replaying:
    """Hands retained histories over. The live model is never touched."""

    def __init__(self, journal: Journal, limits: JobLimits) -> None:
        self._journal = journal
        self._limits = limits

    async def replay(self, running: Running, task: Task, *, catch_up: bool) -> Report:
        """What came of the history, up to the events that are there when it is read; to `catch_up`, those that come
        while it is played are played too, until there are few."""
        job = running.job
        milestone = await self._journal.milestone(job.model, None)
        if milestone is None or milestone.life != running.life:
            raise InvalidRequest("there is no history to replay")
        task.start = milestone.state_view
        running.worker = worker = await Worker.start("service.engine.jobs.what_if_process", self._limits)
        await worker.send(frame(task))
        after, turn = milestone.seq, 0
        while True:
            after, sent = await self._send(worker, milestone, after)
            turn += 1
            is_last = not catch_up or turn == TURNS_MAX or (turn > 1 and sent <= FEW_EVENTS)
            await worker.send(frame(Batch([], "finish" if is_last else "play")))
            report = await _played(job, worker)
            if is_last:
                return report

    async def _send(self, worker: Worker, milestone: Milestone, after: int) -> tuple[int, int]:
        """Send the events after one; the last of them, and how many there were."""
        sent = 0
        try:
            async for page in pages(self._journal, milestone, after):
                await worker.send(frame(Batch([recorded.event for recorded in page])))
                after, sent = page[-1].seq, sent + len(page)
        except Trimmed:
            raise InvalidRequest("some of the history was given up while it was read; try again") from None
        return after, sent


async def _played(job: Job, worker: Worker) -> Report:
    while True:
        report = await worker.receive(Report)
        if report.failed is not None:
            raise InvalidRequest(report.failed)
        if report.result is not None or report.is_played:
            return report
        job.progress = report.progress
