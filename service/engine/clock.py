"""Time for the journal, and ids that carry it."""

import logging
import os
import time
from collections.abc import Callable

from service.logs import Seldom

log = logging.getLogger(__name__)

AHEAD_MAX_US = 10_000_000
"""How far ahead the clock of another replica may be. Clocks that are kept right differ by far less."""

TOLD_EVERY_SECONDS = 60.0


class Clock:
    """Microseconds since 1970 that always rise, even when the machine's clock is set back.

    Where others append to the journal too, their clocks may be wrong. Then there is a clock to go by, `reference`, and
    a time of theirs counts for at most `AHEAD_MAX_US` more than that.
    """

    def __init__(self, reference: Callable[[], int] | None = None) -> None:
        self._last = 0
        self._reference = reference
        self._told = Seldom(TOLD_EVERY_SECONDS)

    def start_after(self, at: int) -> None:
        """Never give a time up to `at`, the newest in the journal."""
        if at > self._last:
            self._last = max(self._last, self._bounded(at, self._reference())) if self._reference else at

    def _bounded(self, at: int, now: int) -> int:
        ahead = at - now
        if ahead <= AHEAD_MAX_US:
            return at
        if (held_back := self._told.turn()) is not None:
            seconds = ahead // 1_000_000
            fields = {"seconds": seconds, "others": held_back}
            log.warning("an event is %d seconds ahead of the clocks here", seconds, extra=fields)
        return now + AHEAD_MAX_US

    def now(self) -> int:
        self._last = max(time.time_ns() // 1000, self._last + 1)
        return self._last


MADE_HERE = "~"
"""Between the time and the chance of an id of the service. Ids that clients choose cannot have it, so none of
them, however alike, is taken for one of the service's."""


def make_prediction_id(at: int) -> str:
    """An id that sorts by time and cannot be guessed: 48 bits of milliseconds, 80 of chance.

    >>> len(make_prediction_id(0)), make_prediction_id(5_000)[:13]
    (33, '000000000005~')
    """
    return f"{at // 1000:012x}{MADE_HERE}{_chance()}"


def make_job_id(at: int) -> str:
    """The same in hexadecimal digits only: nobody chooses the id of a job.

    >>> len(make_job_id(0)), make_job_id(5_000)[:12]
    (32, '000000000005')
    """
    return f"{at // 1000:012x}{_chance()}"


TIME_DIGITS = 12
CHANCE_DIGITS = 20
HEX_DIGITS = frozenset("0123456789abcdef")
DRAWN_AT_ONCE = 400
_drawn: list[str] = []


def _chance() -> str:
    """Twenty hexadecimal digits from the system, which is asked for many at a time: asking takes 4 µs."""
    if not _drawn:
        digits = os.urandom(CHANCE_DIGITS // 2 * DRAWN_AT_ONCE).hex()
        _drawn.extend(digits[at : at + CHANCE_DIGITS] for at in range(0, len(digits), CHANCE_DIGITS))
    return _drawn.pop()


def made_at(prediction_id: str) -> int | None:
    """When such an id was made, to the millisecond; None for an id that a client chose.

    Ids of version 0.1.0 have no `~` and are like chosen ones: the journal knows those that wait.

    >>> made_at(make_prediction_id(5_000_999)), made_at("order-17")
    (5000000, None)
    """
    time_made, mark, chance = prediction_id.partition(MADE_HERE)
    if not mark or not _has_hex_digits(time_made, TIME_DIGITS) or not _has_hex_digits(chance, CHANCE_DIGITS):
        return None
    return int(time_made, 16) * 1000


def _has_hex_digits(text: str, count: int) -> bool:
    """
    >>> _has_hex_digits("00ff", 4), _has_hex_digits("0_ff", 4), _has_hex_digits("00FF", 4)
    (True, False, False)
    """
    return len(text) == count and HEX_DIGITS.issuperset(text)
