"""Erasing what was forgotten from the journal, once the model is without it."""

from collections.abc import AsyncIterator, Container, Iterable
from contextlib import suppress
from typing import TypeGuard

from msgspec import structs

from service.engine.fleet.fleet import Fleet
from service.engine.fleet.large_models import LARGE_BYTES, beside_the_loop, is_large
from service.engine.fleet.live import Live
from service.engine.history.counterfactual import erased
from service.engine.history.stepping import EVENTS_AT_ONCE, Trimmed, made_by, model_at, pages, rise_by
from service.engine.model.amendments import Amendments
from service.engine.model.model import Model
from service.engine.model.outcomes import OutcomeLog
from service.engine.model.state_steps import read_state
from service.events import (
    AnyEvent,
    ChallengerPromoted,
    ModelFitted,
    ModelRebuilt,
    ModelRolledBack,
    PredictionVoided,
    RoundRevealed,
)
from service.journal.codec import encode_state
from service.journal.protocol import Erasure, Journal, Recorded
from service.turns import Turns

KNOWING = (ModelRebuilt, ModelRolledBack)
"""Events that carry states which may know of what is forgotten."""


async def erase(journal: Journal, fleet: Fleet, live: Live) -> None:
    """Let nothing be left of the events that a model's amendments name: neither they themselves, nor states that knew
    of them, nor what came of them. May be done again."""
    amended = live.model.amended
    eraser = journal.eraser
    assert eraser is not None and amended is not None and amended.erasing is not None
    going = set(amended.erasing)
    saved_at = live.seq
    await fleet.save(live)  # a load begins there
    if not going:
        await eraser.erase(Erasure(live.life, [], [], (0, 0), [], is_whole=True))
        return
    first = min(going)
    some = [
        each
        async for each in _events(journal, live, first - 1)
        if each.seq in going or isinstance(each.event, KNOWING) or is_conditional(each.event)
    ]
    unknowing = await _unknowing(journal, live, {_id_of(each.event) for each in some if each.seq in going})
    some = [Recorded(each.seq, unknowing.get(each.seq, each.event)) for each in some]
    replaced, rebuilt_at = replacements(some, going, await _rises(journal, live, some))
    without = [
        (through, version, _without(outcomes, going))
        for through, version, outcomes in await eraser.pages(live.life, first)
    ]
    snapshots = (min(first, *unknowing), saved_at) if unknowing else (first, rebuilt_at or first)
    events = [*(unknowing | dict(replaced)).items()]
    await eraser.erase(Erasure(live.life, events, without, snapshots, [], is_whole=True))


async def _events(journal: Journal, live: Live, after: int) -> AsyncIterator[Recorded]:
    while page := await journal.events(live.model.name, after=after, limit=EVENTS_AT_ONCE):
        for recorded in page:
            yield recorded
        after = page[-1].seq


def _id_of(event: AnyEvent) -> str | None:
    return event.prediction_id if isinstance(event, RoundRevealed | PredictionVoided) else None


async def _unknowing(journal: Journal, live: Live, ids: set[str | None]) -> dict[int, AnyEvent]:
    """The rebuilds that know what predictions of these ids, which waited, were served again with; without that."""
    found: dict[int, AnyEvent] = {}
    async for recorded in _events(journal, live, 0):
        event = recorded.event
        if isinstance(event, ModelRebuilt):
            if len(event.state) >= LARGE_BYTES:
                state = await beside_the_loop(state_without, event.state, ids)
            else:
                state = state_without(event.state, ids)
            if state is not None:
                found[recorded.seq] = structs.replace(event, state=state)
    return found


def state_without(state: bytes, ids: Container[str | None]) -> bytes | None:
    """A rebuild's state without what waiting predictions of these ids were served again with; None if it has none."""
    read = read_state(state)
    amended = Amendments.restore(read["amended"])
    known = [each for each in amended.served_again if each in ids]
    if not known:
        return None
    for each in known:
        del amended.served_again[each]
    return encode_state({**read, "amended": amended.state()})


def is_conditional(event: AnyEvent) -> TypeGuard[ModelFitted | ChallengerPromoted]:
    """Whether a model takes it or not by what it is then, which may be something else once others are erased."""
    return isinstance(event, ModelFitted) or (
        isinstance(event, ChallengerPromoted) and event.prediction_id is None
    )


async def _rises(journal: Journal, live: Live, events: list[Recorded]) -> dict[int, int]:
    """By how much each of the conditional events among these has raised the version."""
    wanted = {each.seq for each in events if is_conditional(each.event)}
    since = min((each.event.since for each in events if isinstance(each.event, ModelRebuilt)), default=0)
    rises: dict[int, int] = {}
    milestone = await journal.milestone(live.model.name, since - 1) if wanted and since else None
    if milestone is None:
        return rises
    model, turns = await model_at(milestone), Turns()
    with suppress(Trimmed):  # then no replay begins there any more
        async for page in pages(journal, milestone):
            if model is None:
                model, page = await made_by(page[0].event), page[1:]
            if is_large(model):
                await beside_the_loop(apply_all, model, page, wanted, rises)
                continue
            for recorded in page:
                apply_all(model, [recorded], wanted, rises)
                await turns.give()
            if len(rises) == len(wanted):
                break
    return rises


def apply_all(
    model: Model, events: Iterable[Recorded], wanted: Container[int], rises: dict[int, int]
) -> None:
    """Apply events, and note by how much those that are wanted raise the version."""
    for recorded in events:
        if recorded.seq in wanted:
            rises[recorded.seq] = rise_by(model, recorded.event)
        model.apply(recorded.event)


def replacements(
    events: Iterable[Recorded], going: Container[int], rises: dict[int, int]
) -> tuple[list[tuple[int, AnyEvent]], int]:
    """What takes the places of events from the first that goes on, and which of them has made the model without them;
    0 if none has. `rises`: by how much the conditional ones among them have raised the version."""
    replaced: list[tuple[int, AnyEvent]] = []
    others: list[Recorded] = []
    for each in events:
        if each.seq in going:
            replaced.append((each.seq, erased(each.event)))
        else:
            others.append(each)
    rebuilds = [(each.seq, each.event) for each in others if isinstance(each.event, ModelRebuilt)]
    if not rebuilds:
        return replaced, 0
    rebuilt_at, rebuilt = rebuilds[-1]
    since = min(event.since for _, event in rebuilds)
    for each in others:
        if each.seq >= rebuilt_at:
            break
        event = each.event
        if isinstance(event, ModelRebuilt) or (isinstance(event, ModelRolledBack) and event.to >= since):
            # Nobody needs its state any more: a version between it and the rebuild is made again from what is left.
            replaced.append((each.seq, structs.replace(event, state=rebuilt.state)))
        elif is_conditional(event) and each.seq in rises:
            replaced.append((each.seq, structs.replace(event, rises=rises[each.seq])))
    return replaced, rebuilt_at


def _without(outcomes: bytes, going: set[int]) -> bytes:
    return OutcomeLog(outcomes).without(going).tobytes()
