"""Replays of a model's history through other settings: for what-ifs, and for challengers that learn it first."""

from service.engine.fleet.fleet import Fleet
from service.engine.fleet.fold import Trimmed
from service.engine.jobs.jobs import Running
from service.engine.replay.counterfactual import Outdated
from service.engine.replay.play_process import Report, Task
from service.engine.replay.playing import Playing, oldest_milestone
from service.errors import InvalidRequest
from service.journal.protocol import Journal
from service.runtime.processes import JobLimits

TURNS_MAX = 10
"""How often it is looked whether there are new events, at most: they may come faster than they are played."""

FEW_EVENTS = 16
"""With so many new ones or fewer it has caught up."""


class Replaying:
    """The live model is never touched."""

    def __init__(self, journal: Journal, fleet: Fleet, limits: JobLimits) -> None:
        self._journal = journal
        self._fleet = fleet
        self._limits = limits

    async def replay(self, running: Running, task: Task, *, catch_up: bool) -> Report:
        """What came of the history, up to the events that are there when it is read; to `catch_up`, those that come
        while it is played are played too, until there are few."""
        job = running.job
        model = (await self._fleet.get(job.model)).model
        milestone = await oldest_milestone(self._journal, model)
        if milestone is None or milestone.life != running.life:
            raise InvalidRequest("there is no history to replay")
        playing = await Playing.start(
            self._journal, milestone, self._limits, erasing=model.erasing,
            tried=task.tried, confidence=task.confidence, keep=task.keep,
            on_progress=lambda progress: setattr(job, "progress", progress),
        )  # fmt: skip
        running.worker = playing.worker
        try:
            for turn in range(TURNS_MAX if catch_up else 0):
                if await self._play(running, playing) <= FEW_EVENTS and turn:
                    break
            live = await self._fleet.get(job.model)
            return await playing.compared(live.seq, live.pending.values())
        except Trimmed:
            raise InvalidRequest("some of the history was given up while it was read; try again") from None
        except Outdated:
            raise InvalidRequest(
                "the model was rolled back or corrected while its history was replayed; try again"
            ) from None

    async def check_kept(self, running: Running) -> None:
        """InvalidRequest if some of the history was forgotten meanwhile: then nothing of it may be kept."""
        if not running.is_of(await self._fleet.get(running.job.model)):
            raise InvalidRequest("the model was made anew, or some of it forgotten, meanwhile; try again")

    async def _play(self, running: Running, playing: Playing) -> int:
        live = await self._fleet.get(running.job.model)
        return await playing.play(live.seq, live.pending.values())
