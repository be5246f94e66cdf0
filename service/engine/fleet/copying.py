"""Copies of large models, each of exactly one version, made beside the event loop.

A hundred megabytes take a tenth of a second to copy, since most of that memory is new. So it is done in a thread, and
no event is applied to the model meanwhile: those that are on their way are let in first, and new ones wait. Events of
other models go on, and so do predictions.
"""

import asyncio
from asyncio import Future
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

from service.engine.fleet.hold import Hold
from service.engine.fleet.live import Live
from service.engine.models.model import Model
from service.errors import UnknownModel
from service.journal.protocol import Journal

THREADS = 2
"""Of their own: a model is held up while it is copied, and `large_models` may be busy with a long replay."""

LOOK_SECONDS = 0.001
"""How often it is seen whether the events are applied that were on their way."""

T = TypeVar("T")

_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="copies")


class Copying:
    """Reads loaded models in a thread while nothing changes them."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._under_way: dict[str, Future[None]] = {}

    def under_way(self, name: str) -> Future[None] | None:
        """What has to be waited for before an event of a model is applied that others may have appended."""
        return self._under_way.get(name)

    async def read(self, live: Live, read: Callable[[Model], T]) -> T:
        """What a function reads of a model; UnknownModel if it is deleted before that."""

        async def reading() -> T:
            async with self.still(live):
                return await _in_thread(read, live.model)

        # Whoever asks may go away, but the model stays as it is until the thread has ended.
        return await asyncio.shield(asyncio.create_task(reading(), name="reading a large model"))

    @asynccontextmanager
    async def still(self, live: Live) -> AsyncIterator[None]:
        """While this lasts, no event is applied to a model; UnknownModel if it is deleted before that."""
        live.pins += 1
        try:
            async with Hold(live, to_read=True):
                if not self._journal.is_shared:
                    await self._let_in(live)
                if not is_loaded(live):
                    raise UnknownModel(f"the model {live.model.name!r} was deleted meanwhile")
                with self._keeping_others_out(live.model.name):
                    seq = live.seq
                    yield
                    if live.seq != seq:
                        raise RuntimeError(f"an event of {live.model.name} was applied while it was read")
        finally:
            live.pins -= 1

    async def state(self, live: Live) -> dict[str, Any]:
        """The state of a model that stands still."""
        return await _in_thread(Model.state, live.model)

    async def _let_in(self, live: Live) -> None:
        """Wait until all events that were begun are applied, or have failed; then for marks that these have left, of
        drifts and promotions."""
        for _ in ("events", "marks"):
            begun = (
                live.submitted
            )  # predictions are counted in it, too, and more of them may come at any time
            while self._journal.finished < begun:
                await asyncio.sleep(LOOK_SECONDS)

    @contextmanager
    def _keeping_others_out(self, name: str) -> Iterator[None]:
        done = self._under_way[name] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del self._under_way[name]
            done.set_result(None)


def is_loaded(live: Live) -> bool:
    return live.peers.get(live.model.name) is live


async def _in_thread(read: Callable[[Model], T], model: Model) -> T:
    return await asyncio.get_running_loop().run_in_executor(_threads, read, model)
