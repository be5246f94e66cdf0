"""One rebuild of a model, in a process of its own that is handed the history piece by piece."""

import asyncio
from collections.abc import Container, Iterable
from time import monotonic

from service.engine.corrections.rebuild_process import Piece, Report, Task
from service.engine.fleet.fleet import Fleet
from service.engine.history.past import LAG_SECONDS, LOOK_AGAIN_SECONDS
from service.engine.history.right_world import Outdated
from service.engine.history.stepping import EVENTS_AT_ONCE, Trimmed, made_by, model_at
from service.engine.jobs.messages import frame
from service.engine.jobs.worker import JobLimits, Worker
from service.engine.model.model import Model
from service.errors import InvalidRequest, JournalUnavailable
from service.events import Prediction
from service.journal.protocol import Journal, Milestone


async def milestone_before(journal: Journal, model: Model, version: int) -> Milestone | None:
    """The newest milestone at or before a version whose state is of a world that no rebuild has replaced."""
    while version >= 0:
        milestone = await journal.milestone(model.name, version)
        if milestone is None:
            return None
        then = await model_at(milestone)
        if then is None:
            first = await journal.history(milestone, after=0, limit=1)
            if not first:
                return None
            then = await made_by(first[0].event)
        if then.version > version:
            return None
        spoilt_since = model.amended.spoils(then.version) if model.amended is not None else None
        if spoilt_since is None:
            return milestone
        version = spoilt_since - 1
    return None


class Replay:
    """A process that plays a model's history with the right labels, from a milestone on."""

    def __init__(
        self, journal: Journal, milestone: Milestone, worker: Worker, erasing: Container[int]
    ) -> None:
        """`erasing`: the events that are to be as if they had never been."""
        self._journal = journal
        self._erasing = erasing
        self._milestone = milestone
        self._worker = worker
        self._told: set[str] = set()
        """Predictions that it was told to wait."""
        self.seq = milestone.seq
        """The last event that it has."""

    @classmethod
    async def start(
        cls,
        journal: Journal,
        milestone: Milestone,
        limits: JobLimits,
        until: int | None = None,
        *,
        erasing: Container[int] = (),
    ) -> "Replay":
        worker = await Worker.start("service.engine.corrections.rebuild_process", limits)
        try:
            await worker.send(frame(Task(milestone.state_view, until)))
        except BaseException:  # cancelled, say: nobody else knows of the process yet
            await worker.end()
            raise
        return cls(journal, milestone, worker, erasing)

    async def play(self, seq: int, waiting: Iterable[Prediction]) -> None:
        """Let it play the events up to one, after which these predictions wait."""
        await self._play(seq, waiting, is_wanted=False)

    async def state(self, seq: int, waiting: Iterable[Prediction]) -> bytes:
        """The same, and what the model is then in that world."""
        report = await self._play(seq, waiting, is_wanted=True)
        assert report.state is not None
        return report.state

    async def _play(self, seq: int, waiting: Iterable[Prediction], *, is_wanted: bool) -> Report:
        all_waiting = list(waiting)
        new = [each for each in all_waiting if each.prediction_id not in self._told]
        wanted = [each.prediction_id for each in all_waiting]
        self._told = set(wanted)
        await self._send_events(seq)
        await self._worker.send(frame(Piece([], [], True, new, wanted if is_wanted else None)))
        report = await self._worker.receive(Report)
        if report.is_outdated:
            raise Outdated
        if report.failed is not None:
            raise InvalidRequest(report.failed)
        return report

    async def _send_events(self, seq: int) -> None:
        deadline = monotonic() + LAG_SECONDS
        while self.seq < seq:
            page = await self._journal.history(self._milestone, after=self.seq, limit=EVENTS_AT_ONCE)
            if page is None:
                raise Trimmed
            page = [recorded for recorded in page if recorded.seq <= seq]
            if page:
                gone = [place for place, each in enumerate(page) if each.seq in self._erasing]
                await self._worker.send(frame(Piece([each.event for each in page], gone)))
                self.seq = page[-1].seq
                continue
            # The servers of a cluster may not all have the newest events yet.
            if monotonic() > deadline:
                raise JournalUnavailable("the newest events cannot be read just now")
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    async def end(self) -> None:
        await self._worker.end()


async def right_model(
    journal: Journal, fleet: Fleet, limits: JobLimits, name: str, version: int
) -> Model | None:
    """A model as it would have been at a version had all labels been right; None if that is no longer kept."""
    live = await fleet.get(name)
    live.pins += 1
    try:
        seq = live.seq
        milestone = await milestone_before(journal, live.model, version)
        fleet.check_loaded(live)  # else it may be that of another model of this name
        if milestone is None:
            return None
        amended = live.model.amended
        # What is forgotten may still be waiting to be erased.
        erasing = frozenset(amended.erasing or ()) if amended is not None else frozenset()
        replay = await Replay.start(journal, milestone, limits, until=version, erasing=erasing)
        try:
            model = Model.from_bytes(await replay.state(seq, ()))
        finally:
            await replay.end()
    finally:
        live.pins -= 1
    model.version, model.amended = version, None
    return model
