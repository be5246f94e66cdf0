"""Many whole rounds as one event: what streams and replays are made of."""

from typing import Any

from service.engine.block_fold import table_of
from service.engine.checks import Sent, check_label
from service.engine.clock import Clock
from service.engine.examples import Examples
from service.engine.fleet import Fleet
from service.engine.live import Live
from service.engine.models import Models
from service.engine.outcomes import BlockOutcome
from service.errors import NovikoffError, UnknownLabel
from service.events import Label, RoundsLearned
from service.learning.vectors import Array, Rows

Errors = dict[int, NovikoffError]
"""What is wrong with which rounds, by their place in the block."""


class Blocks:
    """Learns runs of whole rounds of one model, exactly as if they came one by one."""

    def __init__(self, fleet: Fleet, models: Models, examples: Examples, clock: Clock) -> None:
        self._fleet = fleet
        self._models = models
        self._examples = examples
        self._clock = clock

    async def learn(
        self, name: str, features: list[Sent], labels: list[Label]
    ) -> tuple[Live, BlockOutcome | None, Errors]:
        """What came of the good rounds, in their order, and what is wrong with the others."""
        live = self._fleet.used(name) or await self._models.get_or_create(name, features[0])
        errors: Errors = {}
        rows = (
            self._examples.read_many(live, features) if -1 not in live.model.labels.indices(labels) else None
        )
        if rows is None:
            rows = await self._read_each(live, features, labels, errors)
            labels = [label for at, label in enumerate(labels) if at not in errors]
        return live, await self._append(live, labels, rows) if labels else None, errors

    async def learn_array(self, name: str, block: Array, labels: list[Label]) -> BlockOutcome:
        """The same for dense features that are in one array already; all of them must be good."""
        live = self._fleet.used(name) or await self._models.get_or_create(name, [])
        classes: set[tuple[type, Label]] = set()
        for label in set(labels):
            _check_class(live, label, classes)
        await self._examples.check_array(live, block)
        return await self._append(live, labels, [Rows(block)])

    async def _read_each(
        self, live: Live, features: list[Sent], labels: list[Label], errors: Errors
    ) -> list[Rows]:
        """The rounds one by one, to tell which of them are bad."""
        good: list[Any] = []
        classes: set[tuple[type, Label]] = set()
        for at, (sent, label) in enumerate(zip(features, labels, strict=True)):
            try:
                example = await self._examples.read(live, sent)
                _check_class(live, label, classes)
            except NovikoffError as error:
                errors[at] = error
            else:
                good.append(example)
        return live.model.features.rows_of(good) if good else []

    async def _append(self, live: Live, labels: list[Label], rows: list[Rows]) -> BlockOutcome:
        tables = [table_of(part) for part in rows]
        event = RoundsLearned(live.model.name, self._clock.now(), labels, tables)
        outcome: BlockOutcome = (await self._fleet.append(live, event)).applied
        return outcome


def _check_class(live: Live, label: Label, new: set[tuple[type, Label]]) -> None:
    """Like `check_label`, counting the classes that are new in this block."""
    check_label(live.model, label)
    if live.model.labels.index(label) < 0:
        new.add((type(label), label))
        most = live.model.settings["classes_max"]
        if len(live.model.labels.values) + len(new) > most:
            new.discard((type(label), label))
            raise UnknownLabel(f"the model has {most} classes, and no more are taken")
