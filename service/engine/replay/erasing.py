"""Erasing what was forgotten from the journal, once the model is without it."""

from collections.abc import AsyncIterator, Container, Iterable

from msgspec import structs

from service.engine.fleet.fleet import Fleet
from service.engine.fleet.fold import all_events
from service.engine.fleet.large_models import LARGE_BYTES, in_thread_if
from service.engine.fleet.live import Live
from service.engine.models.amendments import Amendments
from service.engine.models.labels import Labels
from service.engine.models.outcomes import OutcomeLog
from service.engine.models.state_migrations import read_state
from service.engine.replay.counterfactual import erased
from service.engine.replay.playing import Playing, milestone_before
from service.events import (
    AnyEvent,
    Label,
    ModelRebuilt,
    ModelRolledBack,
    PredictionVoided,
    RoundLearned,
    RoundRevealed,
)
from service.journal.codec import encode_state
from service.journal.protocol import Erasure, Journal, Recorded
from service.runtime.processes import JobLimits

KNOWING = (ModelRebuilt, ModelRolledBack)
"""Events that carry states which may know of what is forgotten."""


async def erase(journal: Journal, fleet: Fleet, live: Live, limits: JobLimits) -> None:
    """Let nothing be left of the events that a model's amendments name: neither they themselves, nor states that knew
    of them, nor what came of them. May be done again."""
    eraser, going = journal.eraser, live.model.erasing
    assert eraser is not None
    saved_at = live.seq
    await fleet.save(live)  # a load begins there
    if not going:
        await eraser.erase(Erasure(live.life, [], [], (0, 0), [], is_whole=True))
        return
    first = min(going)
    some = [
        each
        async for each in all_events(journal, live.model.name, first - 1)
        if each.seq in going or isinstance(each.event, KNOWING)
    ]
    unknowing = await _unknowing(journal, live, {_id_of(each.event) for each in some if each.seq in going})
    some = [Recorded(each.seq, unknowing.get(each.seq, each.event)) for each in some]
    replaced, rebuilt_at = replacements(some, going)
    traced, labels = await _traced(journal, live, some, limits) if rebuilt_at else ({}, [])
    without = [
        (through, version, _without(outcomes, going))
        for through, version, outcomes in await eraser.pages(live.life, first)
    ]
    snapshots = (min(first, *unknowing), saved_at) if unknowing else (first, rebuilt_at or first)
    instead = {seq: event for seq, event in traced.items() if first < seq < rebuilt_at} | unknowing | replaced
    if labels:
        await journal.settle()
        instead |= {seq: event async for seq, event in _served(journal, live, rebuilt_at, labels)}
    if journal.is_shared:  # which could not find a round by its id any more
        instead = {seq: each for seq, each in instead.items() if seq in replaced or not _round_id(each)}
    events = [*instead.items()]
    await eraser.erase(Erasure(live.life, events, without, snapshots, [], is_whole=True, labels=labels))


async def _traced(
    journal: Journal, live: Live, some: list[Recorded], limits: JobLimits
) -> tuple[dict[int, AnyEvent], list[Label]]:
    """What takes the places of events that tell of those that go, and the labels that only these have brought."""
    before = min(each.event.since for each in some if isinstance(each.event, ModelRebuilt)) - 1
    model = live.model
    milestone = await milestone_before(journal, model, before) or await journal.milestone(model.name, before)
    if milestone is None:
        return {}, []
    playing = await Playing.start(journal, milestone, limits, erasing=model.erasing)
    try:
        return await playing.traced(live.seq)
    finally:
        await playing.end()


async def _served(
    journal: Journal, live: Live, after: int, labels: list[Label]
) -> AsyncIterator[tuple[int, AnyEvent]]:
    gone = Labels(labels)
    async for recorded in all_events(journal, live.model.name, after):
        event = recorded.event
        if isinstance(event, RoundRevealed) and gone.index(event.served) >= 0:
            yield recorded.seq, structs.replace(event, served=None)


def _round_id(event: AnyEvent) -> str | None:
    return event.prediction_id if isinstance(event, RoundRevealed | RoundLearned) else None


def _id_of(event: AnyEvent) -> str | None:
    return event.prediction_id if isinstance(event, RoundRevealed | PredictionVoided) else None


async def _unknowing(journal: Journal, live: Live, ids: set[str | None]) -> dict[int, AnyEvent]:
    """The rebuilds that know what predictions of these ids, which waited, were served again with; without that."""
    found: dict[int, AnyEvent] = {}
    async for recorded in all_events(journal, live.model.name, 0):
        event = recorded.event
        if isinstance(event, ModelRebuilt):
            state = await in_thread_if(len(event.state) >= LARGE_BYTES, state_without, event.state, ids)
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


def replacements(events: Iterable[Recorded], going: Container[int]) -> tuple[dict[int, AnyEvent], int]:
    """What takes the places of those of these events that go, and of those that carry states; and which of them has
    made the model without those, 0 if none has."""
    replaced: dict[int, AnyEvent] = {}
    others: list[Recorded] = []
    for each in events:
        if each.seq in going:
            replaced[each.seq] = erased(each.event)
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
            replaced[each.seq] = structs.replace(event, state=rebuilt.state)
    return replaced, rebuilt_at


def _without(outcomes: bytes, going: frozenset[int]) -> bytes:
    return OutcomeLog(outcomes).without(going).tobytes()
