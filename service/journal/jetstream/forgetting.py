"""Forgetting: events are deleted, and empty events stand in their places.

A message cannot be replaced under its number. So a list in the state stream has what stands in the places of deleted
events: empty ones, which keep their versions and nothing else. A model's pointer names its list. Each step can be done
again, by any replica: first the pointer is moved to the list, and away from snapshots and pages that know of the
events. From then on nobody reads them, and they are deleted by their numbers, which the servers overwrite in the files
of the stream at once. The logs by which servers replicate a stream may keep the bytes until they are compacted.
"""

from collections import OrderedDict
from collections.abc import Iterable
from functools import partial
from itertools import chain

from msgspec.structs import replace

from service.errors import JournalUnavailable
from service.events import Label
from service.journal import codec
from service.journal.jetstream.link.api import Message, in_batches
from service.journal.jetstream.messages import (
    DIGEST_BYTES,
    Blob,
    Bodies,
    KeptErased,
    KeptPage,
    Pointer,
    decode_erased,
    decode_known_id,
    encode,
    unwrap,
)
from service.journal.jetstream.predictions import Waiting
from service.journal.jetstream.snapshots import Snapshots
from service.journal.jetstream.streams import Streams
from service.journal.protocol import Erasure, Tagged

CACHED_MAX = 16


class Replaced(JournalUnavailable):
    """A list no longer exists, since the model's pointer names another one."""


