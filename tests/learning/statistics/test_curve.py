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
            curve.observe(total)
    return curve, totals


@settings(deadline=None)
@given(st.integers(0, 5_000), st.integers(0, 2**32))
def test_every_point_is_true_and_the_present_is_the_last(length, seed):
    rng = random.Random(seed)
    curve, totals = drawn([rng.random() < 0.3 for _ in range(length)])
    report = curve.report(asked(revealed=length, mistakes=totals[-1]))["curve"]
    rounds = report["rounds"]
    assert report["mistakes"] == [totals[r] for r in rounds]
    assert rounds[0] == 0
    assert rounds[-1] == length
    steps = {b - a for a, b in pairwise(rounds[:-1])}
    assert steps <= {curve.stride}
    assert Curve.restore(curve.state()).report(asked(revealed=length, mistakes=totals[-1]))["curve"] == report


def test_the_curve_has_256_to_512_points_at_every_length():
    curve = Curve()
    for length in range(1, 4200):
        if length == curve.due:
            curve.observe(0)
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
