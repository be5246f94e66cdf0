"""Models in memory again from what the journal has stored, while the event loop goes on."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from service.engine.fleet.large_models import LARGE_BYTES, beside_the_loop, is_large, is_large_import
from service.engine.fleet.live import Live
from service.engine.model.block_fold import first_rounds, some_rounds
from service.errors import ModelDamaged
from service.events import RoundsLearned
from service.journal.codec import NewerState
from service.journal.protocol import Recorded, StoredModel
from service.turns import Turns

DAMAGE = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What decoding or applying a damaged event may raise; msgspec's errors are ValueErrors too."""

ROUNDS_AT_ONCE = 256
"""Of a block: learned one by one, as with names that are new, more take long; and learned together, fewer do."""

log = logging.getLogger(__name__)


async def restore_live(name: str, stored: StoredModel) -> Live:
    """The model that the journal has stored; ModelDamaged if that cannot be read or applied."""
    with as_damaged(name):
        return await _restored(stored)


def restored_at_once(stored: StoredModel) -> Live:
    """The same without a loop, for commands: raises what a damaged history raises."""
    live = Live.at_snapshot(stored)
    _apply_all(live, iter(stored.tail))
    live.complete(stored)
    return live


@contextmanager
def as_damaged(name: str) -> Iterator[None]:
    """What a damaged state or event raises, as ModelDamaged."""
    try:
        yield
    except NewerState as error:
        log.error("saved by a newer program: %s", name, exc_info=error, extra={"model": name})
        raise ModelDamaged(f"the model {name!r} was saved by a newer Novikoff: {error}") from error
    except DAMAGE as error:
        log.error("the history of %s is damaged", name, exc_info=error, extra={"model": name})
        raise ModelDamaged(f"the history of {name!r} is damaged: novikoff doctor tells more") from error


async def _restored(stored: StoredModel) -> Live:
    """Decode the snapshot and apply the events after it: on the loop in slices, or in a thread once it is large."""
    begins_large = len(stored.state or b"") >= LARGE_BYTES or (
        stored.tail and is_large_import(stored.tail[0].event)
    )
    live = await beside_the_loop(Live.at_snapshot, stored) if begins_large else Live.at_snapshot(stored)
    tail = iter(stored.tail)
    turns = Turns()
    while not is_large(live.model) and (recorded := next(tail, None)) is not None:
        event = recorded.event
        while isinstance(event, RoundsLearned) and len(event.labels) > ROUNDS_AT_ONCE:
            live.apply_first(first_rounds(event, ROUNDS_AT_ONCE))
            event = some_rounds(event, ROUNDS_AT_ONCE, len(event.labels))
            await turns.give()
        live.apply(recorded.seq, event)
        await turns.give()
    if is_large(live.model):
        await beside_the_loop(_apply_all, live, tail)
    live.complete(stored)
    return live


def _apply_all(live: Live, tail: Iterator[Recorded]) -> None:
    for recorded in tail:
        live.apply(recorded.seq, recorded.event)
