"""The one way to fold a model's events: at once, in slices on the event loop, or in a thread if the model is large;
up to the newest event, or up to any version."""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from service.engine.fleet.large_models import LARGE_BYTES, in_thread, in_thread_if, is_large, is_large_import
from service.engine.fleet.pending import features_bytes
from service.engine.models.block_fold import first_rounds, some_rounds
from service.engine.models.model import Model, model_from
from service.engine.models.outcomes import Outcome
from service.events import (
    AnyEvent,
    ChallengerPromoted,
    ModelFitted,
    ModelRebuilt,
    ModelReset,
    ModelRolledBack,
    RoundErased,
    RoundLearned,
    RoundRevealed,
    RoundsLearned,
)
from service.journal.codec import StateBytes
from service.journal.protocol import Journal, Milestone, Recorded
from service.runtime.cooperative import Turns

EVENTS_AT_ONCE = 400
PAGE_BYTES = 4_194_304
"""Events are read so many at a time, or about so many bytes: the history of a model may be larger than memory."""
EVENTS_AT_FIRST = 16

TOGETHER = 16
"""Events that are applied before others may have a turn: about a millisecond."""

ROUNDS_AT_ONCE = 256
"""Of a block: learned one by one, as with names that are new, more take long; and learned together, fewer do."""


class Trimmed(Exception):
    """Events that were still to be read are no longer kept, or the model was deleted."""


Take = Callable[[Model, Recorded], bool | None]
"""Applies an event to the model, and says whether that was enough. Of a large block, it gets some rounds at a time."""


class Fold:
    """A model, which the first event makes if there is none yet, and what is done with each event after that."""

    def __init__(self, model: Model | None, take: Take) -> None:
        self.model = model
        self.taken = 0
        """How many events were applied whole."""
        self.is_enough = False
        self._take = take

    def run(self, events: Iterable[Recorded]) -> None:
        """Apply events at once, until it is enough."""
        for recorded in events:
            if self.model is None:
                self.model = model_from(recorded.event)
            elif self._take(self.model, recorded):
                self.is_enough = True
                return
            self.taken += 1

    async def slices(self, pages: AsyncIterable[Sequence[Recorded]]) -> AsyncIterator[None]:
        """Apply the events of pages until it is enough, and yield whenever some are applied."""
        turns = Turns()
        async for page in pages:
            if self.model is None:
                first = page[0].event
                self.model, page = await in_thread_if(is_large_import(first), model_from, first), page[1:]
                self.taken += 1
            for some in _portions(page):
                if self.model is not None and is_large(self.model):
                    await in_thread(self.run, some)
                else:
                    self.run(some)
                    await turns.give()
                yield
                if self.is_enough:
                    return

    async def run_in_slices(self, pages: AsyncIterable[Sequence[Recorded]]) -> None:
        async for _ in self.slices(pages):
            pass


def _portions(events: Iterable[Recorded]) -> Iterator[list[Recorded]]:
    """Events in portions of a few, or of some rounds of a block."""
    portion: list[Recorded] = []
    for recorded in events:
        event = recorded.event
        if isinstance(event, RoundsLearned):
            if portion:
                yield portion
                portion = []
            for start in range(0, len(event.labels), ROUNDS_AT_ONCE):
                yield [Recorded(recorded.seq, some_rounds(event, start, start + ROUNDS_AT_ONCE))]
            continue
        portion.append(recorded)
        if len(portion) == TOGETHER:
            yield portion
            portion = []
    if portion:
        yield portion


