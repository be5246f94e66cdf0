"""The pending predictions of a model, page by page, for people who label them.

On a cluster each replica lists those that it has served, and asks the others for theirs.
"""

from collections.abc import Callable
from heapq import nsmallest
from itertools import islice
from typing import Literal

import msgspec

from service.engine.clock import Clock
from service.engine.fleet.fleet import Fleet
from service.engine.fleet.live import Live
from service.engine.fleet.pending import bytes_of
from service.engine.rounds.expiry import Expiry
from service.errors import NovikoffError
from service.events import Prediction
from service.journal.protocol import Journal
from service.runtime.cooperative import Turns

Order = Literal["newest", "least_sure"]

Place = tuple[float, float, int, str]
"""Where a prediction stands in an order. It never changes, so a page begins after it even if it waits no longer."""

PAGE_BYTES_MAX = 4_194_304
"""What the predictions of a page may take, by estimate: features may be large. One is always on it."""

TOLD_BYTES_MAX = 524_288
"""The same for what another replica is sent: half of what a message may have, by default."""

LOOKED_AT_ONCE = 1_000


class Question(msgspec.Struct, frozen=True, array_like=True):
    """What the other replicas are asked."""

    model: str
    order: Order
    after: Place | None
    limit: int


class Told(msgspec.Struct, frozen=True, array_like=True):
    """What one of them answers."""

    life: int
    predictions: list[Prediction]
    is_all: bool


class WaitingPage(msgspec.Struct, frozen=True):
    """A page of the list."""

    live: Live
    predictions: list[Prediction]
    next: Place | None
    """The place of the last one, if there are more."""


def place_in(order: Order) -> Callable[[Prediction], Place]:
    """By when they were served; or by how probably they are right, those first of which nothing is known.

    >>> served = Prediction("p", "m", 7, b"", 1, -0.5, 0, 0)
    >>> place_in("newest")(served), place_in("least_sure")(served)
    ((0.0, 0.0, -7, 'p'), (-1.0, 0.5, -7, 'p'))
    """
    return _by_certainty if order == "least_sure" else _by_time


def _by_time(prediction: Prediction) -> Place:
    return 0.0, 0.0, -prediction.at, prediction.prediction_id


def _by_certainty(prediction: Prediction) -> Place:
    certainty = prediction.certainty
    probability = None if certainty is None else certainty.probability
    sure = -1.0 if probability is None else probability
    return sure, abs(prediction.score), -prediction.at, prediction.prediction_id


class WaitingList:
    """Lists waiting predictions."""

    def __init__(self, journal: Journal, fleet: Fleet, clock: Clock, expiry: Expiry) -> None:
        self._journal = journal
        self._fleet = fleet
        self._clock = clock
        self._expiry = expiry

    async def open(self) -> None:
        """From now on tell other replicas of the predictions that wait here."""
        await self._journal.peers.answer_all(self._answer)

    async def page(self, name: str, order: Order, after: Place | None, limit: int) -> WaitingPage:
        """At most `limit` of the predictions of a model that wait, those after a place."""
        live = await self._fleet.get(name)
        found, is_all = await self._here(live, order, after, limit, PAGE_BYTES_MAX)
        if self._journal.is_shared:
            question = msgspec.msgpack.encode(Question(name, order, after, limit))
            answers = await self._journal.peers.ask_all(question)
            told = [msgspec.msgpack.decode(each, type=Told | None) for each in answers]
            others = [each for each in told if each is not None]
            found, is_all = self._merged(live, order, (found, is_all), others, limit)
        return WaitingPage(live, found, None if is_all or not found else place_in(order)(found[-1]))

    async def _here(
        self, live: Live, order: Order, after: Place | None, limit: int, bytes_max: int
    ) -> tuple[list[Prediction], bool]:
        """The next ones of this replica, and whether these are all."""
        place, now, turns = place_in(order), self._clock.now(), Turns()
        waiting = reversed(list(live.pending.values()))  # the newest first
        first: list[Prediction] = []
        while some := list(islice(waiting, LOOKED_AT_ONCE)):
            first += [p for p in some if after is None or place(p) > after]
            first = nsmallest(
                limit + 1, (p for p in first if not self._expiry.is_due(p.at, now, live)), key=place
            )
            if order == "newest" and len(first) > limit:
                break
            await turns.give()
        chosen = _within(first[:limit], bytes_max)
        return chosen, len(chosen) == len(first)

    def _merged(
        self, live: Live, order: Order, own: tuple[list[Prediction], bool], others: list[Told], limit: int
    ) -> tuple[list[Prediction], bool]:
        place = place_in(order)
        lists = [own, *((told.predictions, told.is_all) for told in others if told.life == live.life)]
        # Behind the last one of a list that was cut off, others of it would come first.
        ends = [place(found[-1]) for found, is_all in lists if not is_all and found]
        end = min(ends, default=None)
        found = {
            p.prediction_id: p
            for listed, _ in lists
            for p in listed
            if (end is None or place(p) <= end) and (listed is own[0] or live.may_reveal(p))
        }
        first = sorted(found.values(), key=place)
        chosen = _within(first[:limit], PAGE_BYTES_MAX)
        return chosen, end is None and len(chosen) == len(first)

    async def _answer(self, question: bytes) -> bytes:
        asked = msgspec.msgpack.decode(question, type=Question)
        try:
            live = await self._fleet.get(asked.model)
            found = await self._here(live, asked.order, asked.after, asked.limit, TOLD_BYTES_MAX)
        except NovikoffError:  # it has none that could be revealed
            return msgspec.msgpack.encode(None)
        return msgspec.msgpack.encode(Told(live.life, *found))


def _within(predictions: list[Prediction], bytes_max: int) -> list[Prediction]:
    """The first ones, as far as they take at most so much; one at least."""
    total = 0
    for at, prediction in enumerate(predictions):
        total += bytes_of(prediction)
        if at and total > bytes_max:
            return predictions[:at]
    return predictions
