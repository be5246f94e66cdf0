"""When the error changed: ADWIN (Bifet and Gavaldà, 2007) on the stream of mistakes.

ADWIN keeps the stream since the last change and tests the ways of cutting it into an older and a newer
part. Of n rounds with variance v, n0 are older and n1 newer, each at least 5; the error has changed if the
parts' means differ by more than

    sqrt(2 m v t) + 2 m t / 3,    m = 1 / (n0 - 4) + 1 / (n1 - 4),    t = ln(2 ln(n) / delta).

Then it starts afresh. It tests every 32 rounds, at the borders of an exponential histogram: at most 5
buckets of each size 1, 2, 4, ... rounds, the two oldest of a size merging when a sixth comes.

Two facts make this cheap. The values are 0 and 1, so a bucket is a count of ones and v = p (1 - p). And the
window only grows until it is emptied, so the borders depend on n alone: at a multiple of 32 the buckets
below 32 rounds are the last 128 rounds, always cut in the same places. Hence 128 bits, and for what is
older buckets made of whole blocks of 32, touched once in 32 rounds.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from math import log, sqrt
from typing import Any, ClassVar

import numpy as np

from service.learning import saved
from service.learning.statistics.statistic import Asked, RevealedBlock

DELTA = 0.002
# A rise that would be a change if ten times the false alarms were allowed is worth a warning.
WARNING_FACTOR = 10.0
# The state stays `drift` for as many reveals as the window `last_1000` holds.
SHOWN_ROUNDS = 1000

BLOCK_ROUNDS = 32
PART_MIN = 5
BUCKETS_MAX = 5
FINE_BLOCKS = 4
FINE_ROUNDS = FINE_BLOCKS * BLOCK_ROUNDS
FINE_MASK = (1 << FINE_ROUNDS) - 1
BLOCK_MASK = (1 << BLOCK_ROUNDS) - 1
# From the newest: 4 buckets of 1 round, 4 of 2, 5 of 4, 4 of 8, 4 of 16; with a newer part of at least 5.
FINE_CUTS = [6, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128]
FINE_BYTES = (FINE_ROUNDS + BLOCK_ROUNDS) // 8
BLOCKS_MAX = BUCKETS_MAX * 40  # of each size up to 2^40 rounds
FINE_MASKS = [(newer, (1 << newer) - 1) for newer in FINE_CUTS]


def allowed(older: int, newer: int, variance: float, t: float) -> float:
    """By how much the means of two parts may differ before it is a change."""
    m = 1.0 / (older - PART_MIN + 1) + 1.0 / (newer - PART_MIN + 1)
    return sqrt(2.0 * m * variance * t) + 2.0 / 3.0 * t * m


class Drift:
    """Finds changes in the rate of mistakes. Only a rise counts as drift, but any change starts afresh.

    >>> drift = Drift()
    >>> [number for number in range(1, 400) if drift.observe(number > 200, number)]
    [224]
    """

    __slots__ = ("bits", "blocks", "count", "delta", "last_round", "ones", "rounds", "warning")

    DEFINITIONS: ClassVar[Mapping[str, str]] = {
        "drift.count": "How often the error was found to have risen. A fall starts ADWIN afresh too but is no drift.",
        "drift.last_round": "The number of the reveal at which the last rise was found.",
        "drift.delta": "δ: at most this part of the tests finds a change where there is none.",
        "drift.state": "`drift` for the 1,000 reveals from finding a rise on; else `warning` if the last test would "
        "have found a rise with 10 δ; else `stable`.",
    }

    def __init__(self, delta: float = DELTA) -> None:
        if not 0.0 < delta < 1.0:
            raise ValueError(f"delta must lie between 0 and 1, not be {delta}")
        self.delta = delta
        self.rounds = 0  # since the last change
        self.ones = 0  # as of the last multiple of 32
        self.bits = 0  # the last rounds, 128 or up to 31 more, the newest lowest
        self.blocks: array[int] | None = None  # the buckets of 32 rounds and more, oldest first
        self.warning = False
        self.count = 0
        self.last_round: int | None = None

    def observe(self, mistake: bool, revealed: int) -> bool:
        """Take in reveal number `revealed` (from 1); whether the error is found, with it, to have risen."""
        self.bits = self.bits << 1 | mistake
        self.rounds = rounds = self.rounds + 1
        return not rounds % BLOCK_ROUNDS and self._look(revealed)

    def observe_rows(self, block: RevealedBlock) -> None:
        """Take in the reveals, and add those at which the error has risen to `block.rises`."""
        done, mistakes = 0, block.mistaken
        while done < len(mistakes):
            part = mistakes[done : done + BLOCK_ROUNDS - self.rounds % BLOCK_ROUNDS]
            count = len(part)
            packed = int.from_bytes(np.packbits(part).tobytes(), "big") >> (-count % 8)
            self.bits = self.bits << count | packed
            self.rounds += count
            done += count
            if self.rounds % BLOCK_ROUNDS == 0:
                revealed = block.revealed_before + done
                if self._look(revealed):
                    block.rises.append(revealed)

    def _look(self, revealed: int) -> bool:
        """Test, and start afresh after a change; whether the error rose."""
        change = self._test()
        if not change:
            return False
        self.rounds = self.ones = self.bits = 0
        self.blocks = None
        self.warning = False
        if change < 0:
            return False
        self.count += 1
        self.last_round = revealed
        return True

    def _test(self) -> int:
        """Whether the error changed, at the newest cut that says so: 1 is a rise, -1 a fall, 0 neither."""
        rounds = self.rounds
        self.ones = ones = self.ones + (self.bits & BLOCK_MASK).bit_count()
        if rounds > FINE_ROUNDS:
            self._add_block((self.bits >> FINE_ROUNDS).bit_count())
            self.bits &= FINE_MASK
        self.warning = False
        mean = ones / rounds
        variance = mean * (1.0 - mean)
        t_change = log(2.0 * log(rounds) / self.delta)
        t_warning = _t_warning(rounds, self.delta)
        screen = _screen(mean, rounds, self.delta)
        newer_max = rounds - PART_MIN
        warning = False
        for newer, newer_ones in self._cuts():
            surplus = newer_ones - mean * newer
            older = rounds - newer
            if surplus * surplus > screen * newer * older and newer <= newer_max:
                difference = abs(surplus) * rounds / (newer * older)
                if difference > allowed(older, newer, variance, t_change):
                    return 1 if surplus > 0 else -1
                if surplus > 0 and difference > allowed(older, newer, variance, t_warning):
                    warning = True
        self.warning = warning
        return 0

    def _cuts(self) -> list[tuple[int, int]]:
        """The rounds and the ones of the newer part at each cut, from the newest."""
        cuts = [(newer, (self.bits & mask).bit_count()) for newer, mask in FINE_MASKS]
        newer, ones = cuts[-1]
        for size, bucket_ones in zip(*self._buckets(), strict=True):
            newer += size
            ones += bucket_ones
            cuts.append((newer, ones))
        return cuts

    def _buckets(self) -> tuple[list[int], list[int]]:
        """The sizes and the ones of the buckets of 32 rounds and more as of the last test, from the newest."""
        size, arrived = BLOCK_ROUNDS, self.rounds // BLOCK_ROUNDS - FINE_BLOCKS
        sizes: list[int] = []
        while arrived > 0:
            length = row_length(arrived)
            sizes += [size] * length
            arrived = (arrived - length) // 2
            size *= 2
        return sizes, self.blocks.tolist()[::-1] if self.blocks else []

    def _add_block(self, ones: int) -> None:
        """Add the ones of a block; where a row of buckets of one size is too long, merge its two oldest."""
        blocks = self.blocks
        if blocks is None:
            blocks = self.blocks = array("q")
        blocks.append(ones)
        arrived = self.rounds // BLOCK_ROUNDS - FINE_BLOCKS
        row_end = len(blocks)
        while arrived > BUCKETS_MAX and arrived % 2 == 0:
            oldest = row_end - BUCKETS_MAX - 1
            blocks[oldest] += blocks.pop(oldest + 1)
            row_end = oldest + 1
            arrived = (arrived - row_length(arrived)) // 2

    def state_at(self, revealed: int) -> str:
        """`drift` for 1,000 reveals after a rise, else `warning` if the last test was close, or `stable`."""
        if self.last_round is not None and revealed - self.last_round < SHOWN_ROUNDS:
            return "drift"
        return "warning" if self.warning else "stable"

    def report(self, asked: Asked) -> dict[str, Any]:
        state = self.state_at(asked.revealed)
        return {
            "drift": {"state": state, "count": self.count, "last_round": self.last_round, "delta": self.delta}
        }

    def state(self) -> list[Any]:
        bits = self.bits.to_bytes((self.bits.bit_length() + 7) // 8, "little")
        blocks = self.blocks.tolist() if self.blocks else []
        window = [self.delta, self.rounds, self.ones, bits, blocks]
        return [*window, self.warning, self.count, self.last_round]

    @classmethod
    def restore(cls, state: list[Any]) -> Drift:
        delta, rounds, ones, bits, blocks, warning, count, last_round = saved.items(state, 8)
        saved.check(type(delta) is float and 0.0 < delta < 1.0, "[0]", "must be a number between 0 and 1")
        drift = cls(delta)
        drift.rounds = saved.whole(rounds, "[1]", saved.ROUNDS_MAX)
        drift.ones = saved.whole(ones, "[2]", drift.rounds)
        drift.bits = int.from_bytes(saved.memory(bits, "[3]", FINE_BYTES), "little")
        kept = saved.wholes(blocks, "[4]", saved.ROUNDS_MAX, BLOCKS_MAX)
        drift.blocks = array("q", kept) if kept else None
        drift.warning = saved.truth(warning, "[5]")
        drift.count = saved.whole(count, "[6]", saved.ROUNDS_MAX)
        drift.last_round = None if last_round is None else saved.whole(last_round, "[7]", saved.ROUNDS_MAX, 1)
        drift._check_window()
        return drift

    def _check_window(self) -> None:
        """BadState unless bits, buckets and ones are those of a window of so many rounds."""
        begun = self.rounds % BLOCK_ROUNDS
        bits = min(self.rounds, FINE_ROUNDS + begun) if self.rounds > FINE_ROUNDS else self.rounds
        saved.check(self.bits >> bits == 0, "[3]", f"must have at most {bits} bits")
        sizes, ones = self._buckets()
        saved.check(
            len(sizes) == len(ones) and all(one <= size for one, size in zip(ones, sizes, strict=True)),
            "[4]",
            "must be a bucket for each part of the window",
        )
        fine = (self.bits >> begun).bit_count()
        saved.check(self.ones == sum(ones) + fine, "[2]", "must be the ones in bits and buckets")

    def check(self, counted: Asked) -> None:
        ones = self.ones + (self.bits & ((1 << self.rounds % BLOCK_ROUNDS) - 1)).bit_count()
        saved.check(self.rounds <= counted.revealed, "[1]", "must not be more than all rounds")
        saved.check(ones <= counted.mistakes, "[2]", "must not be more than all mistakes")
        last = self.last_round or 0
        saved.check(
            (self.count == 0) == (last == 0), "[7]", "must be the round of the last rise, if there was one"
        )
        saved.check(
            last + self.rounds <= counted.revealed, "[7]", "must be before the rounds since the last change"
        )
        saved.check(self.count * BLOCK_ROUNDS <= last, "[6]", "must be at most one in 32 rounds")


def _t_warning(rounds: int, delta: float) -> float:
    return log(2.0 * log(rounds) / min(1.0, WARNING_FACTOR * delta))


def _screen(mean: float, rounds: int, delta: float) -> float:
    """What screens out nearly all cuts.

    Since m > rounds / (newer * older), a difference can only be too large where the surplus of ones in the newer
    part, squared, exceeds this times newer * older.
    """
    return 2.0 * (mean * (1.0 - mean)) * _t_warning(rounds, delta) / rounds


def row_length(arrived: int) -> int:
    """How many buckets of a size remain once so many have arrived and each sixth has sent two on as one.

    >>> [row_length(arrived) for arrived in range(10)]
    [0, 1, 2, 3, 4, 5, 4, 5, 4, 5]
    """
    return arrived if arrived <= BUCKETS_MAX else BUCKETS_MAX - 1 + arrived % 2
