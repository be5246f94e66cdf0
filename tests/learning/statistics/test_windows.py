"""Windows of reveals and of time, against lists of all that happened."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.learning.statistics.windows import LastRounds, TimeWindows

RINGS = {"minute": (1, 60), "hour": (60, 60), "day": (1800, 48)}
START_S = 1_700_000_000


class EveryEvent:
    """The definition: keep all events, and which of them came too late for which window."""

    def __init__(self):
        self.newest = None
        self.held = {name: [] for name in RINGS}

    def observe(self, at_us, mistake):
        second = at_us // 1_000_000
        self.newest = second if self.newest is None else max(self.newest, second)
        for name, (width, count) in RINGS.items():
            if self.newest // width - second // width < count:
                self.held[name].append((second, mistake))

    def windows(self, now_us):
        now = now_us // 1_000_000 if self.newest is None else max(now_us // 1_000_000, self.newest)
        answer = {}
        for name, (width, count) in RINGS.items():
            mistakes = [bad for second, bad in self.held[name] if now // width - second // width < count]
            answer[name] = (len(mistakes), sum(mistakes))
        return answer


def test_last_windows_count_exactly_what_a_list_counts():
    rng = random.Random(1)
    ring, mistakes = LastRounds(), []
    for number in range(31_000):  # three times round the ring
        mistake = rng.random() < 0.3
        ring.observe(number, mistake)
        mistakes.append(mistake)
        if number % 257 == 0 or 9_990 < number < 10_070:
            for last in (1, 100, 1000, 9_999, 10_000):
                assert ring.mistakes(len(mistakes), last) == sum(mistakes[-last:]), (number, last)
    assert len(ring) == 1256


@settings(deadline=None)
@given(st.lists(st.booleans(), max_size=60), st.integers(1, 10_000))
def test_a_window_longer_than_the_stream_counts_the_whole_stream(mistakes, last):
    ring = LastRounds()
    for number, mistake in enumerate(mistakes):
        ring.observe(number, mistake)
    assert ring.mistakes(len(mistakes), last) == sum(mistakes[-last:])


# Times at the edges of buckets and windows, where being off by one shows.
EDGES_S = [
    0,
    1,
    30,
    59,
    60,
    61,
    600,
    1740,
    1800,
    3540,
    3599,
    3600,
    3601,
    82_800,
    84_600,
    86_399,
    86_400,
    90_000,
]
steps_us = st.one_of(
    st.sampled_from(EDGES_S).flatmap(lambda s: st.sampled_from([s * 1_000_000, -s * 1_000_000])),
    st.integers(0, 3_000_000),
    st.integers(-100_000_000_000, 100_000_000_000),
)


@settings(deadline=None, max_examples=400)
@given(st.lists(st.tuples(steps_us, st.booleans()), max_size=80), st.lists(steps_us, max_size=4))
@pytest.mark.slow
def test_clock_windows_count_what_the_definition_counts_whichever_way_time_goes(events, waits_us):
    clock, oracle = TimeWindows(), EveryEvent()
    at_us = START_S * 1_000_000
    for step_us, mistake in events:
        at_us += step_us
        clock.observe(at_us, mistake)
        oracle.observe(at_us, mistake)
        assert clock.windows(at_us) == oracle.windows(at_us)
    for wait_us in waits_us:
        assert clock.windows(at_us + wait_us) == oracle.windows(at_us + wait_us)
    assert TimeWindows.restore(clock.state()).state() == clock.state()


def test_two_busy_days_fill_every_bucket_and_no_more():
    rng = random.Random(2)
    clock, oracle = TimeWindows(), EveryEvent()
    at_us = START_S * 1_000_000
    for number in range(40_000):
        at_us += rng.randrange(0, 9_000_000) if number < 39_000 else rng.randrange(0, 300_000)
        late_us = rng.choice([0, 0, 0, 30_000_000, 3_000_000_000, 80_000_000_000, 100_000_000_000])
        mistake = rng.random() < 0.2
        clock.observe(at_us - late_us, mistake)
        oracle.observe(at_us - late_us, mistake)
        if number % 4_001 == 0:
            assert clock.windows(at_us) == oracle.windows(at_us)
    assert clock.windows(at_us) == oracle.windows(at_us)
    assert clock.windows(at_us + 3_600_000_000) == oracle.windows(at_us + 3_600_000_000)
    for series, most in ((clock.seconds, 60), (clock.minutes, 61), (clock.half_hours, 48)):
        assert most - 8 <= len(series) // 2 <= most


def test_a_clock_that_saw_nothing_has_empty_windows():
    assert TimeWindows().windows(START_S * 1_000_000) == {"minute": (0, 0), "hour": (0, 0), "day": (0, 0)}
