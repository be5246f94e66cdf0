"""Models on their way from the journal into memory, and what happens to them meanwhile."""

import asyncio
from asyncio import Future, Task
from collections.abc import Callable

from service.engine.fleet.live import Live, awakened, born
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
        """`apply` applies an event that came during the loading, `admit` takes a model that is loaded."""
        self._journal = journal
        self._apply = apply
        self._admit = admit
        self._tasks: dict[str, Task[Live | None]] = {}
        self._missed: dict[str, list[tuple[int, AnyEvent]]] = {}
        self._to_wait_for: dict[str, Future[Appended]] = {}

    def __contains__(self, name: str) -> bool:
        """Whether a model is being loaded, or its loading waits for an event."""
        return name in self._tasks or name in self._to_wait_for

    async def load(self, name: str) -> Live | None:
        """None if there is no such model."""
        task = self._tasks.get(name)
        if task is None:
            self._missed[name] = []  # from now on, not from when the task begins: it may be born before that
            task = self._tasks[name] = asyncio.create_task(self._load(name))
        return await asyncio.shield(task)

    def miss(self, seq: int, event: AnyEvent) -> bool:
        """Note an event for a model that is being loaded; False if it is not."""
        missed = self._missed.get(event.model)
        if missed is None:
            return False
        missed.append((seq, event))
        return True

    async def append_first(self, event: AnyEvent, life: int) -> Appended:
        """Append an event of a model that is not loaded; whoever loads it meanwhile waits for that."""
        name = event.model
        appended = self._to_wait_for[name] = self._journal.append(event, life)
        try:
            return await appended
        finally:
            del self._to_wait_for[name]

    async def _load(self, name: str) -> Live | None:
        try:
            if (appended := self._to_wait_for.get(name)) is not None:
                await asyncio.wait([appended])
            stored = await self._journal.load(name)
        finally:
            missed = self._missed.pop(name)
            del self._tasks[name]
        live = awakened(name, stored) if stored is not None else None
        for seq, event in missed:
            if isinstance(event, ModelCreated | ModelImported) and live is None:
                live = Live(born(event), seq, seq)
            elif isinstance(event, ModelDeleted) and live is not None and seq > live.seq:
                live = None
            elif live is not None:
                self._apply(live, seq, event)
        if live is not None:
            self._admit(live)
        return live
