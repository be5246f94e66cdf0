"""Mistakes over the last 100, 1,000 and 10,000 reveals, and over the last minute, hour and day.

The last 10,000 reveals are bits in a ring of 1,256 bytes; windows are counted when asked for. Minute, hour and day are
by the times that the events carry. A reveal is held once and ages: it enters a bucket of one second; a second that is a
minute old joins its minute, a minute that is an hour old joins its half hour, a half hour that is a day old is
forgotten.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from operator import le, lt
from typing import Any, ClassVar

import numpy as np

from service.learning import saved
from service.learning.statistics.statistic import Asked, RevealedBlock, window

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


SECONDS_MAX = 60
MINUTES_MAX = 60
HALF_HOURS_MAX = 48
MINUTE_S = 60
HALF_HOUR_S = 1800

# A bucket's tally is rounds << 32 | mistakes: one number to add and to keep, for up to 2^31 reveals a bucket.
ROUND = 1 << 32
MISTAKES_MASK = ROUND - 1
TALLY_MAX = (1 << 63) - 1
SECOND_MAX = saved.COUNT_MAX // 1_000_000
AGEING_MAX = 4
"""A series may hold a few buckets more than its window has: they are looked at when a second ages."""


def add(series: array[int] | None, bucket: int, tally: int) -> array[int]:
    """The series of bucket, tally, bucket, tally, ..., ascending, with this added; made if there was none.

    >>> add(add(add(None, 7, 1), 5, 2), 7, 3).tolist()
    [5, 2, 7, 4]
    """
    if series is None:
        return array("q", (bucket, min(tally, TALLY_MAX)))
    at = len(series) - 2
    while at >= 0 and series[at] > bucket:
        at -= 2
    if at >= 0 and series[at] == bucket:
        series[at + 1] = min(series[at + 1] + tally, TALLY_MAX)
    else:
        series[at + 2 : at + 2] = array("q", (bucket, min(tally, TALLY_MAX)))
    return series


class TimeWindows:
    """Rounds and mistakes of the last minute, hour and day, in buckets of 1 second, 1 minute and 30 minutes.

    A window is the bucket that holds the moment asked about and the 59 (59, 47) before it: never older than
    its name says, and short of it by less than a bucket. Event times may go backwards: such a reveal joins
    its own bucket where the windows, as of the newest event, still hold that bucket, and is left out of
    them otherwise.
    """

    __slots__ = ("half_hours", "minutes", "second", "seconds", "tally")

    DEFINITIONS: ClassVar[Mapping[str, str]] = {
        "minute": "The reveals of this second and the 59 before, by the clock (buckets of 1 second).",
        "hour": "The reveals of this minute and the 59 before (buckets of 1 minute).",
        "day": "The reveals of this half hour and the 47 before (buckets of 30 minutes).",
    }

    def __init__(self) -> None:
        # The newest second is kept apart, so that a busy model touches one integer a reveal.
        self.second = 0
        self.tally = 0
        # Series are made when first needed: most models of a large fleet are young.
        self.seconds: array[int] | None = None
        self.minutes: array[int] | None = None
        self.half_hours: array[int] | None = None

    def observe(self, at_us: int, mistakes: int, rounds: int = 1) -> None:
        """Count a reveal, or several, at their event time."""
        second = at_us // 1_000_000
        tally = rounds * ROUND + mistakes
        if second == self.second:
            self.tally += tally
        elif not self.tally:
            self.second, self.tally = second, tally
        elif second > self.second:
            if self.seconds is None:
                self.seconds = array("q")
            self.seconds.append(self.second)
            self.seconds.append(min(self.tally, TALLY_MAX))
            self.second, self.tally = second, tally
            if second - self.seconds[0] >= SECONDS_MAX:
                self._age(self.seconds)
        elif self.second - second < SECONDS_MAX:
            self.seconds = add(self.seconds, second, tally)
        elif self.second // MINUTE_S - second // MINUTE_S < MINUTES_MAX:
            self.minutes = add(self.minutes, second // MINUTE_S, tally)
        elif self.second // HALF_HOUR_S - second // HALF_HOUR_S < HALF_HOURS_MAX:
            self.half_hours = add(self.half_hours, second // HALF_HOUR_S, tally)

    def observe_rows(self, block: RevealedBlock) -> None:
        self.observe(block.at_us, int(block.mistaken.sum()), len(block.mistaken))

    def _age(self, seconds: array[int]) -> None:
        """Move what has grown too old for its series on to the next."""
        newest, minutes, half_hours = self.second, self.minutes, self.half_hours
        while seconds and newest - seconds[0] >= SECONDS_MAX:
            minutes = add(minutes, seconds[0] // MINUTE_S, seconds[1])
            del seconds[:2]
        newest //= MINUTE_S
        while minutes and newest - minutes[0] >= MINUTES_MAX:
            half_hours = add(half_hours, minutes[0] * MINUTE_S // HALF_HOUR_S, minutes[1])
            del minutes[:2]
        newest = newest * MINUTE_S // HALF_HOUR_S
        while half_hours and newest - half_hours[0] >= HALF_HOURS_MAX:
            del half_hours[:2]
        self.minutes, self.half_hours = minutes, half_hours

    def windows(self, now_us: int) -> dict[str, tuple[int, int]]:
        """(rounds, mistakes) of each window, as of `now_us` or the newest event, whichever is later."""
        now = max(now_us // 1_000_000, self.second)
        starts = {
            "minute": now - SECONDS_MAX + 1,
            "hour": (now // MINUTE_S - MINUTES_MAX + 1) * MINUTE_S,
            "day": (now // HALF_HOUR_S - HALF_HOURS_MAX + 1) * HALF_HOUR_S,
        }
        held = [(self.second, self.tally)]
        for series, width_s in ((self.seconds, 1), (self.minutes, MINUTE_S), (self.half_hours, HALF_HOUR_S)):
            if series:
                held += [(series[at] * width_s, series[at + 1]) for at in range(0, len(series), 2)]
        answer = {}
        for name, start in starts.items():
            # A minute or half hour never straddles the start of a finer window: all that it holds had left
            # that window before it came there.
            tally = sum([tally for begins, tally in held if begins >= start])
            answer[name] = (tally >> 32, tally & MISTAKES_MASK)
        return answer

    def report(self, asked: Asked) -> dict[str, Any]:
        windows = self.windows(asked.now_us)
        return {"windows": {name: window(rounds, mistakes) for name, (rounds, mistakes) in windows.items()}}

    def state(self) -> list[Any]:
        series = (self.seconds, self.minutes, self.half_hours)
        return [self.second, self.tally, *(part.tolist() if part else [] for part in series)]

    @classmethod
    def restore(cls, state: list[Any]) -> TimeWindows:
        windows = cls()
        second, tally, *series = saved.items(state, 5)
        windows.second = saved.whole(second, "[0]", SECOND_MAX)
        windows.tally = saved.whole(tally, "[1]", TALLY_MAX)
        newest = (windows.second - 1, windows.second // MINUTE_S, windows.second // HALF_HOUR_S)
        most = (SECONDS_MAX, MINUTES_MAX + AGEING_MAX, HALF_HOURS_MAX + AGEING_MAX)
        for at in range(3):
            _check_series(series[at], f"[{at + 2}]", newest[at], most[at])
        windows.seconds, windows.minutes, windows.half_hours = [
            array("q", part) if part else None for part in series
        ]
        saved.check(
            not windows.seconds or windows.seconds[0] > windows.second - SECONDS_MAX,
            "[2]",
            "must be of the last minute",
        )
        return windows

    def check(self, counted: Asked) -> None:
        held = [self.tally]
        for series in (self.seconds, self.minutes, self.half_hours):
            held += series[1::2] if series else []
        rounds, mistakes = [tally >> 32 for tally in held], [tally & MISTAKES_MASK for tally in held]
        saved.check(sum(rounds) <= counted.revealed, "", "must not hold more than all rounds")
        saved.check(sum(mistakes) <= counted.mistakes, "", "must not hold more than all mistakes")
        saved.check(all(map(le, mistakes, rounds)), "", "must not have more mistakes than rounds in a bucket")
        saved.check(bool(self.tally >> 32) == bool(counted.revealed), "[1]", "must hold the latest rounds")


def _check_series(series: Any, place: str, newest: int, buckets_max: int) -> None:
    numbers = saved.wholes(series, place, TALLY_MAX, 2 * buckets_max)
    buckets, tallies = numbers[::2], numbers[1::2]
    saved.check(
        len(buckets) == len(tallies)
        and (not buckets or buckets[-1] <= newest)
        and all(map(lt, buckets, buckets[1:])),
        place,
        "must be ascending buckets, each with a tally, none later than the newest second",
    )
    saved.check(min(tallies, default=ROUND) >= ROUND, place, "must have a round in each bucket")
