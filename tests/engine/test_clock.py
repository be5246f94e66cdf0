"""Time that rises, and is not taken along by whoever else's clock is wrong."""

import time

import pytest

from service.engine.clock import AHEAD_MAX_US, Clock

HOUR_US = 3_600_000_000


def now_us() -> int:
    return time.time_ns() // 1000


def test_an_own_journal_is_always_followed() -> None:
    clock = Clock()
    ahead = now_us() + 1_000 * HOUR_US
    clock.start_after(ahead)
    assert [clock.now(), clock.now()] == [ahead + 1, ahead + 2]


def test_a_time_of_others_counts_up_to_a_bound_and_is_told_seldom(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock(now_us)
    clock.start_after(now_us() + AHEAD_MAX_US // 2)
    assert clock.now() > now_us() + AHEAD_MAX_US // 4 and not caplog.records
    for hours in range(1, 100):
        before = clock.now()
        clock.start_after(now_us() + hours * HOUR_US)
        assert before < clock.now() < now_us() + AHEAD_MAX_US + 1_000_000
    (told,) = caplog.messages
    assert "seconds ahead" in told


def test_a_machine_that_is_behind_is_taken_along_to_the_time_of_the_cluster() -> None:
    clock = Clock(lambda: now_us() + HOUR_US)
    seen = now_us() + HOUR_US
    clock.start_after(seen)
    assert clock.now() == seen + 1
