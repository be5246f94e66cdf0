"""Prediction ids in use, unique over all models and replicas."""

import os
from collections.abc import Awaitable, Callable

from service.errors import PredictionIdTaken
from service.events import Prediction
from service.journal.jetstream.bodies import Bodies
from service.journal.jetstream.catalogue.catalogue import Catalogue, Entry
from service.journal.jetstream.link.api import Api
from service.journal.jetstream.link.publishing import Publisher
from service.journal.jetstream.messages import KnownId, decode_known_id, encode
from service.journal.jetstream.subjects import Subjects
from service.journal.protocol import Recorded, WaitingPrediction

ID_CHARS_MAX = 512
REMEMBERED_MAX = 10_000


class Ids:
    """Stores ids, and finds what they stand for."""

    def __init__(
        self,
        api: Api,
        publisher: Publisher,
        subjects: Subjects,
        catalogue: Catalogue,
        bodies: Bodies,
        reach: Callable[[int], Awaitable[None]],
    ) -> None:
        """`reach` waits until this replica has come to a sequence number of the log."""
        self._api = api
        self._bodies = bodies
        self._reach = reach
        self._publisher = publisher
        self._subjects = subjects
        self._catalogue = catalogue
        self._lives: dict[
            str, int
        ] = {}  # lives by ids that have events in the log, though their records may be gone

    def record(self, life: int, prediction: Prediction | None) -> bytes:
        """The record to keep under an id. It is unique, so that a replica recognises its own."""
        return encode(KnownId(life, prediction, os.urandom(8)))

    async def keep(self, prediction_id: str, record: bytes) -> tuple[int, KnownId | None]:
        """Keep a record under an id unless it has one: the record's sequence number, and the earlier record if any."""
        subject = self._subjects.id(prediction_id)
        expected = 0
        while True:
            ack = await self._publisher.publish(subject, record, expected=expected)
            if ack.stored:
                return ack.seq, None
            found = await self._api.last_of_any_copy(self._subjects.ids, subject)
            if found is None:
                expected = 0  # it was removed for its age a moment ago
            elif found.data == record:
                return found.seq, None  # the answer to the first attempt was lost
            elif await self._entry((holder := decode_known_id(found.data)).life) is None:
                expected = found.seq
            else:
                return found.seq, holder

    async def claim(self, entry: Entry, prediction_id: str) -> None:
        """Take an id for a round that is learned at once; PredictionIdTaken if it stands for anything else.

        Several such rounds of one model may share the claim: the log takes the first and refuses the others,
        as it does if a prediction with this id was revealed already.
        """
        _, holder = await self.keep(prediction_id, self.record(entry.life, None))
        if holder is None or (holder.life == entry.life and holder.prediction is None):
            return
        if (
            await self._api.last(
                self._subjects.log, self._subjects.event(entry.life, entry.model, prediction_id)
            )
            is None
        ):
            raise PredictionIdTaken(f"the id {prediction_id!r} was used for another example before")

    def remember(self, prediction_id: str, life: int) -> None:
        """Note that the log has an event with this id."""
        if len(self._lives) >= REMEMBERED_MAX:
            self._lives.clear()
        self._lives[prediction_id] = life

    async def find(
        self, prediction_id: str, *, in_any_copy: bool = False
    ) -> WaitingPrediction | Recorded | None:
        """The waiting prediction, or the event that revealed it, or None.

        `in_any_copy`: also if not every server can read it.
        """
        if len(prediction_id) > ID_CHARS_MAX:
            return None
        read = self._api.last_of_any_copy if in_any_copy else self._api.last
        found = await read(self._subjects.ids, self._subjects.id(prediction_id))
        known = decode_known_id(found.data) if found is not None else None
        life = known.life if known is not None else self._lives.get(prediction_id)
        if life is None or (entry := await self._entry(life)) is None:
            return None
        # One that was refused as a repetition is there.
        read = self._api.last_of_any_copy if in_any_copy or prediction_id in self._lives else self._api.last
        event = await read(self._subjects.log, self._subjects.event(life, entry.model, prediction_id))
        if event is not None:
            opened = await self._bodies.open(event)
            await self._reach(event.seq)  # so that its outcome is known here
            return Recorded(event.seq, opened.event) if opened is not None else None
        if known is None or known.prediction is None:
            return None
        return WaitingPrediction(known.prediction, life)

    async def recorded(self, life: int, event_id: str) -> Recorded | None:
        """The event of a model with this id, by the server that leads."""
        if (entry := await self._entry(life)) is None:
            return None
        subject = self._subjects.event(life, entry.model, event_id)
        found = await self._api.last_from_leader(self._subjects.log, subject)
        if found is None or (opened := await self._bodies.open(found)) is None:
            return None
        await self._reach(found.seq)
        return Recorded(found.seq, opened.event)

    async def _entry(self, life: int) -> Entry | None:
        """None if the model is deleted."""
        await self._reach(life)  # another replica may have made the model a moment ago
        return self._catalogue.get_life(life)
