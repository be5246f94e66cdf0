"""Times of events, and ids that begin with a time."""

import logging
import os
import time
from collections.abc import Callable

from service.logs import Seldom

log = logging.getLogger(__name__)

AHEAD_MAX_US = 10_000_000
"""How far ahead the clock of another replica may be. Clocks that are kept right differ by far less."""

LOG_EVERY_SECONDS = 60.0


class Clock:
    """Microseconds since 1970 that always rise, even when the machine's clock is set back.

    The clock of another replica may be wrong. So in a shared journal there is a `reference` (`Journal.time_us`), and
    the time of an event counts for at most `AHEAD_MAX_US` more than that.
    """

    def __init__(self, reference: Callable[[], int] | None = None) -> None:
        self._last = 0
        self._reference = reference
        self._log_limit = Seldom(LOG_EVERY_SECONDS)

    def start_after(self, at: int) -> None:
        """Never give a time up to `at`, the newest in the journal."""
        if at > self._last:
            self._last = max(self._last, self._bounded(at, self._reference())) if self._reference else at

    def _bounded(self, at: int, now: int) -> int:
        ahead = at - now
        if ahead <= AHEAD_MAX_US:
            return at
        if (held_back := self._log_limit.turn()) is not None:
            seconds = ahead // 1_000_000
            fields = {"seconds": seconds, "others": held_back}
            log.warning("an event is %d seconds ahead of the clocks here", seconds, extra=fields)
        return now + AHEAD_MAX_US

    def now(self) -> int:
        self._last = max(time.time_ns() // 1000, self._last + 1)
        return self._last


SERVER_MARK = "~"
"""Stands between the time and the random digits of an id that the service made. Ids that clients choose cannot have
it, so none of them is taken for one of the service's."""


def make_prediction_id(at: int) -> str:
    """An id that sorts by time and cannot be guessed: 48 bits of milliseconds, 80 random bits.

    >>> len(make_prediction_id(0)), make_prediction_id(5_000)[:13]
    (33, '000000000005~')
    """
    return f"{at // 1000:012x}{SERVER_MARK}{_random_digits()}"


def make_job_id(at: int) -> str:
    """The same without SERVER_MARK, which it does not need: clients choose no ids of jobs.

    >>> len(make_job_id(0)), make_job_id(5_000)[:12]
    (32, '000000000005')
    """
    return f"{at // 1000:012x}{_random_digits()}"


TIME_DIGITS = 12
RANDOM_DIGITS = 20
HEX_DIGITS = frozenset("0123456789abcdef")
POOL_SIZE = 400
_random_pool: list[str] = []


def _random_digits() -> str:
    """Twenty hexadecimal digits from `os.urandom`, which is asked for many at a time: a call takes 4 µs."""
    if not _random_pool:
        digits = os.urandom(RANDOM_DIGITS // 2 * POOL_SIZE).hex()
        _random_pool.extend(digits[at : at + RANDOM_DIGITS] for at in range(0, len(digits), RANDOM_DIGITS))
    return _random_pool.pop()


def made_at(prediction_id: str) -> int | None:
    """When the service made an id, to the millisecond; None for an id that a client chose.

    Ids made by version 0.1.0 have no `~` and count as chosen by a client.

    >>> made_at(make_prediction_id(5_000_999)), made_at("order-17")
    (5000000, None)
    """
    millis, mark, rest = prediction_id.partition(SERVER_MARK)
    if not mark or not _has_hex_digits(millis, TIME_DIGITS) or not _has_hex_digits(rest, RANDOM_DIGITS):
        return None
    return int(millis, 16) * 1000


def _has_hex_digits(text: str, count: int) -> bool:
    """
    >>> _has_hex_digits("00ff", 4), _has_hex_digits("0_ff", 4), _has_hex_digits("00FF", 4)
    (True, False, False)
    """
    return len(text) == count and HEX_DIGITS.issuperset(text)
