"""Mistakes over the last 100, 1,000 and 10,000 reveals, exactly.

The last 10,000 reveals are bits in a ring of 1,256 bytes; windows are counted when asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from service.learning import saved
from service.learning.statistics.rates import window
from service.learning.statistics.statistic import Asked, RevealedBlock

WINDOWS = {"last_100": 100, "last_1000": 1000, "last_10000": 10_000}
# Whole bytes are cleared as the ring comes round, so it holds a few bits more than are asked for.
RING_BYTES = max(WINDOWS.values()) // 8 + 6
RING_BITS = RING_BYTES * 8


class LastRounds(bytearray):
    """The ring of bits itself, 1 for a mistake, which grows as it fills: an object around it would be a burden to
    young models.

    >>> last = LastRounds()
    >>> for number, mistake in enumerate([True, False, True, True]):
    ...     last.observe(number, mistake)
    >>> [last.mistakes(4, count) for count in (1, 2, 3, 100)]
    [1, 2, 2, 3]
    """

    __slots__ = ()

    DEFINITIONS: ClassVar[Mapping[str, str]] = {
        "last_100, last_1000, last_10000": "Exactly the last so many reveals, or all of them if there are fewer."
    }

    def observe(self, number: int, mistake: bool) -> None:
        """Take in reveal `number`, counted from 0."""
        bit = number % RING_BITS
        if bit & 7:
            if mistake:
                self[bit >> 3] |= 1 << (bit & 7)
        elif bit >> 3 == len(self):
            self.append(mistake)
        else:
            self[bit >> 3] = mistake

    def observe_rows(self, block: RevealedBlock) -> None:
        done, mistaken = 0, block.mistaken
        while done < len(mistaken):
            bit = (block.revealed_before + done) % RING_BITS
            part = mistaken[done : done + RING_BITS - bit]
            at, held = bit >> 3, bit & 7
            before = np.unpackbits(np.frombuffer(self[at : at + 1], np.uint8), bitorder="little")[:held]
            packed = np.packbits(np.concatenate((before, part)), bitorder="little").tobytes()
            self[at : at + len(packed)] = packed
            done += len(part)

    def mistakes(self, revealed: int, last: int) -> int:
        """How many of the last `last` (at most 10,000) of `revealed` reveals were mistakes."""
        last = min(last, revealed)
        end = revealed % RING_BITS or min(revealed, RING_BITS)
        bits = int.from_bytes(self, "little")
        newest = bits & ((1 << end) - 1)
        if last <= end:
            return (newest >> (end - last)).bit_count()
        return newest.bit_count() + (bits >> (RING_BITS - (last - end))).bit_count()

    def report(self, asked: Asked) -> dict[str, Any]:
        revealed = asked.revealed
        return {
            "windows": {
                name: window(min(last, revealed), self.mistakes(revealed, last))
                for name, last in WINDOWS.items()
            }
        }

    def state(self) -> bytes:
        return bytes(self)

    @classmethod
    def restore(cls, state: bytes) -> LastRounds:
        return cls(saved.memory(state, "", RING_BYTES))

    def check(self, counted: Asked) -> None:
        revealed = counted.revealed
        saved.check(len(self) == min(-(-revealed // 8), RING_BYTES), "", f"must be a ring of {revealed} bits")
        begun = revealed % RING_BITS
        # The rest of a byte that has been begun is empty: later mistakes are added to it.
        saved.check(not begun % 8 or not self[begun >> 3] >> begun % 8, "", "must end where the rounds do")
        ones = int.from_bytes(self, "little").bit_count()
        least = counted.mistakes if revealed <= RING_BITS else 0
        saved.check(least <= ones <= counted.mistakes, "", "must have a bit for each mistake")