class Forgetting:
    """See `Eraser` for what it promises."""

    def __init__(
        self,
        streams: Streams,
        snapshots: Snapshots,
        bodies: Bodies,
        waiting: Waiting,
    ) -> None:
        self._streams = streams
        self._api, self._publisher, self._subjects = streams.api, streams.publisher, streams.subjects
        self._snapshots = snapshots
        self._bodies = bodies
        self._waiting = waiting
        self._cached: OrderedDict[str, dict[int, bytes]] = OrderedDict()

    # What stands in the places of events

    async def of(self, life: int, pointer: Pointer) -> dict[int, bytes]:
        """The list that a model's pointer names, see `parts_of`; Replaced if it names another one by now."""
        kept = pointer.erased
        if kept is None:
            return {}
        subject = partial(self._subjects.erased, life, kept.first, kept.last, kept.edition)
        cached = self._cached.get(subject(0))
        if cached is None:
            found = await self._streams.load(subject, kept.parts)
            if found is None:
                raise Replaced("another replica is replacing the list of forgotten events; try again")
            cached = self._cached[subject(0)] = decode_erased(found)
            if len(self._cached) > CACHED_MAX:
                self._cached.popitem(last=False)
        return cached

    def parts_of(self, seq: int, listed: bytes) -> tuple[bytes, bytes]:
        """The body of the empty event, and the digest that the message had; no digest of one that had none."""
        is_sealed = seq > self._api.unsealed_through[self._subjects.log]
        return (listed[:-DIGEST_BYTES], listed[-DIGEST_BYTES:]) if is_sealed else (listed, b"")

    async def lives_between(self, after: int, before: int) -> list[int]:
        """The models of which events between these two may have been forgotten."""
        s = self._subjects
        found = [s.erased_in(each) for each in await self._api.subjects(s.state, s.erased_of(None))]
        return sorted({life for life, first, last in found if first < before and last > after})

    # Eraser

    async def tagged(self, life: int, tag: str, after: int = 0) -> Tagged:
        """All ids are read, of all models: nothing finds them by their tags.

        JournalUnavailable if a server is away: what follows could not be done.
        """
        await self._api.check_copies(*self._subjects.streams)
        found, sought = Tagged({}, after), tag.encode()
        async for message in self._api.scan(self._subjects.ids, self._subjects.known_ids, after=after):
            found.through = message.seq
            if sought not in message.data:
                continue
            known = decode_known_id(message.data)
            prediction = known.prediction
            if known.life == life and prediction is not None and prediction.tag == tag:
                found.predictions[prediction.prediction_id] = prediction.at
        return found

    async def pages(self, life: int, seq: int) -> list[tuple[int, int, bytes]]:
        await self._snapshots.settle_of(life)
        pointer, _ = await self._snapshots.pointer(life)
        found: list[tuple[int, int, bytes]] = []
        for page in pointer.pages:
            if page.through >= seq:
                outcomes = await self._snapshots.outcomes(life, page)
                if outcomes is None:
                    raise JournalUnavailable("another replica is replacing the outcomes of rounds; try again")
                found.append((page.through, page.version, outcomes))
        return found

    async def erase(self, erasure: Erasure) -> None:
        s, life = self._subjects, erasure.life
        await self._api.check_copies(*s.streams)
        await self._waiting.take_over(life)  # lists of ids, which replicas that have stopped have left
        for prediction_id in erasure.predictions:
            self._waiting.drop(life, prediction_id)
        subjects = chain(map(s.id, erasure.predictions), map(s.spare_id, erasure.predictions))
        await self._api.overwrite_last(s.ids, subjects)
        if erasure.labels:  # before the events go, from which these labels are known
            await self._unserve(life, erasure.labels)
        if erasure.events:
            pointer, revision = await self._replace(erasure)
            # All that were ever replaced: who began this may have been killed, and others may find less to replace.
            await self._delete_events(life, await self.of(life, pointer))
            await self._snapshots.clean(life, pointer, revision)

    async def _unserve(self, life: int, labels: Iterable[Label]) -> None:
        """Store the records of predictions anew that were served one of these labels, without that.

        Each is deleted first, since what is replaced stays in the servers' files. Meanwhile the new one is kept under
        another subject, where it is found if this is done again after a kill.
        """
        s, sought = self._subjects, {(type(label), label) for label in labels}
        found: list[int] = []
        async for message in self._api.scan(s.ids, s.known_ids, after=0):
            known = decode_known_id(message.data)
            prediction = known.prediction
            if known.life == life and prediction is not None:
                is_spare = message.subject == s.spare_id(prediction.prediction_id)
                if is_spare or (type(prediction.served), prediction.served) in sought:
                    found.append(message.seq)

        async def store_anew(seq: int) -> None:
            message = await self._api.numbered(s.ids, seq)
            if message is None:
                return
            known = decode_known_id(message.data)
            prediction = known.prediction
            assert prediction is not None
            subject, spare = s.id(prediction.prediction_id), s.spare_id(prediction.prediction_id)
            record = encode(replace(known, prediction=replace(prediction, served=None)))
            if message.subject != spare:
                await self._publisher.publish(spare, record, expected=0)
                await self._api.overwrite(s.ids, seq)
            await self._publisher.publish(subject, record, expected=0)
            await self._api.overwrite_last(s.ids, [spare])

        await in_batches(store_anew, found)

    async def _replace(self, erasure: Erasure) -> tuple[Pointer, int]:
        """Move the model's pointer; what it is then, and its revision."""
        life, (first, end) = erasure.life, erasure.snapshots
        await self._snapshots.settle_of(life)
        while True:
            pointer, revision = await self._snapshots.pointer(life, in_any_copy=True)
            if first < end and (not pointer.snapshots or pointer.snapshots[-1].seq < end):
                raise JournalUnavailable("the model has no snapshot yet without the forgotten events")
            moved = replace(
                pointer,
                snapshots=[kept for kept in pointer.snapshots if not first <= kept.seq < end],
                pages=await self._pages_without(life, revision, pointer, erasure),
                erased=await self._listed(life, revision, pointer, erasure),
                has_tags=True,
            )
            subject = self._subjects.pointer(life)
            ack = await self._publisher.publish(subject, encode(moved), expected=revision)
            if ack.stored:
                return moved, ack.seq

    async def _listed(self, life: int, revision: int, pointer: Pointer, erasure: Erasure) -> KeptErased:
        """Store the list of a model with what an erasure adds to it."""
        s, listed = self._subjects, await self.of(life, pointer)
        listed = {seq: each for seq, each in listed.items() if seq > pointer.trimmed_through}
        digests = {seq: self.parts_of(seq, each)[1] for seq, each in listed.items()}

        async def read_digest(seq: int) -> None:
            message = await self._api.numbered(s.log, seq)
            digests[seq] = (message.digest if message is not None else b"") or bytes(DIGEST_BYTES)

        await in_batches(read_digest, [seq for seq, _ in erasure.events if seq not in listed])
        unsealed = self._api.unsealed_through[s.log]
        for seq, event in erasure.events:
            listed[seq] = codec.encode(event) + (digests[seq] if seq > unsealed else b"")
        edition, first, last = s.edition(revision), min(listed), max(listed)
        parts, _ = await self._streams.store(partial(s.erased, life, first, last, edition), encode(listed))
        return KeptErased(edition, first, last, parts)

    async def _pages_without(
        self, life: int, revision: int, pointer: Pointer, erasure: Erasure
    ) -> list[KeptPage]:
        outcomes = {through: body for through, _, body in erasure.pages}
        pages: list[KeptPage] = []
        for page in pointer.pages:
            body = outcomes.get(page.through)
            if body is not None and body != await self._snapshots.outcomes(life, page):
                edition = self._subjects.edition(revision)
                subject = partial(self._subjects.page, life, page.through, edition)
                parts, _ = await self._streams.store(subject, body)
                page = replace(page, parts=parts, edition=edition)
            pages.append(page)
        return pages

    async def _delete_events(self, life: int, numbers: Iterable[int]) -> None:
        async def delete(seq: int) -> None:
            """An event after the record of its id and its body, so that it can be done again."""
            message = await self._api.numbered(self._subjects.log, seq)
            if message is None:
                return
            await self._delete_id(life, message)
            body = unwrap(message.data).body
            if isinstance(body, Blob):
                blob = partial(self._subjects.blob, body.life, body.name)
                await self._api.overwrite_last(self._subjects.state, map(blob, range(body.parts)))
            await self._api.overwrite(self._subjects.log, seq)

        await in_batches(delete, numbers)

    async def _delete_id(self, life: int, message: Message) -> None:
        """Delete the record of an event's id, unless it is of a later prediction by now."""
        subject = self._subjects.id_of_event(message.subject)
        found = await self._api.last_from_leader(self._subjects.ids, subject) if subject else None
        opened = await self._bodies.open(message)
        if found is None or opened is None:
            return
        known = decode_known_id(found.data)
        made_at = known.prediction.at if known.prediction is not None else 0
        if known.life == life and made_at <= opened.event.at:
            await self._api.overwrite(self._subjects.ids, found.seq)
