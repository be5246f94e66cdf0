"""Retries: one request at a time for each id, and a round that was finished before gets its first answer again."""

from asyncio import CancelledError, Future, Lock, get_running_loop
from collections import deque
from itertools import count

from msgspec import UNSET, UnsetType

from service.engine.fleet.fleet import Fleet
from service.engine.fleet.fold import outcome_of
from service.engine.fleet.live import Live
from service.engine.fleet.loading import as_damaged, restore_live
from service.engine.models.labels import same
from service.engine.models.model import Model
from service.engine.models.outcomes import Outcome, OutcomeLog, Round
from service.errors import (
    FeedbackConflict,
    JournalUnavailable,
    PredictionIdTaken,
    PredictionVoid,
    UnknownPrediction,
)
from service.events import Label, PredictionVoided, RoundCorrected, RoundErased, RoundLearned, RoundRevealed
from service.journal.protocol import Journal, Recorded


class IdLocks:
    """Locks by id, acquired in the order in which they were asked for.

    What a request has found out about an id stays true until it lets go of it, however often it waits for the
    disk or for a model to be loaded in between.
    """

    def __init__(self) -> None:
        # For each locked id, the requests that wait for it; None while there are none.
        self._waiting: dict[str, deque[Future[None]] | None] = {}

    def __contains__(self, prediction_id: object) -> bool:
        """Whether a request is under way with this id."""
        return prediction_id in self._waiting

    def held(self, prediction_id: str) -> "HeldId":
        """A context in which the lock is held."""
        return HeldId(self, prediction_id)

    def try_acquire(self, prediction_id: str) -> bool:
        """Take the lock if it is free; else `acquire` waits for it."""
        if prediction_id in self._waiting:
            return False
        self._waiting[prediction_id] = None
        return True

    async def acquire(self, prediction_id: str) -> None:
        if self.try_acquire(prediction_id):
            return
        waiting = self._waiting[prediction_id]
        if waiting is None:
            waiting = self._waiting[prediction_id] = deque()
        turn: Future[None] = get_running_loop().create_future()
        waiting.append(turn)
        try:
            await turn
        except CancelledError:
            if not turn.cancelled():  # cancelled after it was given the lock: give it on
                self.release(prediction_id)
            raise

    def release(self, prediction_id: str) -> None:
        waiting = self._waiting[prediction_id]
        while waiting:
            turn = waiting.popleft()
            if not turn.done():  # else that request was cancelled
                turn.set_result(None)
                return
        del self._waiting[prediction_id]


class HeldId:
    __slots__ = ("_id", "_locks")

    def __init__(self, locks: IdLocks, prediction_id: str) -> None:
        self._locks = locks
        self._id = prediction_id

    async def __aenter__(self) -> None:
        await self._locks.acquire(self._id)

    async def __aexit__(self, *_: object) -> None:
        self._locks.release(self._id)


