"""A model's events one by one from a milestone on, up to any version."""

from collections.abc import AsyncIterator
from contextlib import suppress

from service.engine.fleet.large_models import LARGE_BYTES, beside_the_loop, is_large, is_large_import
from service.engine.fleet.waiting import features_bytes
from service.engine.model.block_fold import first_rounds
from service.engine.model.model import Model, model_from
from service.engine.model.outcomes import Outcome
from service.events import (
    AnyEvent,
    ChallengerAdded,
    ChallengerPromoted,
    ModelCreated,
    ModelFitted,
    ModelImported,
    ModelRebuilt,
    ModelReset,
    ModelRolledBack,
    RoundErased,
    RoundLearned,
    RoundRevealed,
    RoundsLearned,
)
from service.journal.protocol import Journal, Milestone, Recorded
from service.turns import Turns

EVENTS_AT_ONCE = 400
PAGE_BYTES = 4_194_304
"""Events are read so many at a time, or about so many bytes: the history of a model may be larger than memory."""
EVENTS_AT_FIRST = 16

LAG_SECONDS = 5.0
LOOK_AGAIN_SECONDS = 0.05
"""The servers of a cluster may not all have the newest events yet that a replica has applied."""


class Trimmed(Exception):
    """Events that were still to be read are no longer kept, or the model was deleted."""


async def pages(
    journal: Journal, milestone: Milestone, after: int | None = None
) -> AsyncIterator[list[Recorded]]:
    """The events after a milestone, or after one of those, to the newest. Trimmed if some go meanwhile."""
    after, limit = milestone.seq if after is None else after, EVENTS_AT_FIRST
    while True:
        page = await journal.history(milestone, after=after, limit=limit)
        if page is None:
            raise Trimmed
        if not page:
            return
        yield page
        after = page[-1].seq
        size = max(1, sum(map(_bytes_of, page)) // len(page))
        limit = max(1, min(EVENTS_AT_ONCE, PAGE_BYTES // size))


def _bytes_of(recorded: Recorded) -> int:
    event = recorded.event
    if isinstance(event, RoundsLearned):
        return sum(table.values.nbytes for table in event.features)
    if isinstance(event, RoundRevealed | RoundLearned):
        return features_bytes(event.features)
    return len(event.state) if isinstance(event, ModelRolledBack | ChallengerAdded) else 0


async def model_at(milestone: Milestone) -> Model | None:
    """The model as it was there; None if the event that makes it comes next."""
    if milestone.state is None:
        return None
    if len(milestone.state) >= LARGE_BYTES:
        return await beside_the_loop(Model.from_bytes, milestone.state)
    return Model.from_bytes(milestone.state)


async def made_by(event: AnyEvent) -> Model:
    """The model that its first event makes."""
    assert isinstance(event, ModelCreated | ModelImported)
    return await beside_the_loop(model_from, event) if is_large_import(event) else model_from(event)


async def model_of(journal: Journal, milestone: Milestone) -> Model | None:
    """The same, also where the next event makes it; None if that is no longer there."""
    model = await model_at(milestone)
    if model is None and (first := await journal.history(milestone, after=0, limit=1)):
        model = await made_by(first[0].event)
    return model


async def oldest_version(journal: Journal, model: Model) -> int:
    """The oldest version from which the history can be read; that of the model itself if there is none before."""
    milestone = await journal.milestone(model.name, None)
    then = None if milestone is None else await model_of(journal, milestone)
    return model.version if then is None else then.version


async def outcome_of(journal: Journal, name: str, seq: int) -> Outcome | None:
    """What came of a round, by a replay from the oldest milestone; None if it is not after that, or cannot be told."""
    milestone = await journal.milestone(name, None)
    if milestone is None or milestone.seq >= seq:
        return None
    model, turns, is_astray = await model_at(milestone), Turns(), False
    with suppress(Trimmed):
        async for page in pages(journal, milestone):
            for recorded in page:
                event = recorded.event
                if model is None:
                    model = await made_by(event)
                    continue
                is_astray = _is_astray(model, event, is_astray)
                done = await beside_the_loop(model.apply, event) if is_large(model) else model.apply(event)
                if recorded.seq >= seq:
                    is_there = recorded.seq == seq and not is_astray
                    return done if is_there and isinstance(done, Outcome) else None
                await turns.give()
    return None


def _is_astray(model: Model, event: AnyEvent, was_astray: bool) -> bool:
    """Whether a replay is from this event on not what the model was: rounds were forgotten, and the rebuild for that,
    which says what it became without them, comes later."""
    if isinstance(event, RoundErased) and event.rounds:
        return True
    return was_astray and not (isinstance(event, ModelRebuilt) and model.rebuilt_by(event))


def step(model: Model, event: AnyEvent, version: int) -> bool:
    """Apply an event, or of a block the rounds up to a version. True if the model was at that version then and the
    next event would lead beyond it."""
    raised, left = rise_by(model, event), version - model.version
    if raised and not left:
        return True
    if raised <= left:
        model.apply(event)
        return False
    assert isinstance(event, RoundsLearned)
    model.apply(first_rounds(event, left))
    return True


def rise_by(model: Model, event: AnyEvent) -> int:
    """By how much an event raises the version of a model."""
    match event:
        case RoundsLearned():
            return len(event.labels)
        case RoundRevealed() | RoundLearned() | ModelReset() | ModelRolledBack():
            return 1
        case ModelFitted():
            return int(model.takes(event)) if event.rises is None else event.rises
        case ChallengerPromoted():
            return int(model.promotes(event)) if event.rises is None else event.rises
        case ModelRebuilt():
            return int(model.rebuilt_by(event) is not None)
        case RoundErased():
            return event.rounds
    return 0
