"""Which waiting predictions this replica has served, so that it can expire them.

Any replica can reveal any prediction, by its id. But only the one that served it counts it as waiting, and as expired
in the end. A replica that stops stores lists of its waiting predictions, which another replica takes over.
"""

import asyncio
import os
from collections.abc import Callable
from heapq import heappop, heappush, nsmallest
from itertools import chain

from service.events import (
    VOIDING,
    AnyEvent,
    Prediction,
    PredictionsExpired,
    PredictionVoided,
    RoundErased,
    RoundRevealed,
)
from service.journal.jetstream.link.api import Api, Message
from service.journal.jetstream.link.publishing import Publisher
from service.journal.jetstream.messages import decode_ids, decode_known_id, encode
from service.journal.jetstream.subjects import Subjects
from service.journal.protocol import PENDING_LOADED_BYTES_MAX, PENDING_LOADED_MAX, Resting

READ_AT_ONCE = 64
LISTED_AT_ONCE = 5_000
CLEANED_MIN = 10_000


class Waiting:
    """Ids of waiting predictions by the life of their model, and when each was served."""

    def __init__(
        self, api: Api, publisher: Publisher, subjects: Subjects, has_own_time: Callable[[int], bool]
    ) -> None:
        """`has_own_time`: whether the model of a life has `pending_ttl_seconds` of its own."""
        self._has_own_time = has_own_time
        self._api = api
        self._publisher = publisher
        self._subjects = subjects
        self._served: dict[int, dict[str, int]] = {}
        """For each life, the ids and when each was served."""
        self._by_age: list[tuple[int, int, str]] = []
        """A heap of (when served, life, id), with some that wait no longer: these are removed now and then. Of models
        without `pending_ttl_seconds` of their own."""
        self._cleaned_to = 0
        self._unsent: set[str] = set()

    def add(self, life: int, prediction: Prediction) -> None:
        self._unsent.add(prediction.prediction_id)
        self._add(life, prediction.prediction_id, prediction.at)

    def sent(self, prediction_id: str) -> None:
        """The cluster has the prediction, or does not take it."""
        self._unsent.discard(prediction_id)

    async def drop_forgotten(self, life: int) -> None:
        """Drop those of which nothing is known any more, since another replica has forgotten them."""
        turn, s = asyncio.Semaphore(READ_AT_ONCE), self._subjects

        async def is_gone(name: str) -> bool:
            async with turn:
                return await self._api.last_from_leader(s.ids, s.id(name)) is None

        names = [name for name in self._served.get(life, ()) if name not in self._unsent]
        are_gone = await asyncio.gather(*map(is_gone, names))
        for name, gone in zip(names, are_gone, strict=True):
            if gone:
                self.drop(life, name)

    def _add(self, life: int, prediction_id: str, at: int) -> None:
        self._served.setdefault(life, {})[prediction_id] = at
        if self._has_own_time(life):
            return
        heappush(self._by_age, (at, life, prediction_id))
        if len(self._by_age) > 2 * self._cleaned_to + CLEANED_MIN:
            self._by_age = sorted(one for one in self._by_age if self._waits(one))
            self._cleaned_to = len(self._by_age)

    def _waits(self, one: tuple[int, int, str]) -> bool:
        return one[2] in self._served.get(one[1], ())

    def lives_with_own_time(self) -> list[int]:
        return [life for life, served in self._served.items() if served and self._has_own_time(life)]

    def times_of(self, life: int) -> list[int]:
        """When the waiting predictions of a model were served."""
        return list(self._served.get(life, {}).values())

    def overdue(self, through: int, limit: int, *, own: bool) -> list[tuple[int, int, int]]:
        """The `limit` oldest that were served up to a time: life, how many, and when the newest of these was served.

        `own`: also of models with `pending_ttl_seconds` of their own.
        """
        by_age = self._by_age
        oldest: list[tuple[int, int, str]] = []
        while by_age and by_age[0][0] <= through and len(oldest) < limit:
            one = heappop(by_age)
            if self._waits(one):
                oldest.append(one)
        for one in oldest:
            heappush(by_age, one)  # it counts as waiting until its expiry is recorded
        if own:
            others = ((at, life, "") for life in self.lives_with_own_time() for at in self.times_of(life))
            oldest = nsmallest(limit, chain(oldest, (one for one in others if one[0] <= through)))
        found: dict[int, tuple[int, int, int]] = {}
        for at, life, _ in oldest:
            found[life] = (life, found[life][1] + 1 if life in found else 1, at)
        return list(found.values())

    def drop(self, life: int, prediction_id: str) -> None:
        self._served.get(life, {}).pop(prediction_id, None)

    def take_event(self, life: int, event: AnyEvent) -> None:
        """Remove the predictions that an event reveals or voids."""
        served = self._served.get(life)
        if served is None:
            return
        if isinstance(event, RoundRevealed | PredictionVoided | RoundErased):
            served.pop(event.prediction_id or "", None)
        elif isinstance(event, PredictionsExpired):
            self._served[life] = {name: at for name, at in served.items() if at > event.through}
        elif isinstance(event, VOIDING):
            self._served[life] = {name: at for name, at in served.items() if at > event.at}
        if not self._served[life]:
            del self._served[life]

    def forget(self, life: int) -> None:
        self._served.pop(life, None)

    async def of(self, life: int, voided_through: int) -> tuple[list[Prediction], list[Resting]]:
        """The waiting predictions of a model, with those that a stopped replica has listed: the newest, and of the
        others their ids and times; each oldest first."""
        await self.take_over(life)
        served = self._served.get(life, {})
        names = sorted((name for name, at in served.items() if at > voided_through), key=served.__getitem__)
        resting = [Resting(name, served[name]) for name in names]
        newest: list[Prediction] = []
        size = 0
        while resting and len(newest) < PENDING_LOADED_MAX and size < PENDING_LOADED_BYTES_MAX:
            some, resting = resting[-READ_AT_ONCE:], resting[:-READ_AT_ONCE]
            messages = await asyncio.gather(*(self._read(each.prediction_id) for each in some))
            known = [decode_known_id(each.data).prediction for each in messages if each is not None]
            newest[:0] = [each for each in known if each is not None]
            size += sum(len(each.data) for each in messages if each is not None)
        return newest, resting

    async def _read(self, prediction_id: str) -> Message | None:
        return await self._api.last(self._subjects.ids, self._subjects.id(prediction_id))

    async def take_over(self, of: int | None) -> None:
        """Take over the lists of stopped replicas, of one life or of all: a list is the replica's that removes it."""
        s = self._subjects
        async for message in self._api.scan(s.state, s.waiting_of(of), after=0):
            if not await self._api.overwrite(s.state, message.seq):  # its ids may be forgotten later
                continue  # another one was first
            life = s.life_in(message.subject)
            for prediction_id, at in decode_ids(message.data).items():
                self._add(life, prediction_id, at)

    async def hand_over(self) -> None:
        """Store lists of all waiting predictions for other replicas to take over. Called when this one stops."""
        lists = [
            (life, dict(listed))
            for life, served in self._served.items()
            for listed in _cut(list(served.items()), LISTED_AT_ONCE)
        ]
        subject = self._subjects.waiting
        await asyncio.gather(
            *(
                self._publisher.publish(subject(life, os.urandom(8).hex()), encode(listed), expected=0)
                for life, listed in lists
            )
        )
        self._served.clear()
        self._by_age.clear()


def _cut(items: list[tuple[str, int]], size: int) -> list[list[tuple[str, int]]]:
    """
    >>> _cut([("a", 1), ("b", 2), ("c", 3)], 2)
    [[('a', 1), ('b', 2)], [('c', 3)]]
    """
    return [items[start : start + size] for start in range(0, len(items), size)]
