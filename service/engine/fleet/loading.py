"""Loading models from the journal; events that come for a model meanwhile are applied when it is loaded."""

import asyncio
from asyncio import Future, Task
from collections.abc import Callable

from service.engine.fleet.live import Live, model_from, restore_live
from service.events import AnyEvent, ModelCreated, ModelDeleted, ModelImported
from service.journal.protocol import Appended, Journal


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
        self._deferred: dict[str, list[tuple[int, AnyEvent]]] = {}
        self._appending: dict[str, Future[Appended]] = {}

    def __contains__(self, name: str) -> bool:
        """Whether a model is being loaded, or an event of it is appended that a loading has to wait for."""
        return name in self._tasks or name in self._appending

    async def load(self, name: str) -> Live | None:
        """Load a model; None if there is none of this name."""
        task = self._tasks.get(name)
        if task is None:
            self._deferred[
                name
            ] = []  # from now on and not when the task begins: it may be created in between
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
        finally:
            deferred = self._deferred.pop(name)
            del self._tasks[name]
        live = restore_live(name, stored) if stored is not None else None
        for seq, event in deferred:
            if isinstance(event, ModelCreated | ModelImported) and live is None:
                live = Live(model_from(event), seq, seq)
            elif isinstance(event, ModelDeleted) and live is not None and seq > live.seq:
                live = None
            elif live is not None:
                self._apply(live, seq, event)
        if live is not None:
            self._admit(live)
        return live
