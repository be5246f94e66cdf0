"""Predictions whose labels never came: given up by age or by number, then recorded as expired."""

from collections.abc import Container

from service.engine.clock import Clock
from service.engine.fleet import Fleet
from service.engine.live import Live
from service.errors import TooManyPending
from service.events import Prediction, PredictionsExpired


class Expiry:
    """Gives up predictions older than `ttl_seconds`, and the oldest of a model that has too many.

    Giving up is immediate, and one event a sweep records it, so that a client which never reveals does not
    cost an event a prediction. A crash in between forgets the giving up, and they wait again.
    """

    def __init__(
        self,
        fleet: Fleet,
        clock: Clock,
        revealing: Container[str],
        *,
        ttl_seconds: float,
        pending_max: int,
        pending_total_max: int,
    ) -> None:
        self._fleet = fleet
        self._clock = clock
        self._revealing = revealing
        self._ttl_us = round(ttl_seconds * 1e6)
        self._pending_max = pending_max
        self._pending_total_max = pending_total_max

    def is_due(self, prediction_at: int, now: int) -> bool:
        return now - prediction_at > self._ttl_us

    def push_out(self, live: Live) -> None:
        """Make room: the oldest go first, but none whose label is just arriving."""
        while len(live.pending) > self._pending_max:
            if not self._drop_oldest(live):
                return

    def check_room(self, live: Live) -> None:
        """Where all models together have too many, a model makes room with its own; Overloaded if it has none."""
        if len(self._fleet.owner) + self._fleet.waiting_unloaded < self._pending_total_max:
            return
        if not self._drop_oldest(live):
            raise TooManyPending(f"{self._pending_total_max} predictions wait for their labels; reveal some")

    def _drop_oldest(self, live: Live) -> bool:
        for oldest in live.pending.values():
            if oldest.prediction_id not in self._revealing:
                self._drop(live, oldest)
                return True
        return False

    async def sweep(self) -> None:
        """Give up what is due, and record all that was given up."""
        now = self._clock.now()
        for live in list(self._fleet.loaded.values()):
            if self._fleet.loaded.get(live.model.name) is not live:
                continue  # unloaded while an earlier one was recorded
            if live.pending:
                self._drop_due(live, now)
            if live.dropped:
                expired = PredictionsExpired(live.model.name, now, live.dropped, live.dropped_through)
                live.expiring = expired
                await self._fleet.append(live, expired)

    def _drop_due(self, live: Live, now: int) -> None:
        due: list[Prediction] = []
        for prediction in live.pending.values():
            if not self.is_due(prediction.at, now):
                break
            if prediction.prediction_id not in self._revealing:
                due.append(prediction)
        for prediction in due:
            self._drop(live, prediction)

    def _drop(self, live: Live, prediction: Prediction) -> None:
        live.drop(prediction)
        self._fleet.owner.pop(prediction.prediction_id, None)
        self._fleet.changed(live)
