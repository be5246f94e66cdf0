"""Erasing what was forgotten from the journal, once the model is without it."""

from typing import Any

from msgspec import structs

from service.engine.corrections.rebuilding import erased
from service.engine.fleet.fleet import Fleet
from service.engine.fleet.live import Live
from service.engine.history.stepping import EVENTS_AT_ONCE
from service.engine.model.outcomes import OutcomeLog
from service.events import AnyEvent, ModelRebuilt, ModelRolledBack
from service.journal.protocol import Erasure, Journal


async def erase(journal: Journal, fleet: Fleet, live: Live) -> None:
    """Let nothing be left of the events that a model's amendments name: neither they themselves, nor states that knew
    of them, nor what came of them. May be done again."""
    amended = live.model.amended
    eraser = journal.eraser
    assert eraser is not None and amended is not None and amended.erasing is not None
    going = set(amended.erasing)
    await fleet.save(live)  # a load begins there
    if not going:
        await eraser.erase(Erasure(live.life, [], [], (0, 0), [], is_whole=True))
        return
    first = min(going)
    replaced, rebuilt_at = await _replaced(journal, live, going)
    pages = [
        (through, version, _without(outcomes, going))
        for through, version, outcomes in await eraser.pages(live.life, first)
    ]
    await eraser.erase(Erasure(live.life, replaced, pages, (first, rebuilt_at), [], is_whole=True))


async def _replaced(journal: Journal, live: Live, going: set[int]) -> tuple[list[tuple[int, AnyEvent]], int]:
    """The events that take the places of others, and which event has made the model without these."""
    first, after = min(going), min(going) - 1
    replaced: list[tuple[int, AnyEvent]] = []
    knowing: list[tuple[int, Any]] = []
    """Events that carry states which may know of what is forgotten."""
    while page := await journal.events(live.model.name, after=after, limit=EVENTS_AT_ONCE):
        after = page[-1].seq
        for recorded in page:
            if recorded.seq in going:
                replaced.append((recorded.seq, erased(recorded.event)))
            elif isinstance(recorded.event, ModelRebuilt | ModelRolledBack):
                knowing.append((recorded.seq, recorded.event))
    last = max(
        (place for place, (_, event) in enumerate(knowing) if isinstance(event, ModelRebuilt)), default=None
    )
    if last is None:
        return replaced, first
    rebuilt_at, rebuilt = knowing[last]
    # Nobody needs these any more: a version between them and the rebuild is made again from what is left.
    replaced += [
        (seq, structs.replace(event, state=rebuilt.state))
        for seq, event in knowing[:last]
        if isinstance(event, ModelRebuilt) or event.to >= rebuilt.since
    ]
    return replaced, rebuilt_at


def _without(outcomes: bytes, going: set[int]) -> bytes:
    return OutcomeLog(outcomes).without(going).tobytes()
