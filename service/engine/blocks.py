"""Many whole rounds as one event: what streams and replays are made of."""

from typing import Any

import numpy as np

from service.engine.checks import Sent, check_label
from service.engine.clock import Clock
from service.engine.examples import Examples
from service.engine.fleet import Fleet
from service.engine.live import Live
from service.engine.models import Models
from service.engine.outcomes import Outcome
from service.errors import NovikoffError, UnknownLabel
from service.events import Label, RoundsLearned
from service.learning.vectors import Array

Result = Outcome | NovikoffError


class Blocks:
    """Learns runs of whole rounds of one model, exactly as if they came one by one."""

    def __init__(self, fleet: Fleet, models: Models, examples: Examples, clock: Clock) -> None:
        self._fleet = fleet
        self._models = models
        self._examples = examples
        self._clock = clock

    async def learn(self, name: str, rounds: list[tuple[Sent, Label]]) -> tuple[Live, list[Result]]:
        """What came of each round; a bad one is told and spoils no other."""
        live = self._fleet.used(name) or await self._models.get_or_create(name, rounds[0][0])
        results: list[Result | None] = []
        stored: list[Any] = []
        labels: list[Label] = []
        classes: set[tuple[type, Label]] = set()
        for sent, label in rounds:
            try:
                example = await self._examples.read(live, sent)
                _check_class(live, label, classes)
            except NovikoffError as error:
                results.append(error)
                continue
            results.append(None)
            stored.append(live.model.features.encode(example))
            labels.append(label)
        if labels and isinstance(stored[0], bytes):
            outcomes = await self._append(live, labels, b"".join(stored))
        elif labels:
            outcomes = await self._append(live, labels, stored)
        else:
            outcomes = iter(())
        return live, [result if result is not None else next(outcomes) for result in results]

    async def learn_arrays(self, name: str, block: Array, labels: list[Label]) -> tuple[Live, list[Outcome]]:
        """The same for dense features that are in one array already; all of them must be good."""
        live = self._fleet.used(name) or await self._models.get_or_create(name, [])
        classes: set[tuple[type, Label]] = set()
        for label in labels:
            _check_class(live, label, classes)
        for row in (block[0], block[np.unravel_index(np.argmax(np.abs(block)), block.shape)[0]]):
            await self._examples.read(live, row.tolist())  # if the largest number is good, all are
        return live, list(await self._append(live, labels, block.astype("<f8", copy=False).tobytes()))

    async def _append(self, live: Live, labels: list[Label], features: Any) -> Any:
        event = RoundsLearned(live.model.name, self._clock.now(), labels, features)
        return iter((await self._fleet.append(live, event)).applied)


def _check_class(live: Live, label: Label, new: set[tuple[type, Label]]) -> None:
    """Like `check_label`, counting the classes that are new in this block."""
    check_label(live.model, label)
    if live.model.labels.index(label) < 0:
        new.add((type(label), label))
        most = live.model.settings["classes_max"]
        if len(live.model.labels.values) + len(new) > most:
            new.discard((type(label), label))
            raise UnknownLabel(f"the model has {most} classes, and no more are taken")
