"""Waiting until a model has reached a version: what another replica has learned arrives a little later."""

import asyncio
from asyncio import Future
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from time import monotonic

from service.engine.fleet.live import Live
from service.errors import UnknownModel, VersionNotReached

WAIT_SECONDS = 5.0


class Versions:
    """Requests that wait for a model to change, woken by `changed`."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Future[None]]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._waiting

    def changed(self, name: str) -> None:
        for future in self._waiting.pop(name, ()):
            if not future.done():
                future.set_result(None)

    async def reach(
        self, get: Callable[[str], Awaitable[Live]], name: str, version: int, seconds: float
    ) -> None:
        """Wait until a model has reached a version; VersionNotReached after `seconds`. `get` loads the model."""
        deadline = monotonic() + seconds
        while True:
            # Listen first and look at the version then, so that no change in between is missed.
            with self._next_change(name) as change:
                live: Live | None
                try:
                    live = await get(name)
                except UnknownModel:
                    live = None
                with nullcontext() if live is None else live.pinned():
                    if live is not None and live.model.version >= version:
                        return
                    try:
                        await asyncio.wait_for(change, max(0.0, deadline - monotonic()))
                    except TimeoutError:
                        raise VersionNotReached(
                            f"the model {name!r} has not reached version {version} on this replica; try again later"
                        ) from None

    @contextmanager
    def _next_change(self, name: str) -> Iterator[Future[None]]:
        """A future that is done when a model has changed, from now on."""
        future: Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, []).append(future)
        try:
            yield future
        finally:
            waiting = self._waiting.get(name, [])
            if future in waiting:
                waiting.remove(future)
            if not waiting:
                self._waiting.pop(name, None)
