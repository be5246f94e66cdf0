"""Many whole rounds as one event: what streams and replays are made of."""

import asyncio
from asyncio import Future
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from service.engine.clock import Clock
from service.engine.fleet.fleet import Fleet
from service.engine.fleet.live import Live
from service.engine.fleet.models import Models
from service.engine.models.block_fold import table_of
from service.engine.models.checks import NONE_NEW, LabelChecks, NewLabels, Sent
from service.engine.models.outcomes import BlockOutcome
from service.engine.rounds.examples import Examples
from service.errors import (
    InvalidRequest,
    NovikoffError,
    Overloaded,
    TooManyPending,
    Unavailable,
    UnknownLabel,
    kept,
)
from service.events import Label, RoundsLearned, Table
from service.journal.protocol import Appended
from service.learning.vectors import Array, Rows
from service.runtime.cooperative import Turns

T = TypeVar("T")

ROOM_SECONDS_MAX = 10.0
"""How long a line of a stream waits for room before the stream ends."""

LOOK_SECONDS = 0.01


async def with_room(attempt: Callable[[], Awaitable[T]], seconds_max: float = ROOM_SECONDS_MAX) -> T:
    """Call `attempt` until it does not raise Overloaded, for at most `seconds_max`; Overloaded after that.

    An attempt that raises Overloaded has changed nothing. Single requests retry too, so a stream is not starved.
    """
    deadline = monotonic() + seconds_max
    while True:
        try:
            return await attempt()
        except TooManyPending:  # room for predictions is made by revealing them, not by waiting
            raise
        except Overloaded:
            if monotonic() >= deadline:
                raise
        await asyncio.sleep(LOOK_SECONDS)


Errors = dict[int, NovikoffError]
"""What is wrong with which rounds, by their place in the block."""

BETWEEN_TURNS = 32
"""After how many rounds it is seen whether it is the turn of others."""

EVENT_SECONDS = 0.01
"""How long it may take to apply an event, about: the loop turns to others only between two."""

UNKNOWN_MAX = 256
"""Rounds in an event while it is not known how long they take: of a model that has learned no block, or with names that
may be new."""

UNDER_WAY_MAX = 2
"""Arrays on their way to the disk: one that is written, and one that is applied or waits."""


class Begun(NamedTuple):
    """Rounds on their way to the journal; what was applied is a `BlockOutcome`."""

    live: Live
    appended: Future[Appended]