class Replays:
    """Finds the outcomes of finished rounds, in memory or in the journal."""

    def __init__(self, journal: Journal, fleet: Fleet) -> None:
        self._journal = journal
        self._fleet = fleet
        self._replaying = Lock()
        """One at a time: a history may be long."""

    async def recorded(self, prediction_id: str) -> Recorded:
        """The event of an id whose append was not new."""
        found = await self._journal.find(prediction_id)
        if not isinstance(found, Recorded):  # its model was deleted in the meantime
            raise UnknownPrediction(f"there is no prediction {prediction_id!r}")
        return found

    async def learned_before(self, event: RoundLearned) -> Round:
        """The first answer to a whole round whose append was not new; PredictionIdTaken if its features differ."""
        assert event.prediction_id is not None
        found = await self.recorded(event.prediction_id)
        earlier = found.event
        if (
            not isinstance(earlier, RoundLearned)
            or earlier.model != event.model
            or earlier.features != event.features
        ):
            raise id_taken(event.prediction_id)
        return await self.answer_again(found, event.label, event.weight)

    async def answer_again(self, found: Recorded, label: Label, weight: float) -> Round:
        """The first answer again; FeedbackConflict if the label is another one, or its weight."""
        event = found.event
        if isinstance(event, PredictionVoided):
            raise is_void(event.prediction_id)
        assert isinstance(event, RoundRevealed | RoundLearned)
        live = await self._fleet.get(event.model)
        last = await self.last_correction(live, event)
        if last is not None and last.label is None:
            raise is_void(last.corrects)
        if not same(event.label, label):
            raise FeedbackConflict(
                f"{event.prediction_id!r} was already revealed with label {event.label!r};"
                f" PUT /feedback/{event.prediction_id} corrects it"
            )
        if event.weight != weight:
            raise FeedbackConflict(
                f"{event.prediction_id!r} was already revealed with weight {event.weight:g}"
            )
        outcome = await self.outcome(live, found.seq, event)
        predicted, among = label_served(live.model, event, outcome), set_served(live.model, event, outcome)
        return Round(event.prediction_id, event.model, predicted, event.label, outcome, True, among)

    async def outcome(self, live: Live, seq: int, event: RoundRevealed | RoundLearned) -> Outcome:
        """What came of a finished round, when it was finished."""
        return live.outcome_of(seq) or await self._outcome_on_disk(event, seq)

    async def last_correction(self, live: Live, event: RoundRevealed | RoundLearned) -> RoundCorrected | None:
        """The last correction of a round, if there was one."""
        last = None
        if live.model.amended is None or event.prediction_id is None:
            return None
        for number in count(1):
            found = await self._journal.recorded(live.life, correction_key(event.prediction_id, number))
            if found is None:
                return last
            assert isinstance(found.event, RoundCorrected)
            last = found.event
        raise AssertionError("there is no end of numbers")

    async def _outcome_on_disk(self, event: RoundRevealed | RoundLearned, seq: int) -> Outcome:
        name = event.model
        saved = OutcomeLog(await self._journal.outcomes(name, seq) or b"").find(seq)
        if saved is not None:
            return saved
        async with self._replaying:
            replayed = await self._replayed(name, seq)
        if replayed is None:
            assert event.prediction_id is not None
            await self.recorded(
                event.prediction_id
            )  # its model may have been deleted meanwhile, and made again
            raise JournalUnavailable("the outcome of this round is not known at the moment")
        return replayed

    async def _replayed(self, name: str, seq: int) -> Outcome | None:
        """What came of a round whose snapshot was not saved: the disk was full, say."""
        stored = await self._journal.load(name)
        if stored is None:
            return None
        if stored.seq < seq and not any(isinstance(one.event, RoundErased) for one in stored.tail):
            return (await restore_live(name, stored)).outcomes.find(seq)
        with as_damaged(name):  # a later snapshot was saved, without what the one that failed had
            return await outcome_of(self._journal, name, seq)


def label_served(model: Model, event: RoundRevealed | RoundLearned, outcome: Outcome) -> Label | None:
    """The label that was served; None if there was none, or if its class was lost by a reset."""
    if isinstance(event, RoundRevealed):
        return event.served
    if not outcome.mistake:
        return event.label
    return model.labels.label(outcome.served) if _are_classes_known(model, event) else None


def set_served(
    model: Model, event: RoundRevealed | RoundLearned, outcome: Outcome
) -> list[Label] | UnsetType | None:
    """The set that a whole round was served with; None also if its classes were lost by a reset."""
    if model.sets is None or isinstance(event, RoundRevealed):
        return UNSET
    return model.labels_in(outcome.set) if _are_classes_known(model, event) else None


def _are_classes_known(model: Model, event: RoundLearned) -> bool:
    return event.at > model.began_at or model.settings["labels"] is not None


def correction_key(prediction_id: str, number: int) -> str:
    """The id of the event of a round's first correction, of its second, and so on. No client can choose such an id."""
    return f"{prediction_id} corrected {number}"


def is_void(prediction_id: str) -> PredictionVoid:
    return PredictionVoid(f"prediction {prediction_id!r} was voided")


def id_taken(prediction_id: str) -> PredictionIdTaken:
    return PredictionIdTaken(f"the id {prediction_id!r} was already used for another example")
