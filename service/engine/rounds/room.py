"""Waiting for room in the journal's queue, for those who can wait: a stream is slowed down, not refused."""

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
    """Try again and again while there is no room for an event; whatever raises Overloaded has changed nothing.

    The others who want room are told to come again later, so each try is as likely to find some as theirs are.
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
