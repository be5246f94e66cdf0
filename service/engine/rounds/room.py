"""Waiting for room in the journal's queue: a stream is slowed down where a single request would get 503."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeVar

from service.errors import Overloaded, TooManyPending

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
