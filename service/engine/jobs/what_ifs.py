"""Jobs that replay a history through other settings: what-ifs, and challengers that learn it before they enter."""

from typing import Any, Literal, NamedTuple

from service.engine.fleet.fleet import Fleet
from service.engine.fleet.fold import Trimmed
from service.engine.fleet.models import Models
from service.engine.jobs.jobs import Job, Jobs, Running
from service.engine.models.challenger_settings import complete_new
from service.engine.models.champion_and_challengers import NO_CHALLENGERS
from service.engine.models.model import Model
from service.engine.models.settings import ModelLimits, complete
from service.engine.models.sizes import is_crossed, new_features, numbers_to_come, takes_dimension
from service.engine.replay.counterfactual import Outdated
from service.engine.replay.play_process import Report, Task
from service.engine.replay.playing import Playing, oldest_milestone
from service.errors import InvalidRequest, ModelExists, UnknownModel
from service.events import WarmStart
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
            raise InvalidRequest("part of the history was trimmed while it was read; try again") from None
        except Outdated:
            raise InvalidRequest(
                "the model was rolled back or corrected while its history was replayed; try again"
            ) from None

    async def check_kept(self, running: Running) -> None:
        """InvalidRequest if some of the history was forgotten meanwhile: then nothing of it may be kept."""
        if not running.is_of(await self._fleet.get(running.job.model)):
            raise InvalidRequest("the model was reset, or rounds were forgotten, in the meantime; try again")

    async def _play(self, running: Running, playing: Playing) -> int:
        live = await self._fleet.get(running.job.model)
        return await playing.play(live.seq, live.pending.values())


SAID_BY_CLIENTS = ("labels", "protocol")
"""Settings of what is sent, not of what is made of it: the history has come about with these."""


class WhatIf(NamedTuple):
    """What a client wants to know."""

    tried: dict[str, dict[str, Any]]
    """Settings to put in the place of the model's own, by what to call them where one is wrong."""
    keep_as: str | None
    """The name for a model that is what the best of them has become."""


class WhatIfs:
    """Starts replays. The live model is never touched."""

    def __init__(self, jobs: Jobs, fleet: Fleet, models: Models, replaying: Replaying) -> None:
        self._jobs = jobs
        self._fleet = fleet
        self._models = models
        self._replaying = replaying

    async def start(self, name: str, wanted: WhatIf, model_limits: ModelLimits) -> Job:
        live = await self._fleet.get(name)
        completed = [
            _completed(live.model, given, model_limits, field) for field, given in wanted.tried.items()
        ]
        if wanted.keep_as is not None:
            await self._check_free(wanted.keep_as)
            live = await self._fleet.get(name)
        self._jobs.check_room(name)
        keep: Literal["model"] | None = None if wanted.keep_as is None else "model"
        task = Task(None, None, completed, live.model.settings["confidence"], keep)
        options = {"grid": list(wanted.tried.values()), "as": wanted.keep_as}
        running = self._jobs.start(
            live, "replay", options, lambda running: self._run(running, task, wanted.keep_as)
        )
        running.accepted.set_result(None)
        return running.job

    async def _check_free(self, name: str) -> None:
        try:
            await self._fleet.get(name)
        except UnknownModel:
            return
        raise ModelExists(f"there is a model {name!r}")

    async def _run(self, running: Running, task: Task, keep_as: str | None) -> None:
        report = await self._replaying.replay(running, task, catch_up=False)
        running.job.result = report.result
        if keep_as is not None:
            await self._replaying.check_kept(running)
            assert report.settings is not None and report.state is not None
            await self._models.adopt(keep_as, report.settings, report.state, forked_from=running.job.model)


def _completed(model: Model, given: dict[str, Any], limits: ModelLimits, field: str) -> dict[str, Any]:
    """The model's settings with some others in their place; InvalidRequest names what cannot be tried."""
    own = {name: value for name, value in model.settings.items() if name not in NO_CHALLENGERS}
    for name in SAID_BY_CLIENTS:
        if name in given and given[name] != own[name]:
            raise InvalidRequest.at(f"{field}{name}", "cannot be changed for an existing history")
    if "learner" in given and "multiclass" not in given and own["labels"] is not None:
        own["multiclass"] = None  # the strategy of another learner may not be for this one
    try:
        completed = complete(own | given, limits)
    except InvalidRequest as error:
        wrong = error.fields[0]
        raise InvalidRequest.at(field + wrong.field, wrong.message) from None
    wrong_field, why = _why_not(model, completed) or (None, "")
    if wrong_field is not None:
        raise InvalidRequest.at(field + wrong_field, why)
    return completed


def _why_not(model: Model, settings: dict[str, Any]) -> tuple[str, str] | None:
    """The field for which the examples of the history do not fit settings, and what is wrong; None if they do."""
    own, features = model.settings["features"], settings["features"]
    dimension, classes = model.features.dimension, len(model.labels.values)
    if (own["kind"] == "dense") != (features["kind"] == "dense"):
        return "features.kind", f"the history has {own['kind']} features"
    if features["kind"] == "dense" and features["dimension"] not in (None, dimension):
        return "features.dimension", f"the history has {dimension} numbers"
    if features["kind"] != "dense" and features["text"] != own["text"]:
        return "features.text", "cannot change: the history has words already"
    if features["kind"] != "dense" and is_crossed(settings) and not is_crossed(model.settings):
        return "features.crosses", "examples with names may be too long for it"
    if not takes_dimension(new_features(settings), dimension):
        return "features", f"examples of {dimension} numbers are too long for it"
    if classes > settings["classes_max"]:
        return "multiclass", f"there are {classes} classes, and this takes at most {settings['classes_max']}"
    if numbers_to_come(settings, dimension, classes) > settings["weights_max"]:
        return "features", f"it could exceed {settings['weights_max']} weights"
    return None


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
