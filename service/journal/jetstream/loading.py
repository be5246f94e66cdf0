"""Loading a model from the cluster: its newest snapshot, the events after it, its waiting predictions."""

import asyncio
import math
from collections import deque
from collections.abc import Callable
from time import monotonic

import msgspec

from service.errors import ModelDamaged, ModelUnreadable
from service.journal.jetstream.bodies import Bodies
from service.journal.jetstream.catalogue.catalogue import Catalogue, Entry
from service.journal.jetstream.forgotten import Forgotten, Replaced
from service.journal.jetstream.link.api import Api
from service.journal.jetstream.messages import Pointer, decode_event
from service.journal.jetstream.opening import read_creation
from service.journal.jetstream.predictions.waiting import Waiting
from service.journal.jetstream.snapshots import Snapshots
from service.journal.jetstream.subjects import Subjects
from service.journal.protocol import Milestone, Recorded, StoredModel

RETRY_SECONDS = 0.05


class Loader:
    def __init__(
        self,
        api: Api,
        subjects: Subjects,
        catalogue: Catalogue,
        bodies: Bodies,
        snapshots: Snapshots,
        forgotten: Forgotten,
        waiting: Waiting,
        position: Callable[[], int],
        *,
        seconds: float,
    ) -> None:
        self._api = api
        self._subjects = subjects
        self._catalogue = catalogue
        self._bodies = bodies
        self._snapshots = snapshots
        self._forgotten = forgotten
        self._waiting = waiting
        self._position = position
        self._seconds = seconds

    async def load(self, entry: Entry) -> StoredModel | None:
        """The model with all events that the follower has brought, and possibly newer ones; None if it was deleted."""
        seen = entry.last_seq  # later events reach the engine through the follower
        deadline = monotonic() + self._seconds
        try:
            while (stored := await self._read(entry, seen)) is None and self._catalogue.get_life(entry.life):
                if monotonic() > deadline:
                    raise ModelUnreadable("the cluster's servers are not of one mind just now")
                await asyncio.sleep(RETRY_SECONDS)
        except (msgspec.MsgspecError, ValueError, LookupError) as error:
            raise ModelDamaged(f"the history of {entry.model!r} is damaged: {error}") from error
        return stored if self._catalogue.get_life(entry.life) else None

    async def _read(self, entry: Entry, seen: int) -> StoredModel | None:
        """One attempt; None if a server lagged behind or no longer leads, or if events were trimmed or forgotten
        meanwhile."""
        life, log = entry.life, self._subjects.log
        pointer, _ = await self._snapshots.pointer(life)
        state, seq, tail = None, life, list[Recorded]()
        if pointer.snapshots:
            seq = pointer.snapshots[-1].seq
            state = await self._snapshots.state(life, pointer.snapshots[-1])
            if state is None:
                return None
        else:
            tail = await self._creation(entry)
        position = self._position()
        try:
            tail += await self._tail(entry, pointer, seq)
        except Replaced:
            return None
        if max(seq, tail[-1].seq if tail else 0) < seen or await self._api.last_seq(log) < position:
            return None
        again, _ = await self._snapshots.pointer(life)
        if again.trimmed_through > seq or again.erased != pointer.erased:
            return None
        if pointer.snapshots:
            entry.voided_through = max(entry.voided_through, pointer.snapshots[-1].voided_through)
        for recorded in tail:
            entry.note(recorded.event)
        pending, resting = await self._waiting.of(life, entry.voided_through)
        seq = seq if state is not None else 0
        return StoredModel(state, seq, tail, pending, entry.voided_through, life, resting)

    async def events(self, entry: Entry, *, after: int, limit: int) -> list[Recorded]:
        deadline = monotonic() + self._seconds
        while True:
            pointer, _ = await self._snapshots.pointer(entry.life)
            try:
                found: list[Recorded] = []
                if after < entry.life and limit and not pointer.trimmed_through:
                    found = await self._creation(entry)
                rest = limit - len(found) if limit >= 0 else -1
                found += await self._tail(entry, pointer, after, rest)
            except Replaced:
                if monotonic() > deadline:
                    raise
                await asyncio.sleep(RETRY_SECONDS)
                continue
            again, _ = await self._snapshots.pointer(entry.life)
            if again.erased == pointer.erased:  # else some were forgotten while they were read
                return found

    async def milestone(self, entry: Entry, version: int | None) -> Milestone | None:
        life = entry.life
        pointer, _ = await self._snapshots.pointer(life)
        usable = [kept for kept in pointer.snapshots if kept.seq >= pointer.trimmed_through]
        if version is None:
            usable = usable[:1] if pointer.trimmed_through else []
        for kept in reversed(usable):
            if version is None or kept.version <= version:
                state = await self._snapshots.state(life, kept)
                if state is not None:
                    return Milestone(life, kept.seq, state)
        return None if pointer.trimmed_through else Milestone(life, 0, None)

    async def history(self, entry: Entry, *, after: int, limit: int) -> list[Recorded] | None:
        found = await self.events(entry, after=after, limit=limit)
        pointer, _ = await self._snapshots.pointer(entry.life)  # after it: what is trimmed now was read
        is_whole = pointer.trimmed_through <= after and self._catalogue.get_life(entry.life) is not None
        return found if is_whole else None

    async def _creation(self, entry: Entry) -> list[Recorded]:
        opened = await self._bodies.open(
            await read_creation(self._api, self._subjects, entry.model, entry.life)
        )
        return [Recorded(entry.life, opened.event)] if opened is not None else []

    async def _tail(self, entry: Entry, pointer: Pointer, after: int, limit: int = -1) -> list[Recorded]:
        """The events after one; in the places of those that were forgotten, what stands there."""
        subjects, log = self._subjects, self._subjects.log
        erased = await self._forgotten.of(entry.life, pointer)
        places = deque(sorted(seq for seq in erased if seq > max(after, pointer.trimmed_through)))
        found: list[Recorded] = []

        def take_erased(before: float) -> None:
            while places and places[0] < before:
                seq = places.popleft()
                found.append(Recorded(seq, decode_event(erased[seq])))

        read = 0
        async for message in self._api.scan(log, subjects.events_of(entry.life), after=after, limit=limit):
            read += 1
            take_erased(message.seq + 1)
            if message.seq in erased:
                continue  # it is yet to be deleted
            opened = await self._bodies.open(message)
            if opened is not None:
                found.append(Recorded(message.seq, opened.event))
        if read < limit or limit < 0:
            take_erased(math.inf)
        return found[:limit] if limit >= 0 else found
