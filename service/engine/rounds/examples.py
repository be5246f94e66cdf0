"""Turns the features that a client sends into examples that the model takes."""

from typing import Any

import numpy as np

from service.engine.clock import Clock
from service.engine.engine_settings import EngineSettings
from service.engine.fleet.fleet import Fleet
from service.engine.fleet.live import Live
from service.engine.models.checks import (
    NONE_NEW,
    LabelChecks,
    NewLabels,
    Sent,
    check_dimension,
    check_features,
)
from service.engine.models.model import Model
from service.errors import InvalidRequest
from service.events import DimensionFixed, Label
from service.learning.features.contract import BadFeatures
from service.learning.vectors import LARGEST, Array, Rows, all_within


class Examples:
    """Reads examples within the limits of the service."""

    def __init__(self, fleet: Fleet, clock: Clock, settings: EngineSettings) -> None:
        self._fleet = fleet
        self._clock = clock
        self._features_max = settings.features_max
        self._feature_abs_max = settings.feature_abs_max

    def read_at_once(self, model: Model, sent: Sent) -> Any:
        """The example in its canonical form; None if the model's dimension is not fixed, and `read` has to fix it."""
        return None if model.features.dimension is None else self.read_only(model, sent)

    async def read(self, live: Live, sent: Sent, label: Label | None = None) -> Any:
        """The example in its canonical form; the first one of all fixes the model's dimension.

        `label` is what it will be learned with: if the model does not take that, the dimension is not fixed.
        """
        if live.model.features.dimension is None:
            self.check(live.model, sent, label, live.new_labels)
        example = self.read_only(live.model, sent)
        try:
            while live.model.features.dimension is None:
                fixed = DimensionFixed(live.model.name, self._clock.now(), len(example))
                await self._fleet.append(live, fixed)
                example = live.model.features.read(sent)  # another example may have been the first
        except BadFeatures as error:
            raise InvalidRequest.at(error.field, error.message) from None
        return example

    def check(
        self, model: Model, sent: Sent, label: Label | None = None, under_way: NewLabels = NONE_NEW
    ) -> None:
        """Raise what is wrong with a first example, or with the label that comes with it; change nothing."""
        example = self.read_only(model, sent)
        if label is not None:
            LabelChecks(model, under_way).check(label, len(example))

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

    def check_array(
        self, model: Model, block: Array, labels: list[Label], under_way: NewLabels = NONE_NEW
    ) -> None:
        """Raise what is wrong with the rows of an array or with their labels; change nothing."""
        doubtful = {0}
        if not all_within(block, self._feature_abs_max):
            doubtful |= {int(at) // block.shape[1] for at in (np.argmax(block), np.argmin(block))}
        for row in doubtful:
            self.read_only(model, block[row].tolist())
        checks = LabelChecks(model, under_way)
        for label in set(labels):
            checks.check(label, block.shape[1])
