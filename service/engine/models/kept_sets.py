"""The sets of labels that whole rounds were served with, kept beside their outcomes for retries."""

from __future__ import annotations

import struct
from collections.abc import Mapping

UNIT = 8
"""What is kept is a row of numbers of 8 bytes each, as the outcomes are."""

SET_BYTES = 128
"""What a set takes in memory beside its bits: an entry of a dictionary, its key, and the head of its bytes."""


def set_bytes(classes: list[int]) -> int:
    """What a set takes in memory, by estimate.

    >>> set_bytes([]) == SET_BYTES, set_bytes([0, 63]) == SET_BYTES + 8, set_bytes([64]) == SET_BYTES + 16
    (True, True, True)
    """
    return SET_BYTES + UNIT * _units(max(classes) + 1 if classes else 0)


def _units(bits: int) -> int:
    return -(-bits // (8 * UNIT))


class KeptSets:
    """Sets of classes by the sequence numbers of their events, a bit for each class.

    >>> kept = KeptSets()
    >>> kept.add(7, [0, 2])
    >>> kept.add(9, [])
    >>> again = KeptSets()
    >>> again.read(kept.tobytes())
    >>> again.find(7), again.find(8), again.find(9)
    ([0, 2], None, [])
    """

    __slots__ = ("_bits", "size_bytes")

    def __init__(self) -> None:
        self._bits: dict[int, bytes] = {}
        self.size_bytes = 0
        """What they take in memory, by estimate."""

    def add(self, seq: int, classes: list[int]) -> None:
        bits = sum([1 << each for each in classes])
        self._add_bits(seq, bits.to_bytes(UNIT * _units(bits.bit_length()), "little"))

    def _add_bits(self, seq: int, bits: bytes) -> None:
        self._bits[seq] = bits
        self.size_bytes += SET_BYTES + len(bits)

    def find(self, seq: int) -> list[int] | None:
        """The set of one event; None if it has none."""
        kept = self._bits.get(seq)
        if kept is None:
            return None
        bits = int.from_bytes(kept, "little")
        return [each for each in range(bits.bit_length()) if bits >> each & 1]

    def renumbered(self, seqs: Mapping[int, int]) -> KeptSets:
        """The sets of the events in `seqs`, under the numbers that these have there."""
        chosen = KeptSets()
        for seq, bits in self._bits.items():
            if seq in seqs:
                chosen._add_bits(seqs[seq], bits)
        return chosen

    def tobytes(self) -> bytes:
        return b"".join(
            [struct.pack("<qq", seq, len(bits) // UNIT) + bits for seq, bits in self._bits.items()]
        )

    def read(self, kept: bytes) -> None:
        """Add what `tobytes` gave; ValueError if it did not."""
        at = 0
        while at < len(kept):
            if at + 2 * UNIT > len(kept):
                raise ValueError("a set of labels is cut off")
            seq, units = struct.unpack_from("<qq", kept, at)
            at += 2 * UNIT
            bits = kept[at : at + UNIT * units] if units >= 0 else b""
            if len(bits) != UNIT * units:
                raise ValueError("a set of labels is cut off")
            at += len(bits)
            self._add_bits(seq, bits)
