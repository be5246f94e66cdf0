"""A model's history played as it would have been, in a process of its own that is handed it piece by piece."""

import asyncio
from collections.abc import Callable, Container, Iterable
from time import monotonic
from typing import Any, Literal

from service.engine.fleet.fleet import Fleet
from service.engine.fleet.fold import EVENTS_AT_ONCE, LAG_SECONDS, LOOK_AGAIN_SECONDS, Trimmed, model_of
from service.engine.models.model import Model
from service.engine.replay.counterfactual import Outdated
from service.engine.replay.play_process import Piece, Report, Task
from service.errors import InvalidRequest, JournalUnavailable
from service.events import AnyEvent, Label, Prediction
from service.journal.protocol import Journal, Milestone
from service.runtime.child import frame
from service.runtime.processes import JobLimits, Worker


async def milestone_before(journal: Journal, model: Model, version: int) -> Milestone | None:
    """The newest milestone at or before a version whose state is of a world that no rebuild has replaced."""
    while version >= 0:
        milestone = await journal.milestone(model.name, version)
        if (
            milestone is None
            or (then := await model_of(journal, milestone)) is None
            or then.version > version
        ):
            return None
        spoilt_since = model.amended.spoils(then.version) if model.amended is not None else None
        if spoilt_since is None:
            return milestone
        version = spoilt_since - 1
    return None


async def oldest_milestone(journal: Journal, model: Model) -> Milestone | None:
    """The oldest milestone whose state is of a world that no rebuild has replaced."""
    oldest = await journal.milestone(model.name, None)
    if model.amended is None or not model.amended.spans or oldest is None or oldest.state is None:
        return oldest
    oldest, version = None, model.version
    while (found := await milestone_before(journal, model, version)) is not None:
        then = await model_of(journal, found)
        oldest, version = found, (0 if then is None else then.version) - 1
    return oldest


class Playing:
    """The process, and how far it is."""

    def __init__(
        self,
        journal: Journal,
        milestone: Milestone,
        worker: Worker,
        erasing: Container[int],
        on_progress: Callable[[Any], None],
    ) -> None:
        """`erasing`: the events that are to be as if they had never been."""
        self._journal = journal
        self._erasing = erasing
        self._milestone = milestone
        self.worker = worker
        self._told: set[str] = set()
        """Predictions that it was told to wait."""
        self.seq = milestone.seq
        """The last event that it has."""
        self.seqs: list[int] = []
        """All of them, by their places."""
        self._on_progress = on_progress

    @classmethod
    async def start(
        cls,
        journal: Journal,
        milestone: Milestone,
        limits: JobLimits,
        until: int | None = None,
        *,
        erasing: Container[int] = (),
        tried: Iterable[dict[str, Any]] = (),
        confidence: float = 0.95,
        keep: Literal["model", "learner"] | None = None,
        on_progress: Callable[[Any], None] = lambda progress: None,
    ) -> "Playing":
        worker = await Worker.start("service.engine.replay.play_process", limits)
        try:
            task = Task(milestone.state_view, until, list(tried), confidence, keep)
            await worker.send(frame(task))
        except BaseException:  # cancelled, say: the process is not registered yet
            await worker.end()
            raise
        return cls(journal, milestone, worker, erasing, on_progress)

    async def play(self, seq: int, waiting: Iterable[Prediction]) -> int:
        """Let it play the events up to one, after which these predictions wait; how many there were."""
        before = len(self.seqs)
        await self._play(seq, waiting)
        return len(self.seqs) - before

    async def state(self, seq: int, waiting: Iterable[Prediction]) -> bytes:
        """The same, and what the model is then in that world."""
        all_waiting = list(waiting)
        report = await self._play(seq, all_waiting, wanted=[each.prediction_id for each in all_waiting])
        assert report.state is not None
        return report.state

    async def compared(self, seq: int, waiting: Iterable[Prediction]) -> Report:
        """The same, and how the settings that are tried have done."""
        return await self._play(seq, waiting, is_compared=True)

    async def traced(self, seq: int) -> tuple[dict[int, AnyEvent], list[Label]]:
        """What takes the places of others of the events up to one, once those are erased that are to be, by their
        numbers; and the labels that only these have brought. Instead of `play`."""
        report = await self._play(seq, (), is_traced=True)
        instead = {} if report.instead is None else report.instead
        return {self.seqs[place]: event for place, event in instead.items()}, report.labels_gone

    async def _play(self, seq: int, waiting: Iterable[Prediction], **more: Any) -> Report:
        all_waiting = list(waiting)
        new = [each for each in all_waiting if each.prediction_id not in self._told]
        self._told = {each.prediction_id for each in all_waiting}
        await self._send_events(seq)
        await self.worker.send(frame(Piece([], [], True, new, **more)))
        while (report := await self.worker.receive(Report)).progress is not None:
            self._on_progress(report.progress)
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
                await self.worker.send(frame(Piece([each.event for each in page], gone)))
                self.seq = page[-1].seq
                self.seqs += [recorded.seq for recorded in page]
                continue
            # The servers of a cluster may not all have the newest events yet.
            if monotonic() > deadline:
                raise JournalUnavailable("the newest events cannot be read at the moment")
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    async def end(self) -> None:
        await self.worker.end()


async def right_model(
    journal: Journal, fleet: Fleet, limits: JobLimits, name: str, version: int
) -> Model | None:
    """A model as it would have been at a version had all labels been right; None if that is no longer kept."""
    live = await fleet.get(name)
    with live.pinned():
        seq = live.seq
        milestone = await milestone_before(journal, live.model, version)
        fleet.check_loaded(live)  # else it may be that of another model of this name
        if milestone is None:
            return None
        playing = await Playing.start(journal, milestone, limits, version, erasing=live.model.erasing)
        try:
            model = Model.from_bytes(await playing.state(seq, ()))
        finally:
            await playing.end()
    model.version, model.amended = version, None
    return model
