"""Waiting for what should be so before long: as short as it takes, and never for ever."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

PATIENCE_SECONDS = 150.0
"""Far more than anything takes, also on a machine that has ten other things to do: it is for what never comes."""

FIRST_PAUSE_SECONDS = 0.02
PAUSE_SECONDS_MAX = 0.1


def eventually(
    what: Callable[[], bool],
    seconds: float = PATIENCE_SECONDS,
    *,
    otherwise: str | Path | Callable[[], str] = "it has not come so far",
    not_yet: type[Exception] | tuple[type[Exception], ...] = (),
    every: float | None = None,
) -> None:
    """Ask until it is so; after so many seconds an AssertionError with these words, those of a log, or those
    that are made then.

    Errors of the kinds `not_yet` mean just that. It asks `every` so many seconds, or else ever more seldom: a service
    that is asked fifty times in a second has less of a busy machine for what is waited for.
    """
    deadline = time.monotonic() + seconds
    pause = FIRST_PAUSE_SECONDS if every is None else every
    while not _so(what, not_yet):
        assert time.monotonic() < deadline, _words(otherwise)
        time.sleep(pause)
        if every is None:
            pause = min(1.2 * pause, PAUSE_SECONDS_MAX)


async def eventually_async(
    what: Callable[[], bool | Awaitable[bool]],
    seconds: float = PATIENCE_SECONDS,
    *,
    otherwise: str = "it has not come so far",
    every: float = 0.005,
) -> None:
    """The same, while other tasks go on."""
    deadline = time.monotonic() + seconds
    while not (told if isinstance(told := what(), bool) else await told):
        assert time.monotonic() < deadline, otherwise
        await asyncio.sleep(every)


def _so(what: Callable[[], bool], not_yet: type[Exception] | tuple[type[Exception], ...]) -> bool:
    try:
        return what()
    except not_yet:
        return False


def _words(otherwise: str | Path | Callable[[], str]) -> str:
    if isinstance(otherwise, str):
        return otherwise
    return otherwise.read_text() if isinstance(otherwise, Path) else otherwise()
