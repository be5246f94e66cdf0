"""Large states as bytes that are never in one piece.

To copy a hundred megabytes takes a tenth of a second, and so does to give them back. Done in one go that keeps the
interpreter, so the event loop stands still even if another thread does it. Here arrays are their own bytes, of which
pieces are copied as they are needed, and they are given back bit by bit.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from service.journal.codec import ARRAY, STATE_VERSION, array_kind, encode, encode_part
from service.runtime.cooperative import give_back

LARGE_BYTES = 65_536
"""Arrays of this size are not copied. So all lengths take four bytes, which is how MessagePack has it from here on."""

WHOLE_BYTES_MAX = 262_144
"""A state that takes no more, such as that of a large model whose weights are mostly 0, is one piece after all."""


class Pieces:
    """What `encode_state` makes of a state, to be read from its beginning as often as needed.

    The state belongs to this from now on.
    """

    __slots__ = ("_arrays", "_parts", "_size")

    def __init__(self, state: dict[str, Any], version: int = STATE_VERSION) -> None:
        self._arrays: list[np.ndarray[Any, Any]] = []
        self._parts: list[bytes | memoryview] = [bytes([version]), *self._of(state)]
        self._size = sum(map(len, self._parts))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[bytes | memoryview]:
        """All of it, in parts of any size."""
        return iter(self._parts)

    async def let_go(self) -> None:
        """Give the memory back, in slices. Nobody may read it meanwhile or after that."""
        self._parts.clear()
        await give_back(self._arrays)

    def _of(self, value: Any) -> Iterator[bytes | memoryview]:
        if isinstance(value, np.ndarray) and value.nbytes >= LARGE_BYTES:
            yield from self._of_array(value)
        elif isinstance(value, dict):
            yield _head(len(value), 0x80, 0xDE)
            for key, part in value.items():
                yield encode(key)
                yield from self._of(part)
        elif isinstance(value, list) and any(isinstance(part, dict | list | np.ndarray) for part in value):
            yield _head(len(value), 0x90, 0xDC)
            for part in value:
                yield from self._of(part)
        else:
            yield encode_part(value)

    def _of_array(self, array: np.ndarray[Any, Any]) -> Iterator[bytes | memoryview]:
        kind = array_kind(array)
        array = np.ascontiguousarray(array, dtype=kind)
        self._arrays.append(array)
        size = array.nbytes.to_bytes(4, "big")
        head = b"\x93" + encode(kind) + encode(array.shape) + b"\xc6" + size
        yield b"\xc9" + (len(head) + array.nbytes).to_bytes(4, "big") + bytes([ARRAY]) + head
        yield array.reshape(-1).view(np.uint8).data


def encode_large(state: dict[str, Any]) -> bytes | Pieces:
    """The bytes of a state that may be large."""
    pieces = Pieces(state)
    return pieces if len(pieces) > WHOLE_BYTES_MAX else b"".join(pieces)


def _head(count: int, few: int, many: int) -> bytes:
    """The beginning of a map or a list of so many.

    >>> _head(3, 0x80, 0xDE) + encode(1)
    b'\\x83\\x01'
    """
    if count < 16:
        return bytes([few | count])
    if count < 65_536:
        return bytes([many]) + count.to_bytes(2, "big")
    return bytes([many + 1]) + count.to_bytes(4, "big")


def parts_of(whole: bytes | Pieces) -> Iterable[bytes | memoryview]:
    return [whole] if isinstance(whole, bytes) else whole


def cut(whole: bytes | Pieces, size: int, end: bytes = b"") -> Iterator[bytes]:
    """Bytes, and what comes behind them, in pieces of one size, but for the last; of nothing, one empty piece.

    >>> list(cut(b"abcd", 2, b"e")), list(cut(b"", 2))
    ([b'ab', b'cd', b'e'], [b''])
    """
    piece = bytearray()
    for part in chain(parts_of(whole), [end]):
        view, start = memoryview(part), 0
        while start < len(view):
            taken = view[start : start + size - len(piece)]
            piece += taken
            start += len(taken)
            if len(piece) == size:
                yield bytes(piece)
                piece.clear()
    if piece or not len(whole) + len(end):
        yield bytes(piece)
