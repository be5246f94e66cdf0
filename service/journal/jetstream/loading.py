"""Loading a model from the cluster: its newest snapshot, the events after it, its waiting predictions.

What is read has to be whole by the chain of the model. If something is missing, the copy of each server is read until
nothing is; if none has it, the model is damaged.
"""

import asyncio
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

import msgspec

from service.errors import JournalUnavailable, ModelDamaged, ModelUnreadable
from service.events import AnyEvent
from service.journal.jetstream.catalogue import Catalogue, Entry
from service.journal.jetstream.chains import Chains, Gap, first, one_chain
from service.journal.jetstream.forgetting import Forgetting, Replaced
from service.journal.jetstream.link.api import Message
from service.journal.jetstream.messages import (
    DIGEST_BYTES,
    UNKNOWN,
    Bodies,
    KeptSnapshot,
    Link,
    Pointer,
    decode_event,
)
from service.journal.jetstream.predictions import Waiting
from service.journal.jetstream.snapshots import Snapshots
from service.journal.jetstream.streams import Streams
from service.journal.protocol import Milestone, Recorded, StoredModel

RETRY_SECONDS = 0.05
LAG_SECONDS = 2.0
"""How long a server may lag behind until what it does not have counts as missing."""

READINGS_MAX = 64

T = TypeVar("T")

Copies = dict[int, Message]
"""Messages of a model by number, from all servers that were asked so far."""


class Deleted(ModelUnreadable):
    """The model was deleted while it was read."""


