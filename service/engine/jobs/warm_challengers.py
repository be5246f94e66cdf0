"""Challengers that learn from the model's retained history before they enter, as jobs."""

from typing import Any

from service.engine.fleet.fleet import Fleet
from service.engine.fleet.models import Models
from service.engine.jobs.job import Job
from service.engine.jobs.jobs import Jobs, Running
from service.engine.jobs.replaying import Replaying
from service.engine.models.challenger_settings import complete_new
from service.engine.models.contest import NO_CHALLENGERS
from service.engine.models.settings import ModelLimits
from service.engine.replay.play_process import Task
from service.events import WarmStart


class WarmChallengers:
    """Replays histories through the settings of challengers, which enter with what they have learned."""

    def __init__(self, jobs: Jobs, fleet: Fleet, models: Models, replaying: Replaying) -> None:
        self._jobs = jobs
        self._fleet = fleet
        self._models = models
        self._replaying = replaying

    async def start(self, name: str, challenger: str, given: dict[str, Any], limits: ModelLimits) -> Job:
        """Start a job at whose end the challenger enters, by what a client has given of its settings."""
        live = await self._fleet.get(name)
        own = complete_new(challenger, given, live.model, limits)
        self._jobs.check_room(name)
        shared = {key: value for key, value in live.model.settings.items() if key not in NO_CHALLENGERS}
        task = Task(None, None, [shared | own], live.model.settings["confidence"], "learner")
        running = self._jobs.start(
            live,
            "challenger",
            {"name": challenger, "start": "history", **given},
            lambda running: self._run(running, task, challenger, own),
        )
        running.accepted.set_result(None)
        return running.job

    async def _run(self, running: Running, task: Task, challenger: str, own: dict[str, Any]) -> None:
        job = running.job
        report = await self._replaying.replay(running, task, catch_up=True)
        assert report.result is not None and report.state is not None
        result = report.result
        (figures,) = result.pop("settings")
        del figures["place"]
        start = WarmStart(
            result["from_version"], result["to_version"], figures["rounds"], figures["mistakes"]
        )
        await self._replaying.check_kept(running)
        live, warm = await self._models.enter_challenger(
            job.model, challenger, own, start, report.state, running.life
        )
        job.result = result | {"challenger": figures, "missed": warm.missed}
        job.version = live.model.version
