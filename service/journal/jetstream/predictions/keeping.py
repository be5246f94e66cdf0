"""Sending predictions to the cluster."""

import asyncio
from asyncio import Future, Task

from service.errors import InvalidRequest
from service.events import Prediction
from service.journal.jetstream.link.publishing import Publisher
from service.journal.jetstream.outstanding import Outstanding
from service.journal.jetstream.predictions.ids import Ids
from service.journal.jetstream.predictions.waiting import Waiting
from service.journal.jetstream.subjects import Subjects
from service.journal.protocol import Appended


class Keeper:
    """Keeps predictions. One that nobody waits for is sent again until the cluster has it. Meanwhile it is in memory
    and can be revealed at this replica."""

    def __init__(
        self,
        publisher: Publisher,
        subjects: Subjects,
        ids: Ids,
        waiting: Waiting,
        outstanding: Outstanding,
    ) -> None:
        self._publisher = publisher
        self._subjects = subjects
        self._ids = ids
        self._waiting = waiting
        self._outstanding = outstanding
        self._tasks: set[Task[None]] = set()

    def keep(self, life: int, prediction: Prediction, *, wait: bool) -> Future[Appended] | None:
        record = self._ids.record(life, prediction)
        most = self._publisher.payload_bytes_max
        if len(record) > most:
            raise InvalidRequest.at("features", f"the journal keeps no prediction of more than {most} bytes")
        self._waiting.add(life, prediction)
        if not wait:
            subject = self._subjects.id(prediction.prediction_id)
            stored = self._publisher.publish(subject, record, expected=0, persistent=True)
            self._outstanding.add(stored)
            stored.add_done_callback(lambda _: self._waiting.sent(prediction.prediction_id))
            return None
        future: Future[Appended] = asyncio.get_running_loop().create_future()
        self._outstanding.add(future)
        task = asyncio.create_task(self._keep(life, prediction.prediction_id, record, future))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return future

    async def _keep(self, life: int, prediction_id: str, record: bytes, future: Future[Appended]) -> None:
        kept = False
        try:
            seq, holder = await self._ids.keep(prediction_id, record)
            kept = holder is None
            if not future.done():
                future.set_result(Appended(seq, kept))
        except Exception as error:  # of whatever kind: somebody waits for the future
            if not future.done():
                future.set_exception(error)
                future.exception()  # marks it as seen: if nobody waits for it, asyncio would log it
        finally:
            self._waiting.sent(prediction_id)
            if not kept:
                self._waiting.drop(life, prediction_id)
