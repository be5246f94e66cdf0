"""The protocol of rounds: predict, reveal, learn. An event is appended, then applied, then answered."""

from asyncio import Future
from functools import partial
from itertools import chain
from typing import Any

from novikoff.schemas import TAG_CHARS_MAX
from service.engine.clock import Clock
from service.engine.engine_settings import EngineSettings
from service.engine.fleet.fleet import Fleet
from service.engine.fleet.large_models import free_to_predict
from service.engine.fleet.live import Live
from service.engine.fleet.models import Models
from service.engine.models.checks import Sent, check_label, check_weight
from service.engine.models.outcomes import Round
from service.engine.names import check_id, check_text, made_at, make_prediction_id
from service.engine.rounds.examples import Examples
from service.engine.rounds.expiry import Expiry, ExpiryLabels
from service.engine.rounds.explanation import Answered, DryRuns, answered, explain
from service.engine.rounds.retries import IdLocks, Replays, id_taken, is_void, label_served, set_served
from service.errors import (
    JournalUnavailable,
    PredictionExpired,
    PredictionUnderWay,
    RevealFirst,
    UnknownPrediction,
)
from service.events import (
    Label,
    Prediction,
    PredictionVoided,
    RoundLearned,
    RoundRevealed,
    prediction_in,
    revealed,
)
from service.journal.protocol import Appended, Journal, Recorded, WaitingPrediction

UNDER_WAY_US = 600_000_000
"""How long that may last. A replica that is cut off soon refuses to predict, and within ten minutes it has reached the
cluster again or was replaced. So an older id that is unknown stays unknown."""


async def check_in_touch(journal: Journal) -> None:
    """JournalUnavailable if this replica is cut off: others could not find a prediction that it makes now."""
    if journal.why_out_of_touch is None:
        return
    await journal.refresh()
    if (why := journal.why_out_of_touch) is not None:
        raise JournalUnavailable(f"{why}, so no other replica would find this prediction")


async def check_not_under_way(journal: Journal, prediction_id: str, age: int) -> None:
    """PredictionUnderWay if an unknown id, made by the service `age` microseconds ago, may still become known."""
    if abs(age) < UNDER_WAY_US and await journal.may_arrive_later(prediction_id):
        raise PredictionUnderWay(
            f"there is no prediction {prediction_id!r} here yet: another replica may not have handed it over"
        )


KNOWN = (Prediction, RoundRevealed, RoundLearned, PredictionVoided)
"""What an id that clients know may stand for."""


