"""Models in memory again from what the journal has stored, while the event loop goes on."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from service.engine.fleet.fold import Fold, once
from service.engine.fleet.large_models import LARGE_BYTES, in_thread, is_large_import
from service.engine.fleet.live import Live
from service.engine.models.model import Model
from service.errors import ModelDamaged
from service.journal.codec import NewerState
from service.journal.protocol import Recorded, StoredModel

DAMAGE = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What decoding or applying a damaged event may raise; msgspec's errors are ValueErrors too."""

log = logging.getLogger(__name__)


async def restore_live(name: str, stored: StoredModel) -> Live:
    """The model that the journal has stored; ModelDamaged if that cannot be read or applied."""
    with as_damaged(name):
        return await _restored(stored)


def restored_at_once(stored: StoredModel) -> Live:
    """The same without a loop, for commands: raises what a damaged history raises."""
    live = Live.at_snapshot(stored)
    fold_of(live).run(live.rest_of(stored))
    live.complete(stored)
    return live


def fold_of(live: Live) -> Fold:
    """What applies events to a model that is to be in memory."""

    def take(_: Model, recorded: Recorded) -> None:
        live.apply_next(recorded.seq, recorded.event)

    return Fold(live.model, take)


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
    live = await in_thread(Live.at_snapshot, stored) if begins_large else Live.at_snapshot(stored)
    await fold_of(live).run_in_slices(once(live.rest_of(stored)))
    live.complete(stored)
    return live
