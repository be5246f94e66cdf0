"""From what a client sends to an example that the model takes."""

from typing import Any

from service.engine.checks import Sent, check_features
from service.engine.clock import Clock
from service.engine.fleet import Fleet
from service.engine.live import Live
from service.errors import InvalidRequest
from service.events import DimensionFixed
from service.learning.features import BadFeatures


class Examples:
    """Reads examples within the limits of the service."""

    def __init__(self, fleet: Fleet, clock: Clock, *, features_max: int, feature_abs_max: float) -> None:
        self._fleet = fleet
        self._clock = clock
        self._features_max = features_max
        self._feature_abs_max = feature_abs_max

    async def read(self, live: Live, sent: Sent) -> Any:
        """The example in its canonical form; the first one of all fixes the model's dimension."""
        check_features(sent, count_max=self._features_max, abs_max=self._feature_abs_max)
        features = live.model.features
        try:
            example = features.read(sent)
            if features.dimension is None:
                fixed = DimensionFixed(live.model.name, self._clock.now(), len(example))
                await self._fleet.append(live, fixed)
                example = features.read(sent)  # another example may have been the first
        except BadFeatures as error:
            raise InvalidRequest.at(error.field, error.message) from None
        return example
