"""The rounds of a model as data, read from its history: what was predicted, with what score, and what was true.

The events do not say all of it: whole rounds have no prediction, and nothing has a version. So the events are applied
once more to a copy of the model, and the result of each is sent.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec

from service.engine.fleet.fleet import Fleet
from service.engine.fleet.fold import Fold, Trimmed, model_at, oldest_version, pages
from service.engine.fleet.large_models import CopyReservation, copy_bytes
from service.engine.fleet.loading import as_damaged
from service.engine.models.labels import same
from service.engine.models.model import Model
from service.engine.models.outcomes import BlockOutcome, Outcome, answered_with
from service.engine.replay.counterfactual import Labels, labels_in
from service.errors import JournalUnavailable, Overloaded, VersionGone
from service.events import Answered, AnyEvent, Label, RoundLearned, RoundRevealed, RoundsLearned, features_of
from service.journal.protocol import Journal, Milestone, Recorded
from service.runtime.byte_budget import ByteBudget, Reservation, Shares

READ_AT_ONCE = 4
"""How many histories may be read at the same time. Each holds a copy of its model."""


class PastRound(msgspec.Struct, frozen=True, gc=False):
    """One round. `features` are as the model keeps them: an array, or a number for each name."""

    version: int
    """The model's version after it."""
    at: int
    """When its label came."""
    predicted_at: int
    prediction_id: str | None
    features: Any
    label: Label
    served: Label | None
    score: float
    probability: float | None
    mistake: bool
    updated: bool
    weight: float


class Wanted(msgspec.Struct, frozen=True):
    """Which rounds: versions from one to another, both among them; times from one on and before another."""

    first: int | None = None
    last: int | None = None
    since: int | None = None
    until: int | None = None

    def has(self, made: PastRound) -> bool:
        return (
            (self.first is None or made.version >= self.first)
            and (self.last is None or made.version <= self.last)
            and (self.since is None or made.at >= self.since)
            and (self.until is None or made.at < self.until)
        )


class Record:
    """Reads the rounds of models, as far back as the journal goes."""

    def __init__(self, journal: Journal, fleet: Fleet, copies: ByteBudget) -> None:
        self._journal = journal
        self._fleet = fleet
        self._copies = copies
        self._places = Shares(fleet.tenants)

    async def rounds(self, name: str, wanted: Wanted) -> tuple[Model, AsyncIterator[list[PastRound]]]:
        """The model as it is, and its rounds from the oldest on, some at a time, up to its present version.

        VersionGone if the first that is wanted is no longer kept; without one, it begins with what is. Overloaded if
        too many read at the same time.
        """
        live = await self._fleet.get(name)
        tenant = self._fleet.tenants.of(name)
        most = max(2, READ_AT_ONCE)  # of one place, no tenant could leave anything to others
        if not self._places.may_take(tenant, 1, most):
            raise Overloaded(f"{self._places.count} histories are being read; try again later")
        place, copy = Reservation(self._places), CopyReservation(self._copies, copy_bytes)
        copy.take_for(live.model)  # another one learns the history again
        place.take(0, tenant)
        before = None if wanted.first is None else max(0, wanted.first - 1)
        milestone = await self._journal.milestone(name, before)
        model = None if milestone is None else await model_at(milestone)
        if milestone is None or (model is not None and before is not None and model.version > before):
            oldest = await oldest_version(self._journal, live.model)
            raise VersionGone(wanted.first or 0, oldest + 1)  # that of the first round after it
        end = live.model.version if wanted.last is None else min(wanted.last, live.model.version)
        chosen = msgspec.structs.replace(wanted, last=end)
        labels = {} if live.model.amended is None else await self._labels(name, milestone)
        return live.model, self._read(name, (place, copy), milestone, model, chosen, labels)

    async def _labels(self, name: str, milestone: Milestone) -> Labels:
        """What corrections say that came later than the rounds that they are about."""
        labels: Labels = {}
        try:
            async for page in pages(self._journal, milestone):
                labels |= labels_in(recorded.event for recorded in page)
        except Trimmed:
            raise _gone(name) from None
        return labels

    async def _read(
        self,
        name: str,
        reserved: tuple[Reservation, ...],
        milestone: Milestone,
        model: Model | None,
        wanted: Wanted,
        labels: Labels,
    ) -> AsyncIterator[list[PastRound]]:
        last = wanted.last
        assert last is not None
        made: list[PastRound] = []

        def take(model: Model, recorded: Recorded) -> bool:
            if model.version < last:
                made.extend(_rounds_of(model, recorded.event))
            return model.version >= last

        try:
            with as_damaged(name):
                async for _ in Fold(model, take).slices(pages(self._journal, milestone)):
                    some, made[:] = _as_corrected(made, labels) if labels else list(made), ()
                    if chosen := [each for each in some if wanted.has(each)]:
                        yield chosen
        except Trimmed:
            raise _gone(name) from None
        finally:
            for each in reserved:
                each.release()


def _gone(name: str) -> JournalUnavailable:
    return JournalUnavailable(
        f"events of {name!r} were trimmed while they were read; start at a later version"
    )


def _as_corrected(made: list[PastRound], labels: Labels) -> list[PastRound]:
    """Rounds as they were, but with the labels that are known to be right now, and without those that do not count."""
    rounds = []
    for each in made:
        if each.prediction_id is not None and each.prediction_id in labels:
            label = labels[each.prediction_id]
            if label is None:
                continue
            is_wrong = each.served is None or not same(each.served, label)
            each = msgspec.structs.replace(each, label=label, mistake=is_wrong)
        rounds.append(each)
    return rounds


def _rounds_of(model: Model, event: AnyEvent) -> Iterator[PastRound]:
    """Apply an event; what came of its rounds."""
    outcome = model.apply(event)
    if isinstance(event, RoundRevealed):
        assert isinstance(outcome, Outcome)
        features = model.features.decode(event.features)
        certainty = event.certainty if event.served is not None else None
        probability = None if certainty is None else certainty.probability
        answered = Answered(event.served, event.score, probability, outcome.updated)
        yield _round(event, event.predicted_at, features, answered, outcome.version)
    elif isinstance(event, RoundLearned):
        assert isinstance(outcome, Outcome)
        answered = event.answered or answered_with(model.labels, outcome)
        yield _round(event, event.at, model.features.decode(event.features), answered, outcome.version)
    elif isinstance(event, RoundsLearned):
        assert isinstance(outcome, BlockOutcome)
        answers = event.answered or [answered_with(outcome.labels, one) for one in outcome]
        rows = zip(features_of(event), event.labels, answers, outcome, strict=True)
        for stored, label, answered, one in rows:
            alone = RoundLearned(event.model, event.at, None, label, stored)
            yield _round(alone, event.at, model.features.decode(stored), answered, one.version)


def _round(
    event: RoundRevealed | RoundLearned, predicted_at: int, features: Any, answered: Answered, version: int
) -> PastRound:
    return PastRound(
        version,
        event.at,
        predicted_at,
        event.prediction_id,
        features,
        event.label,
        answered.served,
        answered.score,
        answered.probability,
        answered.served is None or not same(answered.served, event.label),
        answered.updated,
        event.weight,
    )
