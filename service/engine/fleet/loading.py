"""Loading models from the journal, while the event loop goes on; events that come meanwhile are applied afterwards.

A model whose history cannot be read, or of which an event cannot be applied, is set aside. The journal is the truth, so
such an event is neither skipped nor undone: the model answers no request until it is deleted, or until a newer program
can read it, and what is left of it can be exported. All other models go on. Every start and every replica comes to the
same, since each has the same events.
"""

import asyncio
import logging
from asyncio import Future, Task
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from service.engine.fleet.fold import Fold, once
from service.engine.fleet.large_models import LARGE_BYTES, in_thread_if, is_large_import
from service.engine.fleet.live import Live
from service.engine.models.model import Model, model_from
from service.errors import ModelDamaged
from service.events import AnyEvent, ModelCreated, ModelDeleted, ModelImported
from service.journal.codec import NewerState
from service.journal.protocol import Appended, Journal, Recorded, StoredModel
from service.runtime.cooperative import Turns

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
        log.error("saved by a newer version: %s", name, exc_info=error, extra={"model": name})
        raise ModelDamaged(f"the model {name!r} was saved by a newer Novikoff: {error}") from error
    except DAMAGE as error:
        log.error("the history of %s is damaged", name, exc_info=error, extra={"model": name})
        raise ModelDamaged(
            f"the history of {name!r} is damaged; run `novikoff doctor` for details"
        ) from error


async def _restored(stored: StoredModel) -> Live:
    """Decode the snapshot and apply the events after it: on the loop in slices, or in a thread once it is large."""
    begins_large = len(stored.state or b"") >= LARGE_BYTES or (
        stored.tail and is_large_import(stored.tail[0].event)
    )
    live = await in_thread_if(bool(begins_large), Live.at_snapshot, stored)
    await fold_of(live).run_in_slices(once(live.rest_of(stored)))
    live.complete(stored)
    return live


class Loading:
    """Loads each model once, however many ask for it at the same time."""

    def __init__(
        self, journal: Journal, apply: Callable[[Live, int, AnyEvent], object], admit: Callable[[Live], None]
    ) -> None:
        """`apply` applies an event that came during the loading; `admit` is called with each loaded model."""
        self._journal = journal
        self._apply = apply
        self._admit = admit
        self._tasks: dict[str, Task[Live | None]] = {}
        self._deferred: dict[str, deque[tuple[int, AnyEvent]]] = {}
        self._appending: dict[str, Future[Appended]] = {}

    def __contains__(self, name: str) -> bool:
        """Whether a model is being loaded, or an event of it is appended that a loading has to wait for."""
        return name in self._tasks or name in self._appending

    async def load(self, name: str) -> Live | None:
        """Load a model; None if there is none of this name."""
        task = self._tasks.get(name)
        if task is None:
            self._deferred[name] = deque()  # from now on: it may be created before the task begins
            task = self._tasks[name] = asyncio.create_task(self._load(name))
        return await asyncio.shield(task)

    def defer(self, seq: int, event: AnyEvent) -> bool:
        """Keep an event for a model that is being loaded; False if it is not."""
        deferred = self._deferred.get(event.model)
        if deferred is None:
            return False
        deferred.append((seq, event))
        return True

    async def append_unloaded(self, event: AnyEvent, life: int) -> Appended:
        """Append an event of a model that is not loaded; a loading that begins meanwhile waits for it."""
        name = event.model
        appended = self._appending[name] = self._journal.append(event, life)
        try:
            return await appended
        finally:
            del self._appending[name]

    async def _load(self, name: str) -> Live | None:
        try:
            if (appended := self._appending.get(name)) is not None:
                await asyncio.wait([appended])
            stored = await self._journal.load(name)
            live = await restore_live(name, stored) if stored is not None else None
            with as_damaged(name):
                live = await self._apply_deferred(name, live)
        finally:
            del self._deferred[name], self._tasks[name]
        if live is not None:
            self._admit(live)
        return live

    async def _apply_deferred(self, name: str, live: Live | None) -> Live | None:
        """Apply what has come meanwhile, also during this, until there is no more."""
        deferred = self._deferred[name]
        turns = Turns()
        while deferred:
            seq, event = deferred.popleft()
            if isinstance(event, ModelCreated | ModelImported) and live is None:
                model = await in_thread_if(is_large_import(event), model_from, event)
                live = Live(model, seq, seq)
            elif isinstance(event, ModelDeleted) and live is not None and seq > live.seq:
                live = None
            elif live is not None:
                self._apply(live, seq, event)
            await turns.give()
        return live


KEPT_MAX = 10_000
"""Of so many models the reason is known without loading them once more."""


class SetAside:
    """Damaged models by name, and the reason."""

    def __init__(self) -> None:
        self._reasons: OrderedDict[str, str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._reasons)

    def __contains__(self, name: str) -> bool:
        return name in self._reasons

    def add(self, name: str, reason: str) -> None:
        self._reasons[name] = reason
        self._reasons.move_to_end(name)
        if len(self._reasons) > KEPT_MAX:
            self._reasons.popitem(last=False)

    def add_failed(self, seq: int, event: AnyEvent, error: Exception) -> ModelDamaged:
        """Set the model of an event aside that cannot be applied; the error for its client."""
        name = event.model
        why = f"event {seq} ({type(event).__name__}) cannot be applied: {type(error).__name__}: {error}"[:500]
        log.error(
            "model %s is damaged and no longer served",
            name,
            exc_info=error,
            extra={"model": name, "event": seq},
        )
        self.add(name, f"the model {name!r} is damaged: {why}")
        return ModelDamaged(f"the event is in the journal, but the model {name!r} is damaged: {why}")

    def discard(self, name: str) -> None:
        """The model is deleted."""
        self._reasons.pop(name, None)

    def reasons(self) -> list[tuple[str, str]]:
        """All models that are set aside, and why."""
        return list(self._reasons.items())

    def reason(self, name: str) -> str | None:
        """Why a model is set aside, None if it is not."""
        return self._reasons.get(name)

    def check(self, name: str) -> None:
        """ModelDamaged if a model is set aside."""
        if self._reasons and (reason := self._reasons.get(name)) is not None:
            raise ModelDamaged(reason)


def salvage(name: str, stored: StoredModel) -> tuple[Model, int, int]:
    """What is left of a damaged model: as it was before the first event that cannot be applied.

    The model, the last event in it, and how many later ones are left out. ModelDamaged if nothing is left.
    """
    good = len(stored.tail)
    while True:
        try:
            live = Live.at_snapshot(stored)
        except Exception as error:
            raise ModelDamaged(f"nothing of the model {name!r} is readable: {error}") from error
        rest = live.rest_of(stored)
        known, fold = len(stored.tail) - len(rest), fold_of(live)
        try:
            fold.run(rest[: good - known])
            return live.model, live.seq, len(stored.tail) - good
        except Exception:  # it may have left its traces: once more, without it
            good = known + fold.taken
