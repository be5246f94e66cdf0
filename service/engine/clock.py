"""Time for the journal, and ids that carry it."""

import os
import time


class Clock:
    """Microseconds since 1970 that always rise, even when the machine's clock is set back."""

    def __init__(self) -> None:
        self._last = 0

    def start_after(self, at: int) -> None:
        """Never give a time up to `at`, the newest in the journal."""
        self._last = max(self._last, at)

    def now(self) -> int:
        self._last = max(time.time_ns() // 1000, self._last + 1)
        return self._last


def make_prediction_id(at: int) -> str:
    """An id that sorts by time and cannot be guessed: 48 bits of milliseconds, 80 of chance.

    >>> len(make_prediction_id(0)), make_prediction_id(5_000)[:12]
    (32, '000000000005')
    """
    return f"{at // 1000:012x}{_chance()}"


CHANCE_BYTES = 10
DRAWN_AT_ONCE = 400
_drawn: list[str] = []


def _chance() -> str:
    """Twenty hexadecimal digits from the system, which is asked for many at a time: asking takes 4 µs."""
    if not _drawn:
        digits = os.urandom(CHANCE_BYTES * DRAWN_AT_ONCE).hex()
        _drawn.extend(digits[at : at + 2 * CHANCE_BYTES] for at in range(0, len(digits), 2 * CHANCE_BYTES))
    return _drawn.pop()


def made_at(prediction_id: str) -> int | None:
    """When such an id was made, to the millisecond; None for an id that a client chose.

    >>> made_at(make_prediction_id(5_000_999)), made_at("order-17")
    (5000000, None)
    """
    if len(prediction_id) != 32:
        return None
    try:
        return (int(prediction_id, 16) >> 80) * 1000
    except ValueError:
        return None
