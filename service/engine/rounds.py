"""The protocol: predict, reveal, learn. Append first, apply after, then answer."""

from asyncio import Future, get_running_loop
from typing import NamedTuple

from service.engine.checks import Sent, check_label
from service.engine.clock import Clock, made_at, make_prediction_id
from service.engine.examples import Examples
from service.engine.expiry import Expiry
from service.engine.explanation import Term, explain
from service.engine.fleet import Fleet
from service.engine.labels import same
from service.engine.live import Live
from service.engine.models import Models
from service.engine.names import check_id
from service.engine.outcomes import Outcome, OutcomeLog, served_label
from service.errors import (
    FeedbackConflict,
    JournalUnavailable,
    PredictionExpired,
    PredictionIdTaken,
    RevealFirst,
    UnknownPrediction,
)
from service.events import Label, Prediction, RoundLearned, RoundRevealed, prediction_in
from service.journal.protocol import Appended, Journal, Recorded


class Round(NamedTuple):
    """A finished round as its client sees it; `replayed` if it was finished before this request."""

    prediction_id: str | None
    model: str
    predicted: Label | None
    label: Label
    outcome: Outcome
    replayed: bool


class Rounds:
    """Serves predictions from live models and turns labels into durable events."""

    def __init__(
        self,
        journal: Journal,
        fleet: Fleet,
        models: Models,
        examples: Examples,
        clock: Clock,
        *,
        pending_ttl_seconds: float,
        pending_max: int,
        pending_total_max: int,
        wait_for_predictions: bool,
    ) -> None:
        self._journal = journal
        self._fleet = fleet
        self._models = models
        self._examples = examples
        self._clock = clock
        self._pending_max = pending_max
        self._wait_for_predictions = wait_for_predictions
        self._revealing: dict[str, Future[None]] = {}
        self.expiry = Expiry(
            fleet,
            clock,
            self._revealing,
            ttl_seconds=pending_ttl_seconds,
            pending_max=pending_max,
            pending_total_max=pending_total_max,
        )

    async def predict(
        self, name: str, sent: Sent, prediction_id: str | None, terms: int = 0
    ) -> tuple[Prediction, list[Term]]:
        """Serve a prediction and keep it until its label comes; with its largest `terms`."""
        earlier = await self._served_before(prediction_id) if prediction_id is not None else None
        live = self._fleet.used(name) or await self._models.get_or_create(name, sent)
        example = await self._examples.read(live, sent)
        model = live.model
        features = model.features.encode(example)
        if prediction_id is not None:
            waiting = self._fleet.owner.get(prediction_id)  # another request may have been quicker
            earlier = waiting.pending[prediction_id] if waiting is not None else earlier
        if earlier is not None:
            if earlier.model != name or earlier.features != features:
                raise _taken(earlier.prediction_id)
            return earlier, explain(model, example, terms)
        if live.pending and model.settings["protocol"] == "strict":
            raise RevealFirst(f"reveal prediction {next(iter(live.pending))!r} first: the model is strict")
        at = self._clock.now()
        label, score = model.decide(model.features.vector(example))
        explanation = explain(model, example, terms) if terms else []
        prediction = Prediction(
            prediction_id or make_prediction_id(at),
            name,
            at,
            features,
            label,
            score,
            model.version,
            model.updates,
        )
        chosen = prediction_id is not None
        if not await self._keep(live, prediction, wait=chosen and self._journal.is_shared):
            earlier = await self._served_before(prediction.prediction_id)  # by another replica, just now
            if earlier is None or earlier.model != name or earlier.features != features:
                raise _taken(prediction.prediction_id)
            return earlier, explanation
        return prediction, explanation

    async def reach(self, name: str, version: int) -> None:
        """Wait until a model has come to a version that another replica has told of."""
        await self._fleet.reach(name, version)

    async def reveal(self, prediction_id: str, label: Label, prefix: str = "") -> Round:
        """Learn the true label of a prediction, once. Models whose names begin otherwise have none."""
        while (other := self._revealing.get(prediction_id)) is not None:
            await other
        live = self._fleet.owner.get(prediction_id)
        if live is not None and live.model.name.startswith(prefix):
            prediction = live.pending[prediction_id]
        else:
            found = await self._locate(prediction_id, prefix, expected=True)
            if isinstance(found, Recorded):
                return await self._replay(found, label)
            live, prediction = found
            self._clock.start_after(prediction.at)  # another replica's clock may be ahead
        at = self._clock.now()
        if self.expiry.is_due(prediction.at, at):
            raise _expired(prediction_id)
        check_label(live.model, label)
        event = RoundRevealed(
            prediction.model,
            at,
            prediction_id,
            label,
            prediction.at,
            prediction.features,
            prediction.served,
            prediction.score,
            prediction.version,
            prediction.updates,
        )
        appended = await self._append_reveal(live, event)
        if not appended.is_new:
            return await self._replay(await self._recorded(prediction_id), label)
        return Round(prediction_id, prediction.model, prediction.served, label, appended.applied, False)

    async def learn(self, name: str, sent: Sent, label: Label, prediction_id: str | None) -> Round:
        """A whole round at once. With an id, a retry is not learned twice."""
        if prediction_id is not None and await self._awaits_label(prediction_id):
            raise _taken(prediction_id)
        live = self._fleet.used(name) or await self._models.get_or_create(name, sent)
        features = live.model.features.encode(await self._examples.read(live, sent))
        check_label(live.model, label)
        event = RoundLearned(name, self._clock.now(), prediction_id, label, features)
        appended = await self._fleet.append(live, event)
        if not appended.is_new:
            return await self._relearned(event)
        predicted = served_label(live.model, event, appended.applied)
        return Round(prediction_id, name, predicted, label, appended.applied, False)

    async def _keep(self, live: Live, prediction: Prediction, *, wait: bool) -> bool:
        """Keep a prediction until its label comes; False if another replica has kept one under its id."""
        self.expiry.check_room(live)
        durable = self._journal.put_pending(prediction, wait=wait or self._wait_for_predictions)
        live.submitted = self._journal.submitted
        live.keep(prediction)
        self._fleet.owner[prediction.prediction_id] = live
        self._fleet.changed(live)
        if len(live.pending) > self._pending_max:
            self.expiry.push_out(live)
        is_kept = durable is None
        if durable is not None:
            live.pins += 1
            try:
                is_kept = (await durable).is_new
            finally:
                live.pins -= 1
                if not is_kept:
                    live.pending.pop(prediction.prediction_id, None)
                    self._fleet.owner.pop(prediction.prediction_id, None)
        return is_kept

    async def _append_reveal(self, live: Live, event: RoundRevealed) -> Appended:
        """Append a reveal; a second one of the same prediction waits until this one is done."""
        done = self._revealing[event.prediction_id] = get_running_loop().create_future()
        try:
            return await self._fleet.append(live, event)
        finally:
            del self._revealing[event.prediction_id]
            done.set_result(None)

    async def _find(
        self, prediction_id: str, prefix: str = "", *, expected: bool = False
    ) -> Prediction | Recorded | None:
        """What the journal has under an id, if that is a round of a model whose name begins so."""
        found = await self._journal.find(prediction_id, expected=expected)
        of = found.event if isinstance(found, Recorded) else found
        if isinstance(of, Prediction | RoundRevealed | RoundLearned) and of.model.startswith(prefix):
            return found
        return None

    async def _locate(
        self, prediction_id: str, prefix: str = "", *, expected: bool = False
    ) -> tuple[Live, Prediction] | Recorded:
        """Where a prediction is that no loaded model waits for: revealed before, or waiting elsewhere."""
        found = await self._find(prediction_id, prefix, expected=expected)
        if isinstance(found, Prediction):
            live = await self._fleet.get(found.model)
            if prediction_id in live.pending:
                return live, live.pending[prediction_id]
            if self._journal.is_shared and live.may_reveal(found):
                return live, found  # another replica has served it
            found = await self._find(prediction_id, prefix)  # unless it was revealed just now, it has expired
        if isinstance(found, Recorded):
            return found
        made = made_at(prediction_id)
        if found is not None or (made is not None and self.expiry.is_due(made, self._clock.now())):
            raise _expired(prediction_id)
        raise UnknownPrediction(f"there is no prediction {prediction_id!r}")

    async def _served_before(self, prediction_id: str) -> Prediction | None:
        """The prediction that was served under an id that a client chose, if any."""
        check_id(prediction_id)
        if prediction_id not in self._fleet.owner:
            try:
                found = await self._locate(prediction_id)
            except UnknownPrediction:
                return None
            if not isinstance(found, Recorded):
                return found[1]
            event = found.event
            if not isinstance(event, RoundRevealed):
                raise _taken(prediction_id)
            return prediction_in(event)
        return self._fleet.owner[prediction_id].pending[prediction_id]

    async def _awaits_label(self, prediction_id: str) -> bool:
        check_id(prediction_id)
        if prediction_id in self._fleet.owner:
            return True
        found = await self._journal.find(prediction_id)
        return isinstance(found, Prediction) or prediction_id in self._fleet.owner

    async def _recorded(self, prediction_id: str) -> Recorded:
        found = await self._journal.find(prediction_id)
        if not isinstance(found, Recorded):  # its model was deleted meanwhile
            raise UnknownPrediction(f"there is no prediction {prediction_id!r}")
        return found

    async def _relearned(self, event: RoundLearned) -> Round:
        """What came of a whole round that was sent before under the same id."""
        assert event.prediction_id is not None
        found = await self._recorded(event.prediction_id)
        earlier = found.event
        if (
            not isinstance(earlier, RoundLearned)
            or earlier.model != event.model
            or earlier.features != event.features
        ):
            raise _taken(event.prediction_id)
        return await self._replay(found, event.label)

    async def _replay(self, found: Recorded, label: Label) -> Round:
        """The first answer again, for the same label."""
        event = found.event
        assert isinstance(event, RoundRevealed | RoundLearned)
        if not same(event.label, label):
            raise FeedbackConflict(f"{event.prediction_id!r} was revealed with another label before")
        live = await self._fleet.get(event.model)
        outcome = live.outcomes.find(found.seq) or await self._outcome_on_disk(event.model, found.seq)
        predicted = served_label(live.model, event, outcome)
        return Round(event.prediction_id, event.model, predicted, event.label, outcome, True)

    async def _outcome_on_disk(self, name: str, seq: int) -> Outcome:
        saved = OutcomeLog(await self._journal.outcomes(name, seq) or b"").find(seq)
        if saved is not None:
            return saved
        # Its snapshot was not written (the disk was full, say): then the event is in the tail still.
        stored = await self._journal.load(name)
        replayed = Live.awaken(stored).outcomes.find(seq) if stored is not None else None
        if replayed is None:
            raise JournalUnavailable("what came of this round cannot be told just now")
        return replayed


def _expired(prediction_id: str) -> PredictionExpired:
    return PredictionExpired(f"prediction {prediction_id!r} has expired: its label came too late")


def _taken(prediction_id: str) -> PredictionIdTaken:
    return PredictionIdTaken(f"the id {prediction_id!r} was used for another example before")
