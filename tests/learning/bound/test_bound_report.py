"""What the bound says when, and what it does not say; and that it survives a restart."""

from math import inf, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.learning.bound.mistake_bound import Bound
from service.learning.bound.verdict import report as report_of
from tests.learning.known_planes import perceptron, separable


def test_nothing_is_said_until_both_classes_have_been_revealed():
    bound = Bound(1.0, 1.0, 0.5)
    x = np.array([1.0, 0.0])
    assert report_of(bound, np.zeros(3), None)["R"] is None
    for _ in range(3):
        bound.observe(x, -1, updated=True, score=0.0, stale_updates=0)
        report = report_of(bound, np.array([-1.0, 0.0, -1.0]), None)
        assert report["verdict"] == "unknown"
        assert report["why"] == "both classes must have been revealed"
        assert report["mistake_bound"] is report["used"] is report["margin_ceiling"] is None
        assert report["R"] == 1.0
        assert report["weight_norm"] == sqrt(2)
    bound.observe(-x, 1, updated=False, score=0.0, stale_updates=0)
    assert report_of(bound, np.array([-1.0, 0.0, -1.0]), None)["verdict"] == "within"


def test_where_the_theorem_does_not_apply_it_says_why_and_claims_nothing():
    bound = Bound(1.0, 1.0, None)
    for y in (1, -1):
        bound.observe(np.array([float(y)]), y, updated=True, score=0.0, stale_updates=3)
    report = report_of(bound, np.array([2.0, 0.0]), "the learner is pa1")
    assert report == {
        "verdict": "not_applicable",
        "why": "the learner is pa1",
        "R": 1.0,
        "weight_norm": 2.0,
        "margin_ceiling": None,
        "gamma": None,
        "gamma_source": None,
        "stale_updates_mean": 3.0,
        "stale_updates_max": 3,
        "update_weight": 2.0,
        "mistake_bound": None,
        "used": None,
        "moved_at_least": None,
    }
    assert report_of(bound, None, "the learner is pa1")["weight_norm"] is None


def test_before_the_first_mistake_there_is_no_ceiling_and_nothing_is_used():
    bound = Bound(None, 1.0, 0.5)
    for y in (1, -1):
        bound.observe(np.array([float(y)]), y, updated=False, score=0.0, stale_updates=9)
    report = report_of(bound, np.zeros(1), None)
    assert (report["verdict"], report["mistake_bound"], report["used"]) == ("within", 4.0, 0.0)
    assert report["margin_ceiling"] is report["stale_updates_mean"] is report["stale_updates_max"] is None


def test_an_observed_margin_is_that_of_the_weights_and_uses_their_own_bias():
    rng = np.random.default_rng(3)
    xs, ys, _, _ = separable(rng, 400, dimension=3, radius=2.0, offset=0.3, gap=0.2, hard=False)
    c = 0.5
    bound = Bound(c, 1.0, None)
    w = perceptron(np.tile(xs, (20, 1)), np.tile(ys, 20), bound, c=c)
    report = report_of(bound, w, None)
    length = np.linalg.norm(w[:-1])
    gamma = min(ys[-64:] * (xs[-64:] @ w[:-1] + w[-1] * c)) / length
    k = 1 + (w[-1] * c / length) ** 2 / c**2
    assert gamma > 0
    assert (report["gamma_source"], report["gamma"]) == ("observed", pytest.approx(gamma))
    d = bound.stale_updates_sum / bound.updates
    assert report["mistake_bound"] == pytest.approx((1 + 2 * d) * (report["R"] ** 2 + c**2) * k / gamma**2)
    assert report["verdict"] == "within"
    assert report["why"] == "the margin is observed on the last 64 reveals only"


def test_an_observed_margin_that_the_stream_has_not_is_never_called_within():
    bound = Bound(None, 1.0, None)
    for number in range(500):  # contradictions at first
        bound.observe(np.array([1.0]), (-1) ** number, updated=True, score=0.0, stale_updates=0)
    for number in range(64):
        y = (-1) ** number
        bound.observe(np.array([float(y)]), y, updated=False, score=0.0, stale_updates=0)
    report = report_of(bound, np.array([1.0]), None)
    assert (report["verdict"], report["gamma"], report["mistake_bound"], report["used"]) == (
        "unknown",
        1.0,
        1.0,
        500.0,
    )
    assert report["why"] == "the margin is observed on the last 64 reveals only, the stream has less"