class Rounds:
    """Serves predictions from loaded models and turns labels into durable events."""

    def __init__(
        self,
        journal: Journal,
        fleet: Fleet,
        models: Models,
        examples: Examples,
        clock: Clock,
        settings: EngineSettings,
    ) -> None:
        self._journal = journal
        self._fleet = fleet
        self._models = models
        self._examples = examples
        self._clock = clock
        self._wait_for_predictions = settings.durability_of_predictions == "strict"
        self._weight_max = settings.weight_max
        self.locks = IdLocks()
        self.dry = DryRuns(fleet, examples, clock)
        self.replays = Replays(journal, fleet)
        self.expiry = Expiry(journal, fleet, clock, self.locks, ExpiryLabels(journal, fleet), settings)

    async def predict(
        self, name: str, sent: Sent, prediction_id: str | None, terms: int = 0, tag: str | None = None
    ) -> Answered:
        """Serve a prediction and keep it until its label comes; explained by the `terms` largest terms of its score."""
        if tag is not None:
            check_text("tag", tag, TAG_CHARS_MAX)
        if prediction_id is None:
            if self._journal.why_out_of_touch is not None:
                await check_in_touch(self._journal)
            return await self._predict(name, sent, None, None, terms, tag)
        check_id(prediction_id)
        async with self.locks.held(prediction_id):
            earlier = await self._served_before(prediction_id)
            return await self._predict(name, sent, prediction_id, earlier, terms, tag)

    async def _predict(
        self,
        name: str,
        sent: Sent,
        prediction_id: str | None,
        earlier: Prediction | None,
        terms: int,
        tag: str | None,
    ) -> Answered:
        """`earlier` is the prediction that was served before under this id."""
        if earlier is not None and earlier.model != name:
            raise id_taken(earlier.prediction_id)
        if (live := self._fleet.touch(name)) is None:
            live = await self._models.get_or_create(name, sent, partial(self._examples.check, sent=sent))
        example = self._examples.read_at_once(live.model, sent)
        if example is None or live.held is not None or self.expiry.is_full:
            with live.pinned():
                if example is None:
                    example = await self._examples.read(live, sent)
                while earlier is None and self.expiry.is_full:
                    await self.expiry.make_room(live)
                if live.held is not None:
                    await free_to_predict(live)
            self._fleet.check_loaded(live)
        return await self._serve(live, example, prediction_id, earlier, terms, tag)

    async def _serve(
        self,
        live: Live,
        example: Any,
        prediction_id: str | None,
        earlier: Prediction | None,
        terms: int,
        tag: str | None,
    ) -> Answered:
        model = live.model
        name = model.name
        features = model.features.encode(example)
        if earlier is not None:
            if earlier.features != features:
                raise id_taken(earlier.prediction_id)
            return answered(model, earlier, explain(model, example, terms))
        if live.waiting and model.settings["protocol"] == "strict":
            first = next(chain(live.resting, live.pending))
            raise RevealFirst(f"reveal prediction {first!r} first: the model is strict")
        # The clock of the replica that made a reset may be ahead; what is predicted after the reset is not void.
        at = max(self._clock.now(), live.voided_through + 1)
        served, score, certainty = model.predict(example)
        explanation = explain(model, example, terms) if terms else []
        chosen = prediction_id or make_prediction_id(at)
        label = model.labels.label(served)
        prediction = Prediction(
            chosen, name, at, features, label, score, model.version, model.updates, certainty, tag
        )
        others_may_choose_it = prediction_id is not None and self._journal.is_shared
        durable = self._keep(live, prediction, wait=others_may_choose_it)
        if durable is not None and not await self._is_kept(live, prediction, durable):
            earlier = await self._served_before(prediction.prediction_id)  # by another replica, a moment ago
            if earlier is None or earlier.model != name or earlier.features != features:
                raise id_taken(prediction.prediction_id)
            prediction = earlier
        return answered(model, prediction, explanation)

    async def reach(self, name: str, version: int) -> None:
        """Wait until a model has reached a version, which another replica has told the client."""
        await self._fleet.reach(name, version)

    async def reveal(
        self,
        prediction_id: str,
        label: Label,
        weight: float = 1.0,
        *,
        prefix: str = "",
        model: str | None = None,
    ) -> Round:
        """Learn the true label of a prediction, once; only of this model, or of those that begin with `prefix`."""
        if weight != 1.0:
            check_weight(weight, self._weight_max)
        if not self.locks.try_acquire(prediction_id):
            await self.locks.acquire(prediction_id)
        try:
            return await self._reveal(prediction_id, label, weight, prefix, model)
        finally:
            self.locks.release(prediction_id)

    async def _reveal(
        self, prediction_id: str, label: Label, weight: float, prefix: str, model: str | None
    ) -> Round:
        live = self._fleet.waiting.get(prediction_id)
        if live is not None and live.model.name.startswith(prefix) and model in (None, live.model.name):
            prediction = live.pending[prediction_id]
        else:
            found = await self.locate(prediction_id, prefix, model, expected=True)
            if isinstance(found, Recorded):
                return await self.replays.answer_again(found, label, weight)
            live, prediction = found
            self._clock.follow(prediction.at)  # another replica's clock may be ahead
        at = self._clock.now()
        if self.expiry.is_due(prediction.at, at, live):
            raise self.expiry.why_gone(live, prediction, at)
        new = check_label(live.model, label, live.new_labels)
        event = revealed(prediction, at, label, weight)
        appended = await self._fleet.append(live, event, new)
        if not appended.is_new:
            recorded = await self.replays.recorded(prediction_id)
            return await self.replays.answer_again(recorded, label, weight)
        return Round(prediction_id, prediction.model, prediction.served, label, appended.applied, False)

    async def learn(
        self,
        name: str,
        sent: Sent,
        label: Label,
        prediction_id: str | None,
        weight: float = 1.0,
        tag: str | None = None,
    ) -> Round:
        """Predict and reveal at once. With an id, a retry is not learned twice."""
        if tag is not None:
            check_text("tag", tag, TAG_CHARS_MAX)
        if weight != 1.0:
            check_weight(weight, self._weight_max)
        if prediction_id is None:
            return await self._learn(name, sent, label, None, weight, tag)
        check_id(prediction_id)
        async with self.locks.held(prediction_id):
            if await self._is_taken(prediction_id, name):
                raise id_taken(prediction_id)
            return await self._learn(name, sent, label, prediction_id, weight, tag)

    async def _learn(
        self, name: str, sent: Sent, label: Label, prediction_id: str | None, weight: float, tag: str | None
    ) -> Round:
        if (live := self._fleet.touch(name)) is None:
            check = partial(self._examples.check, sent=sent, label=label)
            live = await self._models.get_or_create(name, sent, check)
        example = self._examples.read_at_once(live.model, sent)
        if example is None:
            with live.pinned():
                example = await self._examples.read(live, sent, label)
        features = live.model.features.encode(example)
        new = check_label(live.model, label, live.new_labels)
        event = RoundLearned(name, self._clock.now(), prediction_id, label, features, weight, tag)
        appended = await self._fleet.append(live, event, new)
        if not appended.is_new:
            return await self.replays.learned_before(event)
        outcome = appended.applied
        predicted, among = label_served(live.model, event, outcome), set_served(live.model, event, outcome)
        return Round(prediction_id, name, predicted, label, outcome, False, among)

    def _keep(self, live: Live, prediction: Prediction, *, wait: bool) -> Future[Appended] | None:
        """Keep a prediction until its label comes; what has to be waited for before it is served, if anything."""
        durable = self._journal.put_pending(prediction, live.life, wait=wait or self._wait_for_predictions)
        live.submitted = self._journal.submitted
        live.keep(prediction)
        self._fleet.waiting.add(live, prediction)
        self._fleet.changed(live)
        self.expiry.drop_excess(live)
        return durable

    async def _is_kept(self, live: Live, prediction: Prediction, durable: Future[Appended]) -> bool:
        """Wait until a prediction is durable; False if another replica has kept one under its id."""
        is_kept = False
        try:
            with live.pinned():
                is_kept = (await durable).is_new
        finally:
            if not is_kept and live.awaits(prediction.prediction_id):
                self._fleet.waiting.let_go(live, prediction.prediction_id)
                live.forget(prediction.prediction_id)
        return is_kept

    async def _find(
        self, prediction_id: str, prefix: str, model: str | None, *, expected: bool = False
    ) -> WaitingPrediction | Recorded | None:
        """What the journal has under an id, if it is a round of this model, and of one that begins with `prefix`."""
        found = await self._journal.find(prediction_id, expected=expected)
        of = found.event if isinstance(found, Recorded) else found.prediction if found is not None else None
        if isinstance(of, KNOWN) and of.model.startswith(prefix) and model in (None, of.model):
            return found
        return None

    async def locate(
        self, prediction_id: str, prefix: str = "", model: str | None = None, *, expected: bool = False
    ) -> tuple[Live, Prediction] | Recorded:
        """A prediction that no loaded model has: the event that revealed or voided it, or the prediction and its model.

        PredictionExpired or UnknownPrediction if it is neither; PredictionUnderWay if another replica may have it.
        """
        found = await self._find(prediction_id, prefix, model, expected=expected)
        if isinstance(found, WaitingPrediction):
            prediction = found.prediction
            live = await self._fleet.get(prediction.model)
            if prediction_id in live.pending:
                return live, live.pending[prediction_id]
            # It may be only in the journal, or another replica has served it.
            is_known = self._journal.is_shared or prediction_id in live.resting
            if is_known and live.life == found.life and live.may_reveal(prediction):
                return live, prediction
            # It was revealed a moment ago, or has expired.
            found = await self._find(prediction_id, prefix, model)
            if isinstance(found, WaitingPrediction):
                raise self.expiry.why_gone(live, prediction, self._clock.now())
        if isinstance(found, Recorded):
            return found
        made, now = made_at(prediction_id), self._clock.now()
        if made is not None and self.expiry.is_due(made, now):
            raise PredictionExpired(f"prediction {prediction_id!r} has expired: its label arrived too late")
        if expected and made is not None:
            await check_not_under_way(self._journal, prediction_id, now - made)
        raise UnknownPrediction(f"there is no prediction {prediction_id!r}")

    async def _served_before(self, prediction_id: str) -> Prediction | None:
        """The prediction that was served under an id that a client chose, if any."""
        if (waiting := self._fleet.waiting.prediction(prediction_id)) is None:
            try:
                found = await self.locate(prediction_id)
            except UnknownPrediction:
                return None
            if not isinstance(found, Recorded):
                return found[1]
            event = found.event
            if isinstance(event, PredictionVoided):
                raise is_void(prediction_id)
            if not isinstance(event, RoundRevealed):
                raise id_taken(prediction_id)
            return prediction_in(event)
        return waiting

    async def _is_taken(self, prediction_id: str, name: str) -> bool:
        """Whether an id stands for anything but a whole round of this model."""
        if prediction_id in self._fleet.waiting:
            return True
        found = await self._journal.find(prediction_id)
        if not isinstance(found, Recorded):
            return found is not None
        return not isinstance(found.event, RoundLearned) or found.event.model != name
