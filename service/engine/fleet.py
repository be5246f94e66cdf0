"""The models in memory: loaded on first use, the least recently used unloaded, snapshots on the way."""

import asyncio
from collections import OrderedDict

from service.engine.live import Live
from service.engine.model import Model
from service.engine.outcomes import Outcome
from service.errors import UnknownModel
from service.events import AnyEvent, ModelCreated, ModelDeleted, ModelReset, RoundRevealed
from service.journal.protocol import Appended, Journal


class Fleet:
    """Models by name. `apply` is the only way in which one changes."""

    def __init__(self, journal: Journal, *, loaded_max: int, snapshot_every_events: int) -> None:
        self._journal = journal
        self._loaded_max = loaded_max
        self._snapshot_every_events = snapshot_every_events
        self._loading: dict[str, asyncio.Task[Live | None]] = {}
        self._missed: dict[str, list[tuple[int, AnyEvent]]] = {}
        self.loaded: OrderedDict[str, Live] = OrderedDict()
        """Least recently used first."""
        self.owner: dict[str, Live] = {}
        """Which loaded model a waiting prediction belongs to."""

    def used(self, name: str) -> Live | None:
        """The model of this name if it is loaded, which it is the more likely to stay now."""
        live = self.loaded.get(name)
        if live is not None:
            self.loaded.move_to_end(name)
        return live

    async def get(self, name: str) -> Live:
        """The model of this name, loaded if it is not; UnknownModel if there is none.

        It stays loaded until the caller waits for something else: after that, ask again.
        """
        while (live := self.used(name)) is None:
            if await self._load(name) is None:
                raise UnknownModel(f"there is no model {name!r}")
        return live

    async def append(self, live: Live, event: AnyEvent) -> Appended:
        """Make an event of a loaded model durable and apply it; the model stays loaded meanwhile."""
        live.pins += 1
        try:
            return await self._journal.append(event)
        finally:
            live.pins -= 1

    def apply(self, seq: int, event: AnyEvent) -> Outcome | None:
        """Take in a durable event."""
        name = event.model
        live = self.loaded.get(name)
        if live is None:
            if name in self._missed:
                self._missed[name].append((seq, event))
            elif isinstance(event, ModelCreated):
                self._admit(Live(Model(event), seq))
            return None
        if isinstance(event, ModelDeleted):
            self._remove(live)
            return None
        if isinstance(event, RoundRevealed):
            self.owner.pop(event.prediction_id, None)
        elif isinstance(event, ModelReset):
            self._disown(live)
        outcome = live.apply(seq, event)
        if live.since_snapshot >= self._snapshot_every_events:
            self._journal.save_snapshot(live.snapshot())
        return outcome

    def save_all(self) -> None:
        """Snapshots of every model that has changed since its last."""
        for live in self.loaded.values():
            if live.since_snapshot:
                self._journal.save_snapshot(live.snapshot())

    async def _load(self, name: str) -> Live | None:
        """Load a model once, however many ask for it at the same time."""
        task = self._loading.get(name)
        if task is None:
            task = self._loading[name] = asyncio.create_task(self._read(name))
        return await asyncio.shield(task)

    async def _read(self, name: str) -> Live | None:
        missed = self._missed[name] = []
        try:
            stored = await self._journal.load(name)
        finally:
            del self._missed[name], self._loading[name]
        live = Live.awaken(stored) if stored is not None else None
        for seq, event in missed:
            if isinstance(event, ModelCreated) and live is None:
                live = Live(Model(event), seq)
            elif isinstance(event, ModelDeleted) and live is not None and seq > live.seq:
                live = None
            elif live is not None:
                live.apply(seq, event)
        if live is not None:
            self._admit(live)
        return live

    def _admit(self, live: Live) -> None:
        self.loaded[live.model.name] = live
        self.owner.update(dict.fromkeys(live.pending, live))
        if len(self.loaded) > self._loaded_max:
            idle = next((old for old in self.loaded.values() if old.is_idle and old is not live), None)
            if idle is not None:
                self._remove(idle)

    def _remove(self, live: Live) -> None:
        del self.loaded[live.model.name]
        self._disown(live)

    def _disown(self, live: Live) -> None:
        for prediction_id in live.pending:
            self.owner.pop(prediction_id, None)