@dataclass(eq=False)
class Loader:
    streams: Streams
    catalogue: Catalogue
    chains: Chains
    bodies: Bodies
    snapshots: Snapshots
    forgetting: Forgetting
    waiting: Waiting
    position: Callable[[], int]

    def __post_init__(self) -> None:
        self._api, self._subjects = self.streams.api, self.streams.subjects
        self._seconds = self.streams.options.seconds
        self._readings: OrderedDict[tuple[int, int], Chains] = OrderedDict()
        """The chains of histories that are read in portions, by life and the last event that was read."""

    async def load(self, entry: Entry) -> StoredModel | None:
        """The model with all events that the follower has brought, and possibly newer ones; None if it was deleted."""
        self.chains.watch(entry.life)
        try:
            stored = await self._from_any_copy(entry, lambda copies: self._load(entry, copies))
        except Deleted:
            return None
        except (msgspec.MsgspecError, ValueError, LookupError) as error:
            raise ModelDamaged(f"the history of {entry.model!r} is damaged: {error}") from error
        finally:
            self.chains.stop_watching(entry.life)
        return stored if self.catalogue.get_life(entry.life) else None

    async def _from_any_copy(self, entry: Entry, read: Callable[[Copies | None], Awaitable[T]]) -> T:
        """Read something of a model as it comes and, if events are missing in that, as each server has it."""
        try:
            return await read(None)
        except Gap as error:
            gap = error
        s, copies = self._subjects, Copies()
        await self._catch_up()
        self._check_exists(entry)
        self._api.report_damage(f"{entry.model}: {gap.detail}; asking every server for its copy")

        async def read_copy() -> tuple[T] | None:
            nonlocal gap
            self._check_exists(entry)
            try:
                return (await read(copies),)
            except Gap as error:
                gap = error
                return None

        try:
            if found := await self._api.from_each_leader(read_copy, s.log, s.state):
                return found[0]
        except JournalUnavailable as error:
            raise ModelUnreadable(f"of {entry.model!r} {gap.detail}, and {error.detail}") from error
        why = f"the model {entry.model!r} is damaged: {gap.detail}, and no server has it"
        self._api.report_damage(why)
        raise ModelDamaged(why) from gap

    async def _catch_up(self) -> None:
        """Wait for the events that are in the log by now: one of them may have deleted a model, whose snapshots go
        before the follower brings the event."""
        with suppress(JournalUnavailable):
            last, deadline = await self._api.last_seq(self._subjects.log), monotonic() + LAG_SECONDS
            while self.position() < last and monotonic() < deadline:
                await asyncio.sleep(RETRY_SECONDS)

    def _check_exists(self, entry: Entry) -> None:
        if self.catalogue.get_life(entry.life) is None:
            raise Deleted(f"the model {entry.model!r} was deleted in the meantime")

    async def _load(self, entry: Entry, copies: Copies | None) -> StoredModel | None:
        # Later events reach the engine through the follower.
        seen = max(entry.last_seq, entry.link.seq)
        deadline = monotonic() + min(LAG_SECONDS, self._seconds)
        while (stored := await self._read(entry, seen, copies)) is None and self.catalogue.get_life(
            entry.life
        ):
            if monotonic() > deadline:
                raise Gap(f"some of its events up to {seen} cannot be read")
            await asyncio.sleep(RETRY_SECONDS)
        return stored

    async def _read(self, entry: Entry, seen: int, copies: Copies | None) -> StoredModel | None:
        """One attempt; None if a server lagged behind or no longer leads, or if events were trimmed or forgotten
        meanwhile. With `copies`, older snapshots are tried if the newest does not do."""
        pointer, _ = await self.snapshots.pointer(entry.life)
        beginnings: list[KeptSnapshot | None] = [*reversed(pointer.snapshots)]
        if not pointer.trimmed_through or not beginnings:
            beginnings.append(None)
        gap: Gap | None = None
        for kept in beginnings[: 1 if copies is None else None]:
            try:
                return await self._read_from(kept, entry, pointer, seen, copies)
            except Gap as error:
                gap = gap or error
        assert gap is not None
        raise gap

    async def _read_from(
        self, kept: KeptSnapshot | None, entry: Entry, pointer: Pointer, seen: int, copies: Copies | None
    ) -> StoredModel | None:
        life, log = entry.life, self._subjects.log
        state, seq, tail, chain, link = None, life, list[Recorded](), one_chain(), entry.link
        if kept is not None:
            seq = kept.seq
            state = await self.snapshots.state(life, kept)
            if state is None:
                again, _ = await self.snapshots.pointer(life)
                if kept in again.snapshots:
                    raise Gap(f"its snapshot after event {seq} cannot be read")
                return None
            chain.begin(life, seq, kept.digest or (None if seq > self._unsealed else bytes(DIGEST_BYTES)))
        else:
            tail = await self._creation(entry, chain)
        position = self.position()
        try:
            tail += await self._tail(entry, pointer, seq, chain, copies)
        except Replaced:
            return None
        last = tail[-1].seq if tail else seq
        if last < seen or await self._api.last_seq(log) < position:
            return None
        again, _ = await self.snapshots.pointer(life)
        if again.trimmed_through > seq or again.erased != pointer.erased:
            return None
        chain.check(life, link)
        self._join(life, chain, last)
        if kept is not None:
            entry.voided_through = max(entry.voided_through, kept.voided_through)
        for recorded in tail:
            entry.note(recorded.event)
        pending, resting = await self.waiting.of(life, entry.voided_through)
        seq = seq if state is not None else 0
        return StoredModel(state, seq, tail, pending, entry.voided_through, life, resting)

    def _join(self, life: int, read: Chains, last: int) -> None:
        """Begin the chain of the model where it was read to; Gap if what the follower has brought does not fit."""
        try:
            if (known := self.chains.newest(life)) == UNKNOWN:
                self.chains.begin(life, last, read.digest_at(life, last))
            elif known.seq <= last:
                read.check(life, known)
            else:
                self.chains.check(life, read.newest(life))
        except Gap:
            self.chains.drop(life)
            self.chains.watch(life)
            raise

    @property
    def _unsealed(self) -> int:
        return self._api.unsealed_through[self._subjects.log]

    async def events(self, entry: Entry, *, after: int, limit: int) -> list[Recorded]:
        return await self._from_any_copy(entry, lambda copies: self._events(entry, after, limit, copies))

    async def _events(self, entry: Entry, after: int, limit: int, copies: Copies | None) -> list[Recorded]:
        deadline = monotonic() + self._seconds
        while True:
            pointer, _ = await self.snapshots.pointer(entry.life)
            chain = self._readings.pop((entry.life, after), None) or one_chain()
            try:
                found: list[Recorded] = []
                if after < entry.life and limit and not pointer.trimmed_through:
                    found = await self._creation(entry, chain)
                elif chain.digest_at(entry.life, after) is None:
                    kept = next((kept for kept in pointer.snapshots if kept.seq == after), None)
                    start = max(after, pointer.trimmed_through, entry.life)
                    chain.begin(entry.life, start, kept.digest if kept is not None else None)
                rest = limit - len(found) if limit >= 0 else -1
                found += await self._tail(entry, pointer, after, chain, copies, rest)
            except Replaced:
                if monotonic() > deadline:
                    raise
                await asyncio.sleep(RETRY_SECONDS)
                continue
            again, _ = await self.snapshots.pointer(entry.life)
            if again.erased == pointer.erased:  # else some were forgotten while they were read
                if found:
                    self._readings[entry.life, found[-1].seq] = chain
                    if len(self._readings) > READINGS_MAX:
                        self._readings.popitem(last=False)
                return found

    async def milestone(self, entry: Entry, version: int | None) -> Milestone | None:
        life = entry.life
        pointer, _ = await self.snapshots.pointer(life)
        usable = [kept for kept in pointer.snapshots if kept.seq >= pointer.trimmed_through]
        if version is None:
            usable = usable[:1] if pointer.trimmed_through else []
        for kept in reversed(usable):
            if version is None or kept.version <= version:
                state = await self.snapshots.state(life, kept)
                if state is not None:
                    return Milestone(life, kept.seq, state)
        return None if pointer.trimmed_through else Milestone(life, 0, None)

    async def history(self, entry: Entry, *, after: int, limit: int) -> list[Recorded] | None:
        found = await self.events(entry, after=after, limit=limit)
        pointer, _ = await self.snapshots.pointer(entry.life)  # after it: what is trimmed now was read
        is_whole = pointer.trimmed_through <= after and self.catalogue.get_life(entry.life) is not None
        return found if is_whole else None

    async def _creation(self, entry: Entry, chain: Chains) -> list[Recorded]:
        s = self._subjects
        message = await self._api.next_from_leader(s.log, s.lifecycle_of(entry.model), entry.life)
        is_there = message is not None and message.seq == entry.life
        opened = await self.bodies.open(message) if message is not None and is_there else None
        if message is None or opened is None:
            raise Gap("the event that created it cannot be read")
        chain.begin(entry.life, entry.life, first(entry.life, message.digest))
        return [Recorded(entry.life, opened.event)]

    async def _tail(
        self,
        entry: Entry,
        pointer: Pointer,
        after: int,
        chain: Chains,
        copies: Copies | None,
        limit: int = -1,
    ) -> list[Recorded]:
        """The events after one; in the places of those that were forgotten, what stands there."""
        life, last, read = entry.life, after, 0
        erased = await self.forgetting.of(life, pointer)
        found: dict[int, tuple[AnyEvent, bytes, Link]] = {}
        async for message in self._messages(entry, after, limit, copies):
            last, read = message.seq, read + 1
            if message.seq in erased:
                continue  # it is yet to be deleted
            opened = await self.bodies.open(message)
            if opened is None:
                raise Gap(f"the body of event {message.seq} cannot be read")
            found[message.seq] = (opened.event, message.digest, opened.link)
        end = last if 0 <= limit <= read else math.inf
        for seq, listed in erased.items():
            if max(after, pointer.trimmed_through) < seq <= end:
                body, message_digest = self.forgetting.parts_of(seq, listed)
                found[seq] = (decode_event(body), message_digest, UNKNOWN)
        numbers = sorted(found)[: limit if limit >= 0 else None]
        for seq in numbers:
            chain.follow(life, seq, *found[seq][1:])
        return [Recorded(seq, found[seq][0]) for seq in numbers]

    async def _messages(
        self, entry: Entry, after: int, limit: int, copies: Copies | None
    ) -> AsyncIterator[Message]:
        s = self._subjects
        events = s.events_of(entry.life, entry.model)
        if copies is None:
            async for message in self._api.scan(s.log, events, after=after, limit=limit):
                yield message
            return
        async for message in self._api.scan_leader(s.log, events, after=after):
            copies[message.seq] = message
        numbers = sorted(seq for seq in copies if seq > after)
        for seq in numbers[: limit if limit >= 0 else None]:
            yield copies[seq]
