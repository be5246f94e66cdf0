"""Models with `on_expiry`: a prediction whose label has not come in time is revealed with a label of their choice."""

import asyncio

from service.engine.fleet.fleet import Fleet
from service.engine.fleet.live import Live
from service.engine.models.checks import check_label
from service.engine.models.model import Model
from service.errors import ModelUnreadable, UnknownLabel, UnknownModel
from service.events import Prediction, revealed
from service.journal.protocol import Journal, Overdue, Page, WaitingPrediction

LEARNED_AT_ONCE = 500
"""Predictions of a model that are learned in one sweep, before others have their turn: each is an event."""


def learns_expired(model: Model) -> bool:
    return model.settings["on_expiry"] is not None


class ExpiryLabels:
    """Reveals predictions that are too old, as a client would; the journal takes each once, whoever else tries."""

    def __init__(self, journal: Journal, fleet: Fleet) -> None:
        self._journal = journal
        self._fleet = fleet

    async def find(self, overdue: Overdue) -> Live | None:
        """The model of overdue predictions, loaded for that, if it learns from what expires; None if not."""
        name = overdue.model
        live = self._fleet.loaded.get(name)
        if live is None:
            listed = await self._journal.models(Page(name, "name", None, 1))
            settings = listed[0].settings if listed and listed[0].model == name else None
            if settings is None or settings.get("on_expiry") is None:
                return None
            try:
                live = await self._fleet.get(name)
            except (UnknownModel, ModelUnreadable):
                return None
        return live if live.life == overdue.life and learns_expired(live.model) else None

    async def learn(self, due: list[tuple[str, int]], live: Live, now: int) -> None:
        """Learn the oldest of a model's predictions that are due; give them up if it can have no such class.

        `due`: their ids and times.
        """
        label, some = live.model.settings["on_expiry"], due[:LEARNED_AT_ONCE]
        if not some:
            return
        live.pins += 1
        try:
            found = [
                each for prediction_id, _ in some if (each := await self._prediction(live, prediction_id))
            ]
            new = check_label(live.model, label, live.new_labels)
            if found:  # the first one brings the class, if it is new
                await self._fleet.append(live, revealed(found[0], now, label), new)
            rest = [each for each in found[1:] if live.awaits(each.prediction_id)]  # a reset may have come
            await asyncio.gather(*(self._fleet.append(live, revealed(each, now, label)) for each in rest))
        except UnknownLabel:
            self._drop(live, some)
        except UnknownModel:
            pass  # deleted meanwhile, with its predictions
        finally:
            live.pins -= 1

    async def _prediction(self, live: Live, prediction_id: str) -> Prediction | None:
        """A prediction that waits, read from the journal if it is only there; None if it waits no longer."""
        found = live.pending.get(prediction_id)
        if found is None and prediction_id in live.resting:
            known = await self._journal.find(prediction_id, expected=True)
            if isinstance(known, WaitingPrediction) and known.life == live.life:
                return known.prediction
            if known is None:  # the journal never had it
                self._drop(live, [(prediction_id, live.resting.get(prediction_id, 0))])
        return found

    def _drop(self, live: Live, some: list[tuple[str, int]]) -> None:
        for prediction_id, at in some:
            if live.awaits(prediction_id):
                self._fleet.waiting.let_go(live, prediction_id)
                live.drop(prediction_id, at)
