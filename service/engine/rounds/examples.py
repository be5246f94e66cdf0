"""Turns the features that a client sends into examples that the model takes."""

from typing import Any

import numpy as np

from service.engine.clock import Clock
from service.engine.fleet.fleet import Fleet
from service.engine.fleet.live import Live
from service.engine.model.checks import Sent, check_dimension, check_features
from service.engine.model.model import Model
from service.errors import InvalidRequest
from service.events import DimensionFixed
from service.learning.features.contract import BadFeatures
from service.learning.vectors import LARGEST, Array, Rows, all_within


class Examples:
    """Reads examples within the limits of the service."""

    def __init__(self, fleet: Fleet, clock: Clock, *, features_max: int, feature_abs_max: float) -> None:
        self._fleet = fleet
        self._clock = clock
        self._features_max = features_max
        self._feature_abs_max = feature_abs_max

    async def read(self, live: Live, sent: Sent) -> Any:
        """The example in its canonical form; the first one of all fixes the model's dimension."""
        example = self.read_only(live.model, sent)
        try:
            while live.model.features.dimension is None:
                fixed = DimensionFixed(live.model.name, self._clock.now(), len(example))
                await self._fleet.append(live, fixed)
                example = live.model.features.read(sent)  # another example may have been the first
        except BadFeatures as error:
            raise InvalidRequest.at(error.field, error.message) from None
        return example

    def read_only(self, model: Model, sent: Sent) -> Any:
        """The same, if the model would take it; no dimension is fixed by it."""
        check_features(sent, count_max=self._features_max, abs_max=self._feature_abs_max)
        try:
            example = model.features.read(sent)
            if model.contest is not None:
                model.contest.check_example(sent)
        except BadFeatures as error:
            raise InvalidRequest.at(error.field, error.message) from None
        if model.features.dimension is None:
            check_dimension(model, len(example))
        return example

    def read_many(self, live: Live, sent: list[Sent] | Rows) -> list[Rows] | None:
        """Examples as rows; None if one is wrong or the dimension is not fixed yet: `read` them one by one then."""
        tables = live.model.features.read_rows(sent)
        if tables is None:
            return None
        contest = live.model.contest
        for rows in tables:
            if contest is not None and not contest.takes(rows.values.shape[1]):
                return None
            if not 0 < rows.values.shape[1] <= self._features_max:
                return None
            if self._feature_abs_max < LARGEST and not all_within(rows.values, self._feature_abs_max):
                return None
        return tables

    async def check_array(self, live: Live, block: Array) -> None:
        """InvalidRequest unless all rows of an array are examples that the model takes."""
        doubtful = {0}
        if not all_within(block, self._feature_abs_max):
            doubtful |= {int(at) // block.shape[1] for at in (np.argmax(block), np.argmin(block))}
        for row in doubtful:
            await self.read(live, block[row].tolist())
