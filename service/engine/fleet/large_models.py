"""Models too large to handle on the event loop: they are read, copied and encoded in threads.

While a thread reads a model, a lock keeps it as it is: events on their way are applied first, and new ones wait. Events
of other models go on, and so do predictions. The arithmetic of numpy leaves the interpreter to the event loop.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

from service.engine.fleet.live import Live
from service.engine.models.model import Model
from service.engine.models.sizes import numbers_of
from service.errors import UnknownModel
from service.events import AnyEvent, ModelImported
from service.journal.protocol import Journal
from service.runtime.byte_budget import ByteBudget, Reservation

LARGE_NUMBERS = 131_072
"""A model with so many weights and variances is large. numpy works on arrays of that size without the interpreter's
lock. The steps of smaller models are short and need the lock all the time: in a thread they would keep it from the
loop for 5 ms whenever that has let go of it, so they are done on the loop, in slices."""

LARGE_BYTES = 8 * LARGE_NUMBERS
"""The same as a saved state."""

NAMES_MANY = 10_000

FEW_NUMBERS = 16_384
"""So many weights are sent at once; of more, the text is made as it is sent."""

THREADS = 2
"""Of each of two kinds: a model stays locked while it is read, and should not wait for the long replay of another."""

LOOK_SECONDS = 0.001
"""How often it is seen whether the events are applied that were on their way."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="large-models")
_reading_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="reading-large-models")


def is_large(model: Model) -> bool:
    return numbers_of(model) >= LARGE_NUMBERS


def takes_long_to_read(model: Model) -> bool:
    """Whether it is large, or has more names than are read in a millisecond."""
    return is_large(model) or (
        model.settings["features"]["kind"] == "named" and model.features.size() > NAMES_MANY
    )


def is_large_import(event: AnyEvent) -> bool:
    return isinstance(event, ModelImported) and len(event.state) >= LARGE_BYTES


class CopyReservation(Reservation):
    """Bytes of `copies_bytes_max` for the copy of a model from which an answer is made as its client takes it.

    A client may take its time. Without a limit, a few that read nothing would fill the memory with copies.
    """

    def __init__(self, copies: ByteBudget, size_of: Callable[[Model], int]) -> None:
        super().__init__(copies)
        self._size_of = size_of

    def take_for(self, model: Model) -> None:
        """Overloaded if there is too little. What stalled for another model is released."""
        self.release()
        if size := self._size_of(model):
            self.take(size, self._shares.tenants.of(model.name))


def copy_bytes(model: Model) -> int:
    """What a copy of all that a model is takes; 0 if it is not large."""
    numbers = numbers_of(model)
    return 8 * numbers if numbers >= LARGE_NUMBERS else 0


def weights_bytes(model: Model) -> int:
    """What a row of weights for each class takes; 0 if they are few."""
    numbers = model.features.size() * max(1, len(model.labels.values))
    return 8 * numbers if numbers > FEW_NUMBERS else 0


async def in_thread(function: Callable[[*Ts], T], *args: *Ts) -> T:
    """Call a function in a thread. Nothing else may change what it works on meanwhile."""
    return await asyncio.get_running_loop().run_in_executor(_threads, function, *args)


async def in_thread_if(is_large: bool, function: Callable[[*Ts], T], *args: *Ts) -> T:
    """The same of what is large; else at once."""
    return await in_thread(function, *args) if is_large else function(*args)


class ModelLock:
    """While it is held, no event of a model is begun here and nothing is predicted by it, unless it is only read."""

    def __init__(self, live: Live, *, to_read: bool = False) -> None:
        self._live = live
        self._to_read = to_read

    async def __aenter__(self) -> None:
        await self._live.released()
        self._live.held = asyncio.get_running_loop().create_future()
        self._live.is_only_read = self._to_read

    async def __aexit__(self, *_: object) -> None:
        held, self._live.held = self._live.held, None
        assert held is not None
        held.set_result(None)


async def free_to_predict(live: Live) -> None:
    """Wait while a model is locked, but not if it is only read."""
    while live.held is not None and not live.is_only_read:
        await asyncio.wait([live.held])


def is_loaded(live: Live) -> bool:
    return live.peers.get(live.model.name) is live


async def read_in_thread(
    live: Live, journal: Journal, read: Callable[[Model], T], then: Callable[[T], object] = lambda _: None
) -> T:
    """What a function reads of a model that nothing changes meanwhile; UnknownModel if it is deleted before that.

    `then` is called with it before the next event is applied.
    """

    async def reading() -> T:
        with live.pinned():
            async with ModelLock(live, to_read=True):
                if not journal.is_shared:  # else the journal waits for the lock before it applies an event
                    await _events_begun_are_applied(live, journal)
                if not is_loaded(live):
                    raise UnknownModel(f"the model {live.model.name!r} was deleted in the meantime")
                seq = live.seq
                found = await asyncio.get_running_loop().run_in_executor(_reading_threads, read, live.model)
                if live.seq != seq:
                    raise RuntimeError(f"an event of {live.model.name} was applied while the model was read")
                then(found)
                return found

    # The request may be cancelled, but the model stays locked until the thread has ended.
    return await asyncio.shield(asyncio.create_task(reading(), name="reading a large model"))


async def _events_begun_are_applied(live: Live, journal: Journal) -> None:
    """Wait until all events that were begun are applied, or have failed; then for marks that these have left, of drifts
    and promotions."""
    for _ in ("events", "marks"):
        begun = live.submitted  # which counts predictions too, and more of them may come at any time
        while journal.finished < begun:
            await asyncio.sleep(LOOK_SECONDS)