def test_an_observed_margin_above_the_ceiling_is_not_called_within_though_the_mistakes_are_few():
    bound = Bound(None, 1.0, None)
    xs = [[1.0, 0.0]] * 20 + [[0.0, 100.0]] + [[0.0, 10.0], [0.0, -10.0]] * 32
    w = perceptron(np.array(xs), np.array([1, -1] * 10 + [-1] + [-1, 1] * 32), bound)
    report = report_of(bound, w, None)
    assert (report["gamma"], report["used"]) == (pytest.approx(10, 1e-3), pytest.approx(0.2, 1e-3))
    assert report["margin_ceiling"] < 1e-6
    assert report["verdict"] == "unknown"
    assert report["why"] == "the margin is observed on the last 64 reveals only, the stream has less"


def test_what_an_earlier_version_kept_goes_on_from_the_ceiling_of_its_weights():
    rng = np.random.default_rng(9)
    xs, ys, _, _ = separable(rng, 300, dimension=3, radius=2.0, offset=0.3, gap=0.1, hard=True)
    bound = Bound(0.5, 2.0, 0.05)
    w = perceptron(xs, ys, bound, c=0.5, eta=2.0, late=10)
    old = bound.state()
    for name in ("sum_norm_sq", "ceiling"):
        del old[name]
    old["mistakes"] = old["updates"]
    restored = Bound.restore(old, w)
    now = np.linalg.norm(w / 2.0) * sqrt(1 + restored.norm_sq_max / 0.25) / bound.updates
    assert report_of(restored, w, None)["margin_ceiling"] == pytest.approx(now)
    assert restored.sum_norm_sq == pytest.approx(bound.sum_norm_sq)
    assert report_of(restored, w, None)["verdict"] == "within"
    untouched = Bound(0.5, 2.0, 0.05).state()
    for name in ("sum_norm_sq", "ceiling"):
        del untouched[name]
    assert Bound.restore(untouched, np.zeros(0)).state() == Bound(0.5, 2.0, 0.05).state()


def test_without_a_margin_the_verdict_is_unknown():
    bound = Bound(1.0, 1.0, None)
    for y in (1, -1):
        bound.observe(np.array([1.0]), y, updated=True, score=0.0, stale_updates=0)
    for weights in ([0.0, 0.0], [1.0, 0.0]):
        report = report_of(bound, np.array(weights), None)
        assert report["verdict"] == "unknown"
        assert report["why"] == "no margin is declared, and the weights do not separate the last 2 reveals"
        assert report["gamma"] is report["gamma_source"] is report["mistake_bound"] is None
    bound.observe(np.zeros(512), 1, updated=False, score=0.0, stale_updates=0)
    assert "too large" in report_of(bound, np.zeros(513), None)["why"]


def test_numbers_too_large_to_square_are_not_reported_as_infinite():
    bound = Bound(1.0, 1.0, 0.5)
    for y in (1, -1):
        with np.errstate(over="ignore"):
            bound.observe(np.array([1e200]), y, updated=True, score=0.0, stale_updates=0)
    report = report_of(bound, np.array([1e200, 1.0]), None)
    assert (report["verdict"], report["R"], report["weight_norm"]) == ("not_applicable", None, 1e200)
    tiny = Bound(1e-300, 1.0, 1e-300)
    for y in (1, -1):
        tiny.observe(np.array([float(y)]), y, updated=False, score=0.0, stale_updates=0)
    report = report_of(tiny, np.zeros(2), None)
    assert (report["verdict"], report["mistake_bound"], report["used"]) == ("within", None, None)


@settings(deadline=None, max_examples=30)
@given(
    declared=st.sampled_from([None, 0.3]),
    c=st.sampled_from([None, 2.0]),
    stop=st.integers(0, 150),
    seed=st.integers(0, 2**32),
)
def test_stopping_and_going_on_equals_never_having_stopped(declared, c, stop, seed):
    rng = np.random.default_rng(seed)
    reveals = [
        (rng.normal(size=4), int(rng.choice([-1, 1])), bool(rng.random() < 0.3), int(rng.integers(9)))
        for _ in range(150)
    ]
    unbroken, broken = Bound(c, 1.0, declared), Bound(c, 1.0, declared)
    for number, (x, y, mistake, stale) in enumerate(reveals):
        if number == stop:
            broken = Bound.restore(broken.state(), np.zeros(0))
        for bound in (unbroken, broken):
            bound.observe(x, y, updated=mistake, score=0.1, stale_updates=stale)
    assert broken.state() == unbroken.state()
    w = rng.normal(size=4 + (c is not None))
    assert report_of(broken, w, None) == report_of(unbroken, w, None)


def test_settings_that_make_no_sense_are_refused():
    for settings_ in [(0.0, 1.0, None), (1.0, 0.0, None), (1.0, 1.0, -0.1), (None, inf, None)]:
        with pytest.raises(ValueError, match="positive"):
            Bound(*settings_)