async def pages(
    journal: Journal, milestone: Milestone, after: int | None = None
) -> AsyncIterator[list[Recorded]]:
    """The events after a milestone, or after one of those, to the newest. Trimmed if some go meanwhile."""
    after, limit = milestone.seq if after is None else after, EVENTS_AT_FIRST
    while True:
        page = await journal.history(milestone, after=after, limit=limit)
        if page is None:
            raise Trimmed
        if not page:
            return
        yield page
        after = page[-1].seq
        size = max(1, sum(bytes_of(recorded.event) for recorded in page) // len(page))
        limit = max(1, min(EVENTS_AT_ONCE, PAGE_BYTES // size))


async def all_events(journal: Journal, name: str, after: int) -> AsyncIterator[Recorded]:
    """All events of a model that are kept, with numbers above `after`."""
    while page := await journal.events(name, after=after, limit=EVENTS_AT_ONCE):
        for recorded in page:
            yield recorded
        after = page[-1].seq


async def once(events: Sequence[Recorded]) -> AsyncIterator[Sequence[Recorded]]:
    """Events that are in memory already, as one page."""
    if events:
        yield events


def bytes_of(event: AnyEvent) -> int:
    """What an event takes in memory, by estimate."""
    if isinstance(event, RoundsLearned):
        return sum(table.values.nbytes for table in event.features)
    if isinstance(event, RoundRevealed | RoundLearned):
        return features_bytes(event.features)
    return len(getattr(event, "state", b""))


async def model_at(milestone: Milestone) -> Model | None:
    """The model as it was there; None if the event that makes it comes next."""
    return None if milestone.state is None else await model_of_bytes(milestone.state)


async def model_of_bytes(state: StateBytes) -> Model:
    return await in_thread_if(len(state) >= LARGE_BYTES, Model.from_bytes, state)


async def model_of(journal: Journal, milestone: Milestone) -> Model | None:
    """The same, also where the next event makes it; None if that no longer exists."""
    fold = Fold(await model_at(milestone), lambda model, recorded: True)
    if fold.model is None and (first := await journal.history(milestone, after=0, limit=1)):
        await fold.run_in_slices(once(first))
    return fold.model


LAG_SECONDS = 5.0
LOOK_AGAIN_SECONDS = 0.05
"""The servers of a cluster may not all have the newest events yet that a replica has applied."""


async def oldest_version(journal: Journal, model: Model) -> int:
    """The oldest version from which the history can be read; that of the model itself if there is none before."""
    milestone = await journal.milestone(model.name, None)
    then = None if milestone is None else await model_of(journal, milestone)
    return model.version if then is None else then.version


async def outcome_of(journal: Journal, name: str, seq: int) -> Outcome | None:
    """What came of a round, by a replay from the oldest milestone; None if it is not after that, or unknown."""
    milestone = await journal.milestone(name, None)
    if milestone is None or milestone.seq >= seq:
        return None
    found: Outcome | None = None
    is_astray = False

    def take(model: Model, recorded: Recorded) -> bool:
        nonlocal found, is_astray
        is_astray = _is_astray(model, recorded.event, is_astray)
        done = model.apply(recorded.event)
        if recorded.seq == seq and isinstance(done, Outcome) and not is_astray:
            found = done
        return recorded.seq >= seq

    with suppress(Trimmed):
        await Fold(await model_at(milestone), take).run_in_slices(pages(journal, milestone))
    return found


def _is_astray(model: Model, event: AnyEvent, was_astray: bool) -> bool:
    """Whether a replay is from this event on not what the model was: rounds were forgotten, and the rebuild for that,
    which says what it became without them, comes later."""
    if isinstance(event, RoundErased) and event.rounds:
        return True
    return was_astray and not (isinstance(event, ModelRebuilt) and model.rebuilt_by(event))


def step(model: Model, event: AnyEvent, version: int) -> bool:
    """Apply an event, or of a block the rounds up to a version. True if the model was at that version then and the
    next event would lead beyond it."""
    raised, left = rise_by(model, event), version - model.version
    if raised and not left:
        return True
    if raised <= left:
        model.apply(event)
        return False
    assert isinstance(event, RoundsLearned)
    model.apply(first_rounds(event, left))
    return True


def rise_by(model: Model, event: AnyEvent) -> int:
    """By how much an event raises the version of a model."""
    match event:
        case RoundsLearned():
            return len(event.labels)
        case RoundRevealed() | RoundLearned() | ModelReset() | ModelRolledBack():
            return 1
        case ModelFitted():
            return int(model.takes(event)) if event.rises is None else event.rises
        case ChallengerPromoted():
            return int(model.promotes(event)) if event.rises is None else event.rises
        case ModelRebuilt():
            return int(model.rebuilt_by(event) is not None)
        case RoundErased():
            return event.rounds
    return 0
