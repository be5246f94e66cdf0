"""Loading models from the journal; events that come for a model meanwhile are applied when it is loaded."""

import asyncio
from asyncio import Future, Task
from collections import deque
from collections.abc import Callable

from service.engine.fleet.large_models import in_thread, is_large_import
from service.engine.fleet.live import Live
from service.engine.fleet.restoring import as_damaged, restore_live
from service.engine.models.model import model_from
from service.events import AnyEvent, ModelCreated, ModelDeleted, ModelImported
from service.journal.protocol import Appended, Journal
from service.runtime.cooperative import Turns


class Loading:
    """Loads each model once, however many ask for it at the same time."""

    def __init__(
        self,
        journal: Journal,
        apply: Callable[[Live, int, AnyEvent], object],
        admit: Callable[[Live], None],
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
                model = await in_thread(model_from, event) if is_large_import(event) else model_from(event)
                live = Live(model, seq, seq)
            elif isinstance(event, ModelDeleted) and live is not None and seq > live.seq:
                live = None
            elif live is not None:
                self._apply(live, seq, event)
            await turns.give()
        return live
