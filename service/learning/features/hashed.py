"""Hashed features: any number of names in a fixed number of slots."""

from typing import Any

import mmh3
import numpy as np

from service.learning import saved
from service.learning.features.named import WithNames
from service.learning.vectors import Rows, Vector, Vectors


def slot_of(name: str, bits: int) -> tuple[int, float]:
    """Where a name goes among 2^bits slots, and with which sign.

    The slot is the low bits of MurmurHash3 (x86, 32 bits, seed 0) of the name in UTF-8, the sign its top
    bit: names that share a slot cancel out on average instead of adding up.

    >>> slot_of("age", 18)
    (165201, -1.0)
    """
    digest = mmh3.hash(name.encode(), 0, signed=False)
    return digest & ((1 << bits) - 1), 1.0 if digest >> 31 else -1.0


class Hashed(WithNames):
    """Names fall into 2^bits slots by their hash; nothing is learned about them, so memory never grows."""

    __slots__ = ("_bits", "_first")

    ignored_names = 0
    is_fixed = True

    def __init__(self, *, bits: int, text: frozenset[str], first: int) -> None:
        super().__init__(text)
        self._bits = bits
        self._first = first

    def vector(self, example: dict[str, float]) -> Vector:
        slots: dict[int, float] = {}
        for name, value in example.items():
            slot, sign = slot_of(name, self._bits)
            slots[slot] = slots.get(slot, 0.0) + sign * value
        places = np.fromiter(slots, dtype=np.intp, count=len(slots))
        return Vector(np.fromiter(slots.values(), np.float64, count=len(slots)), places + self._first)

    def vectors(self, rows: Rows) -> Vectors | None:
        slots = [slot_of(name, self._bits) for name in rows.names or ()]
        places = np.array([slot for slot, _ in slots], dtype=np.intp)
        if len(set(places.tolist())) < len(slots):  # two names in one slot are for `vector` to add up
            return None
        return Vectors(rows.values * np.array([sign for _, sign in slots]) + 0.0, places + self._first)

    def absorb(self, example: dict[str, float]) -> None:
        """A hash has nothing to learn."""

    def size(self) -> int:
        return self._first + (1 << self._bits)

    def name(self, index: int) -> int | str:
        return index - self._first

    def names_in(self, example: dict[str, float]) -> dict[int, str]:
        """Names that share a slot are given together, as one could not say which of them it was."""
        found: dict[int, str] = {}
        for name in example:
            place = self._first + slot_of(name, self._bits)[0]
            found[place] = f"{found[place]} | {name}" if place in found else name
        return found

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Any) -> None:
        saved.fields(state)
