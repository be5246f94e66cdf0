"""The curve of mistakes, against the list of all cumulative counts."""

import random
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from service.learning.statistics.curve import Curve
from tests.learning.statistics.records import asked


def drawn(mistakes):
    curve, total, totals = Curve(), 0, [0]
    for number, mistake in enumerate(mistakes, 1):
        total += mistake
        totals.append(total)
        if number == curve.due:
            curve.observe(total, at_us=1000 * (number + 10**12))
    return curve, totals


@settings(deadline=None)
@given(st.integers(0, 5_000), st.integers(0, 2**32))
def test_every_point_is_true_and_the_present_is_the_last(length, seed):
    rng = random.Random(seed)
    curve, totals = drawn([rng.random() < 0.3 for _ in range(length)])
    report = curve.report(asked(revealed=length, mistakes=totals[-1]))["curve"]
    rounds = report["rounds"]
    assert report["mistakes"] == [totals[r] for r in rounds]
    times = [max(r, 1) + 10**12 for r in rounds]
    if length != curve.due - curve.stride or not length:
        times[-1] = None  # the present, between two points
    assert report["times"] == times
    assert rounds[0] == 0
    assert rounds[-1] == length
    steps = {b - a for a, b in pairwise(rounds[:-1])}
    assert steps <= {curve.stride}
    assert Curve.restore(curve.state()).report(asked(revealed=length, mistakes=totals[-1]))["curve"] == report


def test_the_curve_has_256_to_512_points_at_every_length():
    curve = Curve()
    for length in range(1, 4200):
        if length == curve.due:
            curve.observe(0, at_us=length)
        assert (
            min(length + 1, 256)
            <= len(curve.report(asked(revealed=length, mistakes=0))["curve"]["rounds"])
            <= 512
        )


def test_a_long_stream_of_mistakes_fits_too():
    length = 300_000
    curve, totals = drawn([True] * length)
    report = curve.report(asked(revealed=length, mistakes=length))["curve"]
    assert curve.stride == 1024
    assert report["mistakes"] == report["rounds"]
    assert 256 <= len(report["rounds"]) <= 512
    again = Curve.restore(curve.state())
    assert again.state() == curve.state()
    assert again.report(asked(revealed=length, mistakes=totals[-1]))["curve"] == report


def test_points_that_an_older_version_has_set_have_no_times_and_later_ones_have():
    for older in (1, 700):
        curve, _ = drawn([False] * older)
        again = Curve.restore(curve.state()[:4])
        report = again.report(asked(revealed=older, mistakes=0))["curve"]
        assert report["times"] == [None] * len(report["rounds"])
        while again.due <= 2 * older:
            again.observe(0, at_us=7_000)
        report = again.report(asked(revealed=again.due - again.stride, mistakes=0))["curve"]
        assert len(report["times"]) == len(report["rounds"])
        assert report["times"][0] is None and report["times"][-1] == 7
        assert Curve.restore(again.state()).state() == again.state()
    assert Curve.restore([1, 1, 0, []]).state() == Curve().state()


def test_times_of_years_fit_and_are_right_to_a_few_milliseconds():
    day_us, begin_us, curve = 86_400_000_000, 1_700_000_000_000_000, Curve()
    for number in range(500):
        curve.observe(0, at_us=begin_us + 7 * number * day_us)
    times = curve.report(asked(revealed=500, mistakes=0))["curve"]["times"]
    right = [(begin_us + 7 * max(0, number - 1) * day_us) // 1000 for number in range(501)]
    assert all(0 <= true - told < 128 for true, told in zip(right, times, strict=True))
    curve.observe(0, at_us=begin_us - day_us)  # a clock that is behind
    assert Curve.restore(curve.state()).state() == curve.state()
