"""Rounds that were finished before: a retry gets the first answer again."""

from service.engine.fleet.fleet import Fleet
from service.engine.fleet.live import awakened
from service.engine.model.labels import same
from service.engine.model.model import Model
from service.engine.model.outcomes import Outcome, OutcomeLog, Round
from service.errors import FeedbackConflict, JournalUnavailable, PredictionIdTaken, UnknownPrediction
from service.events import Label, RoundLearned, RoundRevealed
from service.journal.protocol import Journal, Recorded


class Replays:
    """Finds what came of earlier rounds, in memory or on disk."""

    def __init__(self, journal: Journal, fleet: Fleet) -> None:
        self._journal = journal
        self._fleet = fleet

    async def recorded(self, prediction_id: str) -> Recorded:
        """The event under an id that the journal has refused to take twice."""
        found = await self._journal.find(prediction_id)
        if not isinstance(found, Recorded):  # its model was deleted meanwhile
            raise UnknownPrediction(f"there is no prediction {prediction_id!r}")
        return found

    async def learned_before(self, event: RoundLearned) -> Round:
        """What came of a whole round that was sent before under the same id."""
        assert event.prediction_id is not None
        found = await self.recorded(event.prediction_id)
        earlier = found.event
        if (
            not isinstance(earlier, RoundLearned)
            or earlier.model != event.model
            or earlier.features != event.features
        ):
            raise taken(event.prediction_id)
        return await self.again(found, event.label)

    async def again(self, found: Recorded, label: Label) -> Round:
        """The first answer again, for the same label."""
        event = found.event
        assert isinstance(event, RoundRevealed | RoundLearned)
        if not same(event.label, label):
            raise FeedbackConflict(f"{event.prediction_id!r} was revealed with another label before")
        live = await self._fleet.get(event.model)
        outcome = live.outcomes.find(found.seq) or await self._outcome_on_disk(event.model, found.seq)
        predicted = label_served(live.model, event, outcome)
        return Round(event.prediction_id, event.model, predicted, event.label, outcome, True)

    async def _outcome_on_disk(self, name: str, seq: int) -> Outcome:
        saved = OutcomeLog(await self._journal.outcomes(name, seq) or b"").find(seq)
        if saved is not None:
            return saved
        # Its snapshot was not written (the disk was full, say): then the event is in the tail still.
        stored = await self._journal.load(name)
        replayed = awakened(name, stored).outcomes.find(seq) if stored is not None else None
        if replayed is None:
            raise JournalUnavailable("what came of this round cannot be told just now")
        return replayed


def label_served(model: Model, event: RoundRevealed | RoundLearned, outcome: Outcome) -> Label | None:
    """The label that was served; None if there was none, or if it was a class that a reset has forgotten."""
    if isinstance(event, RoundRevealed):
        return event.served
    if not outcome.mistake:
        return event.label
    is_known = event.at > model.began_at or model.settings["labels"] is not None
    return model.labels.label(outcome.served) if is_known else None


def taken(prediction_id: str) -> PredictionIdTaken:
    return PredictionIdTaken(f"the id {prediction_id!r} was used for another example before")