class Blocks:
    """Learns runs of whole rounds of one model, exactly as if they came one by one."""

    def __init__(self, fleet: Fleet, models: Models, examples: Examples, clock: Clock) -> None:
        self._fleet = fleet
        self._models = models
        self._examples = examples
        self._clock = clock

    @property
    def keep_order(self) -> bool:
        """Whether a block begun now is learned after those under way, and only if they are."""
        return self._fleet.keeps_order

    def at_once(self, name: str, features: list[Sent] | Rows) -> int:
        """How many rounds should be one event, by how long those before took."""
        live = self._fleet.loaded.get(name)
        if live is None or not live.round_seconds:
            return UNKNOWN_MAX
        fit = max(1, int(EVENT_SECONDS / live.round_seconds))
        return fit if isinstance(features, Rows) else min(fit, UNKNOWN_MAX)

    async def learn(
        self, name: str, features: list[Sent], labels: list[Label]
    ) -> tuple[BlockOutcome | None, Errors]:
        """What came of the good rounds, in their order, and what is wrong with the others."""
        errors: Errors = {}
        live = await self._made_by_first_good(name, features, labels, errors)
        if live is None:
            return None, errors
        with live.pinned():  # it stays loaded while others are loaded
            rows, new = await self._read_each(live, features, labels, errors)
            good = [label for at, label in enumerate(labels) if at not in errors]
            appended = await self._submit(live, good, _tables_of(rows), new) if good else None
        return appended.applied if appended is not None else None, errors

    async def _made_by_first_good(
        self, name: str, features: list[Sent], labels: list[Label], errors: Errors
    ) -> Live | None:
        """The model, made by the first round that is good if there is none; None if all are bad."""
        for at, (sent, label) in enumerate(zip(features, labels, strict=True)):
            check = partial(self._examples.check, sent=sent, label=label)
            try:
                return self._fleet.touch(name) or await self._models.get_or_create(name, sent, check)
            except (InvalidRequest, UnknownLabel) as error:
                errors[at] = kept(error)
        return None

    def begin(self, name: str, features: list[Sent] | Rows, labels: list[Label]) -> Begun | None:
        """Start to learn rounds, if the model is loaded and all of them are good; else `learn` has to see."""
        live = self._fleet.touch(name)
        if live is None or live.held is not None or not live.model.labels.has_all(labels):
            return None
        rows = self._examples.read_many(live, features)
        return None if rows is None else Begun(live, self._submit(live, labels, _tables_of(rows)))

    async def learn_arrays(
        self, name: str, blocks: AsyncIterable[tuple[Array, list[Label]]]
    ) -> AsyncIterator[BlockOutcome]:
        """The same for dense features in arrays; the first bad array, or one that cannot be kept, ends it.

        While arrays are on their way to the disk the next one is prepared and, if order is kept, sent after them.
        """
        under_way: deque[Future[Appended]] = deque()
        async for block, labels in self._portions(name, blocks):
            check = partial(self._examples.check_array, block=block, labels=labels)
            live = self._fleet.touch(name) or await self._models.get_or_create(name, [], check)
            with live.pinned():
                if not live.model.labels.has_all(labels):
                    while under_way:
                        yield (await under_way.popleft()).applied  # a class may be new there
                self._examples.check_array(live.model, block, labels, live.new_labels)
                if live.model.features.dimension is None:
                    await self._examples.read(live, block[0].tolist())
                tables = [table_of(Rows(block))]
                while len(under_way) >= (UNDER_WAY_MAX if self.keep_order else 1):
                    yield (await under_way.popleft()).applied
                under_way.append(await with_room(partial(self._submitted, live, labels, tables, under_way)))
                await asyncio.sleep(0)  # let it go to the disk by itself, while the next one is prepared
        while under_way:
            yield (await under_way.popleft()).applied

    async def _portions(
        self, name: str, blocks: AsyncIterable[tuple[Array, list[Label]]]
    ) -> AsyncIterator[tuple[Array, list[Label]]]:
        async for block, labels in blocks:
            start = 0
            while start < len(labels):
                end = start + even_share(len(labels) - start, self.at_once(name, Rows(block)))
                yield block[start:end], labels[start:end]
                start = end

    async def _read_each(
        self, live: Live, features: list[Sent], labels: list[Label], errors: Errors
    ) -> tuple[list[Rows], NewLabels]:
        """The rounds one by one, to tell which of them are bad; the good ones, and the labels new in them."""
        read: dict[int, Any] = {}
        turns = Turns()
        for at, sent in enumerate(features):
            if not at % BETWEEN_TURNS:
                await turns.give()
            if at in errors:
                continue
            try:
                read[at] = await self._examples.read(live, sent, labels[at])
            except Unavailable:  # which is no fault of this round, and none after it may be learned before it
                raise
            except NovikoffError as error:
                errors[at] = kept(error)
        if live.held is not None:
            await live.released()
            self._fleet.check_loaded(live)
        # In one go: no other request may add a class between this and the event.
        good: list[Any] = []
        checks = LabelChecks(live.model, live.new_labels)
        for at, example in read.items():
            try:
                checks.check(labels[at])
            except NovikoffError as error:
                errors[at] = kept(error)
            else:
                good.append(example)
        return live.model.features.rows_of(good) if good else [], frozenset(checks.new)

    async def _submitted(
        self, live: Live, labels: list[Label], tables: list[Table], before: Iterable[Future[Appended]]
    ) -> Future[Appended]:
        """Submit rounds, unless some before them are lost: the journal sees to that only while those are queued."""
        if live.held is not None:
            await live.released()
            self._fleet.check_loaded(live)
        checks = LabelChecks(live.model, live.new_labels)
        for label in set(labels):
            checks.check(label)
        for each in before:
            if each.done():
                each.result()
        return self._submit(live, labels, tables, frozenset(checks.new))

    def _submit(
        self, live: Live, labels: list[Label], tables: list[Table], new: NewLabels = NONE_NEW
    ) -> Future[Appended]:
        event = RoundsLearned(live.model.name, self._clock.now(), labels, tables)
        appended = self._fleet.submit(live, event, new)
        appended.add_done_callback(_noted)
        return appended


def even_share(left: int, at_once: int) -> int:
    """How many of so many rounds are next, in the fewest parts of at most `at_once` that are about as large.

    >>> even_share(2048, 2041), even_share(2048, 500), even_share(3, 500)
    (1024, 410, 3)
    """
    parts = -(-left // at_once)
    return -(-left // parts)


def _noted(appended: Future[Appended]) -> None:
    """Mark a failure as seen: if the request was cancelled, nobody waits for it, and asyncio would log it."""
    if not appended.cancelled():
        appended.exception()


def _tables_of(rows: list[Rows]) -> list[Table]:
    return [table_of(part) for part in rows]
