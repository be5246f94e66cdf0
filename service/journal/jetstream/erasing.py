"""Takes what is to be forgotten out of the streams, and out of the servers' files.

Each step can be done again, by any replica: first the model's pointer is moved to what stands in the places of events,
and away from snapshots and pages that know of them. Then nobody reads them any more, and they are overwritten one by
one, an event after the record of its id and its body.
"""

from collections.abc import Iterable
from functools import partial

from msgspec.structs import replace

from service.errors import JournalUnavailable
from service.journal import codec
from service.journal.jetstream.bodies import Bodies
from service.journal.jetstream.cleaning import Cleaner, at_once
from service.journal.jetstream.files import Files
from service.journal.jetstream.forgotten import Forgotten
from service.journal.jetstream.link.api import Api, Message
from service.journal.jetstream.link.publishing import Publisher
from service.journal.jetstream.messages import KeptPage, Pointer, decode_known_id, encode
from service.journal.jetstream.parts import Parts
from service.journal.jetstream.predictions.waiting import Waiting
from service.journal.jetstream.snapshots import Snapshots
from service.journal.jetstream.subjects import Subjects
from service.journal.protocol import Erasure, Tagged


class JetStreamEraser:
    """See `Eraser` for what it promises."""

    def __init__(
        self,
        api: Api,
        publisher: Publisher,
        subjects: Subjects,
        snapshots: Snapshots,
        forgotten: Forgotten,
        cleaner: Cleaner,
        bodies: Bodies,
        waiting: Waiting,
        files: Files,
    ) -> None:
        self._api = api
        self._publisher = publisher
        self._subjects = subjects
        self._snapshots = snapshots
        self._forgotten = forgotten
        self._cleaner = cleaner
        self._bodies = bodies
        self._waiting = waiting
        self._parts = Parts(api, publisher, subjects.state)
        self._files = files

    async def tagged(self, life: int, tag: str, after: int = 0) -> Tagged:
        """All ids are read, of all models: nothing finds them by their tags.

        JournalUnavailable if a server is away: what follows could not be done.
        """
        await self._files.check_all_there()
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
                    raise JournalUnavailable("the outcomes of rounds are just being written anew")
                found.append((page.through, page.version, outcomes))
        return found

    async def erase(self, erasure: Erasure) -> None:
        s, life = self._subjects, erasure.life
        await self._files.check_all_there()
        await self._waiting.take_over(life)  # lists of ids, which replicas that have stopped have left
        for prediction_id in erasure.predictions:
            self._waiting.drop(life, prediction_id)
        await self._cleaner.overwrite_all(s.ids, map(s.id, erasure.predictions))
        if erasure.events:
            pointer, revision = await self._replace(erasure)
            # All that were ever replaced: who began this may have been killed, and others may find less to replace.
            await self._overwrite_events(life, [*await self._forgotten.of(life, pointer)])
            await self._cleaner.clean(life, pointer, revision)
        if erasure.is_whole:
            await self._files.let_go(*s.filling)

    async def _replace(self, erasure: Erasure) -> tuple[Pointer, int]:
        """Move the model's pointer; what it is then, and its revision."""
        life, (first, end) = erasure.life, erasure.snapshots
        await self._snapshots.settle_of(life)
        while True:
            pointer, revision = await self._snapshots.pointer(life, in_any_copy=True)
            if first < end and (not pointer.snapshots or pointer.snapshots[-1].seq < end):
                raise JournalUnavailable("there is no snapshot yet of the model without what is forgotten")
            events = await self._forgotten.of(life, pointer)
            events = {seq: body for seq, body in events.items() if seq > pointer.trimmed_through}
            replaced = {seq: codec.encode(event) for seq, event in erasure.events}
            digests = await self._digests(replaced.keys() - events.keys())
            for seq, body in replaced.items():
                known = digests[seq] if seq in digests else self._forgotten.parts_of(seq, events[seq])[1]
                events[seq] = self._forgotten.with_digest(seq, body, known)
            until = max(end, pointer.erased.until if pointer.erased is not None else 0)
            moved = replace(
                pointer,
                snapshots=[kept for kept in pointer.snapshots if not first <= kept.seq < end],
                pages=await self._written_anew(life, revision, pointer, erasure),
                erased=await self._forgotten.store(life, revision, events, until),
                has_tags=True,
            )
            subject = self._subjects.pointer(life)
            ack = await self._publisher.publish(subject, encode(moved), expected=revision)
            if ack.stored:
                return moved, ack.seq

    async def _digests(self, numbers: Iterable[int]) -> dict[int, bytes]:
        """The digests of messages of the log; empty if they are not there."""
        found: dict[int, bytes] = {}

        async def read(seq: int) -> None:
            message = await self._api.numbered(self._subjects.log, seq)
            found[seq] = message.digest if message is not None else b""

        await at_once(read, numbers)
        return found

    async def _written_anew(
        self, life: int, revision: int, pointer: Pointer, erasure: Erasure
    ) -> list[KeptPage]:
        outcomes = {through: body for through, _, body in erasure.pages}
        pages: list[KeptPage] = []
        for page in pointer.pages:
            body = outcomes.get(page.through)
            if body is not None and body != await self._snapshots.outcomes(life, page):
                edition = self._subjects.edition(revision)
                subject = partial(self._subjects.page, life, page.through, edition)
                parts, _ = await self._parts.store(subject, body)
                page = replace(page, parts=parts, edition=edition)
            pages.append(page)
        return pages

    async def _overwrite_events(self, life: int, numbers: list[int]) -> None:
        async def overwrite(seq: int) -> None:
            message = await self._api.numbered(self._subjects.log, seq)
            if message is not None:
                await self._overwrite_id(life, message)
                await self._cleaner.overwrite_event(message)

        await at_once(overwrite, numbers)

    async def _overwrite_id(self, life: int, message: Message) -> None:
        """Overwrite the record of an event's id, unless it is of a later prediction by now."""
        subject = self._subjects.id_of_event(message.subject)
        found = await self._api.last_from_leader(self._subjects.ids, subject) if subject else None
        opened = await self._bodies.open(message)
        if found is None or opened is None:
            return
        known = decode_known_id(found.data)
        made_at = known.prediction.at if known.prediction is not None else 0
        if known.life == life and made_at <= opened.event.at:
            await self._api.overwrite(self._subjects.ids, found.seq)
