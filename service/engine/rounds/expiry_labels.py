"""Models with `on_expiry`: a prediction whose label has not come in time is revealed with a label of their choice."""

import asyncio

from service.engine.fleet.fleet import Fleet
from service.engine.fleet.live import Live
from service.engine.model.checks import check_label
from service.engine.model.model import Model
from service.errors import ModelUnreadable, UnknownLabel, UnknownModel
from service.events import Prediction, revealed
from service.journal.protocol import Journal, Overdue, Page

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

    async def learn(self, due: list[Prediction], live: Live, now: int) -> None:
        """Learn the oldest of a model's predictions that are due; give them up if it can have no such class."""
        label, some = live.model.settings["on_expiry"], due[:LEARNED_AT_ONCE]
        if not some:
            return
        live.pins += 1
        try:
            new = check_label(live.model, label, live.new_labels)
            await self._fleet.append(
                live, revealed(some[0], now, label), new
            )  # brings the class, if it is new
            rest = [each for each in some[1:] if each.prediction_id in live.pending]  # a reset may have come
            await asyncio.gather(*(self._fleet.append(live, revealed(each, now, label)) for each in rest))
        except UnknownLabel:
            for each in some:
                live.drop(each)
                self._fleet.waiting.remove(live, each)
        except UnknownModel:
            pass  # deleted meanwhile, with its predictions
        finally:
            live.pins -= 1
