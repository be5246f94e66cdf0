"""Label delays, against the sorted list of all of them."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.learning.statistics.delay import Delay, bucket_of, middle_ms
from tests.learning.statistics.records import asked

YEAR_US = 365 * 86_400 * 1_000_000
delays_us = st.one_of(
    st.integers(-10_000, 20_000), st.integers(0, 100_000_000), st.integers(0, YEAR_US), st.just(0)
)


def observed(delays):
    delay = Delay()
    for number, delay_us in enumerate(delays):
        delay.observe(delay_us, number % 7)
    return delay


@settings(deadline=None)
@given(st.lists(delays_us, min_size=1, max_size=300))
@example([0])
@example([999, 1000, 1001])
def test_quantiles_are_within_the_stated_error(delays):
    report = observed(delays).report(asked())["delay"]
    ordered = sorted(max(0, delay_us) for delay_us in delays)
    for name, percent in (("p50", 50), ("p90", 90), ("p99", 99)):
        rank = -(-percent * len(ordered) // 100)
        true_us = ordered[rank - 1]
        reported = report["seconds"][name]
        if true_us < 1000:
            assert reported == 0.0
        else:
            assert abs(reported - true_us / 1e6) <= max(true_us / 16e6, 0.0005) + 1e-12
        assert reported <= report["seconds"]["max"]
    assert report["seconds"]["max"] == ordered[-1] / 1e6
    assert report["updates_max"] == min(len(delays) - 1, 6)


@settings(deadline=None)
@given(st.integers(0, (1 << 35) - 1))
def test_a_bucket_holds_its_own_middle_and_buckets_follow_the_order(delay_ms):
    bucket = bucket_of(delay_ms)
    assert bucket_of(int(middle_ms(bucket))) == bucket
    assert bucket <= bucket_of(delay_ms + 1) <= bucket + 1


@settings(deadline=None)
@given(st.lists(st.integers(0, 200 * YEAR_US), max_size=200))
def test_state_is_bounded_and_restores(delays):
    delay = observed(delays)
    assert len(delay.cells) <= 264
    assert Delay.restore(delay.state()).state() == delay.state()
    assert Delay.restore(delay.state()).report(asked())["delay"] == delay.report(asked())["delay"]


def test_delays_of_centuries_are_reported_as_398_days_at_most_but_the_largest_is_exact():
    report = observed([500 * YEAR_US]).report(asked())["delay"]
    assert 397 * 86_400 * 15 / 16 <= report["seconds"]["p50"] <= 398 * 86_400
    assert report["seconds"]["max"] == 500 * YEAR_US / 1e6


def test_no_reveal_no_delay():
    nothing = {"seconds": {"p50": None, "p90": None, "p99": None, "max": None}, "updates_max": None}
    assert Delay().report(asked())["delay"] == nothing
