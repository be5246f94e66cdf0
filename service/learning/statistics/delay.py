"""How late labels come: a histogram of the time from prediction to reveal, in logarithmic buckets.

A bucket is an eighth of an octave of whole milliseconds, so a quantile is within 1/16 of the true one, or
within half a millisecond if that is more; a delay below a millisecond is reported as 0, one of more than 398
days as 398 days. The largest delay is exact. There are at most 264 buckets, 8 bytes for each that occurs.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any, ClassVar

from service.learning import saved
from service.learning.statistics.cells import COUNT_BITS, COUNT_MASK, add, no_cells, restore_cells
from service.learning.statistics.statistic import Asked, RevealedBlock

DELAY_MAX_MS = (1 << 35) - 1
BUCKETS = 264
QUANTILES = {"p50": 50, "p90": 90, "p99": 99}


def bucket_of(delay_ms: int) -> int:
    """The number of the bucket that holds a delay.

    >>> [bucket_of(ms) for ms in (0, 1, 15, 16, 17, 18, 31, 32)]
    [0, 1, 15, 16, 16, 17, 23, 24]
    """
    shift = delay_ms.bit_length() - 4
    return (shift << 3) + (delay_ms >> shift) if shift > 0 else delay_ms


def middle_ms(bucket: int) -> float:
    """The middle of a bucket's delays in milliseconds; 0 for the first.

    >>> [middle_ms(bucket) for bucket in (0, 1, 16, 24)]
    [0.0, 1.5, 17.0, 34.0]
    """
    if bucket < 16:
        return bucket + 0.5 if bucket else 0.0
    shift = (bucket >> 3) - 1
    return ((bucket & 7) + 8.5) * (1 << shift)


class Delay:
    """The distribution of label delays, in seconds, and the most updates that any label came late by."""

    __slots__ = ("cells", "longest_us", "updates_max")

    DEFINITIONS: ClassVar[Mapping[str, str]] = {
        "delay.seconds.p50, p90, p99": "The shortest delay from prediction to reveal that at least 50, 90, 99% of the "
        "reveals did not exceed, within 1/16 of its value or half a millisecond, whichever is more. Below a "
        "millisecond it is 0, above 398 days it is 398 days.",
        "delay.seconds.max": "The longest delay, exactly.",
        "delay.updates_max": "The most updates that came between any prediction and its reveal.",
    }

    def __init__(self) -> None:
        self.cells: array[int] = no_cells()
        self.longest_us = 0
        self.updates_max = 0

    def observe(self, delay_us: int, stale_updates: int, rounds: int = 1) -> None:
        """Count a reveal, or several that are alike. A clock that went backwards meanwhile gives a delay of 0."""
        if delay_us > self.longest_us:
            self.longest_us = delay_us
        if stale_updates > self.updates_max:
            self.updates_max = stale_updates
        delay_ms = min(delay_us // 1000, DELAY_MAX_MS)
        bucket = bucket_of(delay_ms) if delay_ms > 0 else 0
        if self.cells:
            add(self.cells, bucket, count=rounds)
        else:  # an array that is made with its first cell takes no room in advance: many models are young
            self.cells = array("Q", (bucket << COUNT_BITS | rounds,))

    def observe_rows(self, block: RevealedBlock) -> None:
        self.observe(0, 0, len(block.truths))

    def report(self, asked: Asked) -> dict[str, Any]:
        return {"delay": {"seconds": self.seconds(), "updates_max": self.updates_max if self.cells else None}}

    def seconds(self) -> dict[str, float | None]:
        """The delay at each quantile (the smallest that as many reveals did not exceed) and the longest."""
        total = sum([cell & COUNT_MASK for cell in self.cells])
        if not total:
            return {**dict.fromkeys(QUANTILES), "max": None}
        seconds: dict[str, float | None] = {}
        cells = iter(self.cells)
        bucket, below = 0, 0
        for name, percent in QUANTILES.items():
            while below * 100 < percent * total:
                cell = next(cells)
                bucket, below = cell >> COUNT_BITS, below + (cell & COUNT_MASK)
            seconds[name] = min(middle_ms(bucket) / 1e3, self.longest_us / 1e6)
        seconds["max"] = self.longest_us / 1e6
        return seconds

    def state(self) -> list[Any]:
        return [self.longest_us, self.updates_max, self.cells.tolist()]

    @classmethod
    def restore(cls, state: list[Any]) -> Delay:
        delay = cls()
        longest_us, updates_max, kept = saved.items(state, 3)
        delay.longest_us = saved.whole(longest_us, "[0]")
        delay.updates_max = saved.whole(updates_max, "[1]")
        delay.cells = restore_cells(kept, "[2]", BUCKETS, BUCKETS)
        if delay.cells:
            newest = bucket_of(min(delay.longest_us // 1000, DELAY_MAX_MS))
            saved.check(
                delay.cells[-1] >> COUNT_BITS == newest, "[0]", "must be in the bucket of the longest delays"
            )
        return delay

    def check(self, counted: Asked) -> None:
        total = sum([cell & COUNT_MASK for cell in self.cells])
        saved.check(total == counted.revealed, "[2]", f"must count {counted.revealed} rounds")
