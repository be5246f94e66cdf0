"""A model's events one by one from a milestone on, up to any version."""

from contextlib import suppress

from service.engine.fleet.fold import Fold, Trimmed, model_at, model_of, pages
from service.engine.models.block_fold import first_rounds
from service.engine.models.model import Model
from service.engine.models.outcomes import Outcome
from service.events import (
    AnyEvent,
    ChallengerPromoted,
    ModelFitted,
    ModelRebuilt,
    ModelReset,
    ModelRolledBack,
    RoundErased,
    RoundLearned,
    RoundRevealed,
    RoundsLearned,
)
from service.journal.protocol import Journal, Recorded

LAG_SECONDS = 5.0
LOOK_AGAIN_SECONDS = 0.05
"""The servers of a cluster may not all have the newest events yet that a replica has applied."""


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
    found: Outcome | None = None
    is_astray = False

    def take(model: Model, recorded: Recorded) -> bool:
        nonlocal found, is_astray
        is_astray = _is_astray(model, recorded.event, is_astray)
        done = model.apply(recorded.event)
        if recorded.seq == seq and isinstance(done, Outcome) and not is_astray:
            found = done
        return recorded.seq >= seq

    with suppress(Trimmed):
        await Fold(await model_at(milestone), take).run_in_slices(pages(journal, milestone))
    return found


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
