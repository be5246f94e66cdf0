"""Large JSON answers in slices: never the whole text in memory, and others have their turns meanwhile."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import numpy as np

from service.learning.saved import Kept
from service.runtime.byte_budget import Reservation
from service.runtime.cooperative import Turns
from service.web.http.breaking_off import BreakingOff

SLICE_NUMBERS = 4_096

_encode = msgspec.json.Encoder().encode


class SlicedJson(BreakingOff):
    """A JSON answer that is encoded as it is sent."""

    def __init__(self, content: Any, room: Reservation | None = None) -> None:
        """`room`: what the content takes, released at its end."""
        super().__init__(in_turns(json_slices(content), room), media_type="application/json")


async def in_turns(parts: Iterator[bytes], room: Reservation | None = None) -> AsyncIterator[bytes]:
    """Parts of an answer, each made when the one before was sent; others have their turns in between.

    `room`: what it takes.
    """
    turns = Turns()
    try:
        for part in parts:
            yield part
            await turns.give()
    finally:
        if room is not None:
            room.release()


def json_slices(value: Any) -> Iterator[bytes]:
    """The JSON of a value in parts; arrays and kept rows in it are lists of numbers, and functions what they return.

    >>> b"".join(json_slices({"w": [Kept(np.array([0.5, 0.0]))], "n": {}, "i": np.arange(3), "f": lambda: [1]}))
    b'{"w":[[0.5,0.0]],"n":{},"i":[0,1,2],"f":[1]}'
    """
    if callable(value):
        yield _encode(value())
    elif isinstance(value, Kept | np.ndarray):
        yield from _numbers(value if isinstance(value, Kept) else Kept(value, as_is=True))
    elif isinstance(value, dict):
        yield from _joined(
            b"{", ((b",%s:" % _encode(key), part) for key, part in value.items()), b"}", bool(value)
        )
    elif isinstance(value, list) and (len(value) > SLICE_NUMBERS or _is_nested(value)):
        yield from _list(value)
    else:
        yield _encode(value)


def _list(value: list[Any]) -> Iterator[bytes]:
    """A list may be long, as that of names: it is looked through in slices, too."""
    yield b"["
    for start in range(0, len(value), SLICE_NUMBERS):
        some = value[start : start + SLICE_NUMBERS]
        if _is_nested(some):
            yield from _joined(b"," if start else b"", ((b",", part) for part in some), b"", True)
        else:
            yield (b"," if start else b"") + _encode(some)[1:-1]
    yield b"]"


def _is_nested(value: list[Any]) -> bool:
    return any(isinstance(part, dict | Kept | np.ndarray) for part in value)


def _joined(
    opening: bytes, parts: Iterator[tuple[bytes, Any]], closing: bytes, some: bool
) -> Iterator[bytes]:
    yield opening
    before = 1 if some else 0  # the first comma is left out
    for lead, part in parts:
        yield lead[before:]
        before = 0
        yield from json_slices(part)
    yield closing


def _numbers(kept: Kept) -> Iterator[bytes]:
    yield b"["
    for start in range(0, kept.size, SLICE_NUMBERS):
        text = _encode(kept.part(start, min(start + SLICE_NUMBERS, kept.size)).tolist())
        yield (b"," if start else b"") + text[1:-1]
    yield b"]"
