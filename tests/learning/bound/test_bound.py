"""The mistake bound on streams whose separating plane is known, at any delay, with and without a bias."""

from math import inf, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.learning.bound.mistake_bound import Bound
from service.learning.bound.verdict import report as report_of
from tests.learning.known_planes import perceptron, separable
from tests.support.tiers import slow

ROUNDS = {0: 800, 1: 800, 10: 800, 100: 1200, 1000: 3000, "random": 1500}

planes = st.fixed_dictionaries(
    {
        "dimension": st.integers(1, 6),
        "radius": st.sampled_from([0.1, 1.0, 10.0, 100.0]),
        "offset": st.floats(-0.8, 0.8),
        "gap": st.floats(0.02, 0.2),
        "hard": st.booleans(),
    }
)


@pytest.mark.parametrize("late", ROUNDS)
@settings(deadline=None, max_examples=40)
@given(
    plane=planes,
    c=st.sampled_from([None, 0.1, 0.5, 1.0, 7.0, 100.0]),
    eta=st.sampled_from([0.1, 1.0, 3.0]),
    tie=st.sampled_from([-1, 1]),
    seed=st.integers(0, 2**32),
)
@pytest.mark.slow
def test_a_separable_stream_keeps_the_bound_and_its_margin_stays_below_the_ceiling(
    late, plane, c, eta, tie, seed
):
    plane = {**plane, "offset": 0.0 if c is None else plane["offset"]}
    xs, ys, u, b = separable(np.random.default_rng(seed), ROUNDS[late], **plane)
    margin = float(np.min(ys * (xs @ u + b)))
    bound = Bound(c, eta, margin)
    checked, last_ceiling = [], [inf]

    def check(w):
        report = report_of(bound, w, None)
        assert report["verdict"] in ("within", "unknown")
        if report["verdict"] == "within":
            assert bound.updates <= report["mistake_bound"] * (1 + 1e-9)
            assert report["used"] == bound.updates / report["mistake_bound"]
            assert report["margin_ceiling"] is None or report["margin_ceiling"] >= margin * (1 - 1e-9)
            assert report["margin_ceiling"] is None or report["margin_ceiling"] <= last_ceiling[-1]
            last_ceiling.append(report["margin_ceiling"] or inf)
            checked.append(report)

    w = perceptron(xs, ys, bound, c=c, eta=eta, late=late, tie=tie, seed=seed, check=check)
    check(w)
    assert checked


@settings(deadline=None, max_examples=40)
@given(
    plane=planes,
    c=st.sampled_from([None, 0.1, 1.0, 100.0]),
    eta=st.sampled_from([0.1, 2.0]),
    late=st.sampled_from([0, 10, "random"]),
    seed=st.integers(0, 2**32),
)
@pytest.mark.slow
def test_every_number_is_its_formula(plane, c, eta, late, seed):
    xs, ys, _, _ = separable(np.random.default_rng(seed), 300, **plane)
    gamma = 0.01
    stale, ceilings, seen, added = [], [inf], [], []

    class Recorded(Bound):
        def observe(self, x, y, **how):
            seen.append((np.linalg.norm(x), y))
            if how["updated"]:
                stale.append(how["stale_updates"])
                added.append(y * (x if c is None else np.append(x, c)))
            if stale and {y for _, y in seen} == {-1, 1}:
                R = max(length for length, _ in seen)
                k_max = 1.0 if c is None else 1 + R**2 / c**2
                ceilings.append(np.linalg.norm(np.sum(added, axis=0)) * sqrt(k_max) / len(stale))
            super().observe(x, y, **how)

    bound = Recorded(c, eta, gamma)
    w = perceptron(xs, ys, bound, c=c, eta=eta, late=late, seed=seed)
    report = report_of(bound, w, None)
    M, d = len(stale), np.mean(stale)
    R = max(np.linalg.norm(x) for x in xs)
    k_max = 1.0 if c is None else 1 + R**2 / c**2
    R_z_sq = R**2 if c is None else R**2 + c**2
    assert report["R"] == pytest.approx(R)
    assert report["weight_norm"] == pytest.approx(np.linalg.norm(w))
    assert report["margin_ceiling"] == pytest.approx(min(ceilings), abs=1e-6 * sqrt(R_z_sq))
    assert (report["gamma"], report["gamma_source"]) == (gamma, "declared")
    assert report["stale_updates_mean"] == pytest.approx(d)
    assert report["stale_updates_max"] == max(stale)
    assert report["mistake_bound"] == pytest.approx((1 + 2 * d) * R_z_sq * k_max / gamma**2)
    assert report["used"] == pytest.approx(M / report["mistake_bound"])


def test_the_classic_bound_is_false_for_late_reveals_where_ours_holds():
    rng = np.random.default_rng(1)
    u = np.eye(20)[0]
    xs = rng.normal(size=(6000, 20))
    xs /= np.linalg.norm(xs, axis=1)[:, None]
    xs = xs[np.abs(xs @ u) >= 0.05]
    ys = np.sign(xs @ u).astype(int)
    bound = Bound(None, 1.0, 0.05)
    w = perceptron(xs, ys, bound, late=1000)
    report = report_of(bound, w, None)
    classic = (report["R"] / 0.05) ** 2
    assert classic == pytest.approx(400)
    assert bound.updates > 1.2 * classic
    assert bound.updates <= report["mistake_bound"]
    assert report["verdict"] == "within"


def test_the_bound_for_a_bias_as_large_as_the_radius_is_false_for_a_bias_of_one_where_ours_holds():
    radius, gamma = 60.0, 10.0
    xs = np.tile([[radius], [radius - 2 * gamma]], (3000, 1))  # both classes far from the origin, on one side
    ys = np.tile([1, -1], 3000)
    bound = Bound(1.0, 1.0, gamma)
    w = perceptron(xs, ys, bound, c=1.0)
    report = report_of(bound, w, None)
    assert (2 * radius / gamma) ** 2 == 144
    assert bound.updates > 1000
    assert bound.updates <= report["mistake_bound"]
    assert report["verdict"] == "within"
    with_c_of_radius = Bound(radius, 1.0, gamma)
    w = perceptron(xs, ys, with_c_of_radius, c=radius)
    assert report_of(with_c_of_radius, w, None)["mistake_bound"] == pytest.approx(144)
    assert with_c_of_radius.updates <= 144


@pytest.mark.parametrize("c", [slow(None), 0.1, 1.0, slow(100.0)])
@pytest.mark.parametrize("late", [0, slow(10), 100])
def test_a_stream_that_is_not_separable_ends_exceeded(c, late):
    rng = np.random.default_rng(2)
    xs = np.repeat(rng.normal(size=(5, 2)), 2, axis=0)
    xs, ys = np.tile(xs, (600, 1)), np.tile([1, -1], 3000)  # each example with either label
    bound = Bound(c, 1.0, 1.0)
    w = perceptron(xs, ys, bound, c=c, late=late)
    report = report_of(bound, w, None)
    assert report["verdict"] == "exceeded"
    assert "declared" in report["why"]
    assert report["gamma"] > report["margin_ceiling"]


@settings(deadline=None, max_examples=300)
@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.integers(1, 6))
def test_a_margin_that_is_the_ceiling_but_for_rounding_is_not_exceeded(gamma, eta, dimension):
    direction = np.linspace(1.0, 2.0, dimension)
    xs = np.outer([-gamma, gamma], direction / np.linalg.norm(direction))  # one mistake, and it is tight
    bound = Bound(None, eta, gamma)
    w = perceptron(xs, np.array([-1, 1]), bound, eta=eta)
    report = report_of(bound, w, None)
    assert bound.updates == 1
    assert report["margin_ceiling"] == pytest.approx(gamma, rel=1e-12)
    assert report["verdict"] == "within"


@pytest.mark.parametrize(("above", "verdict"), [(5e-10, "within"), (1e-8, "exceeded")])
def test_a_declared_margin_may_be_rounded_itself(above, verdict):
    bound = Bound(None, 1.0, 1.0 + above)
    w = perceptron(np.array([[-1.0], [1.0]]), np.array([-1, 1]), bound)
    report = report_of(bound, w, None)
    assert (report["margin_ceiling"], report["verdict"]) == (pytest.approx(1.0, rel=1e-12), verdict)


def test_what_is_proved_once_stays_proved():
    bound = Bound(None, 1.0, 0.5)
    xs = np.array([[1.0, 0.0]] * 20 + [[0.0, 100.0]] + [[0.0, 1.0]] * 50)
    ys = np.array([1, -1] * 10 + [-1] + [-1] * 50)  # one x had both labels
    w = perceptron(xs[:20], ys[:20], bound)
    proved = report_of(bound, w, None)
    assert (proved["verdict"], w.tolist()) == ("exceeded", [-1.0, 0.0])
    assert 0.0 <= proved["margin_ceiling"] < 1e-6
    bound = Bound(None, 1.0, 0.5)
    w = perceptron(xs, ys, bound)
    assert w.tolist() == [-1.0, -100.0]
    report = report_of(bound, w, None)
    assert (report["verdict"], report["margin_ceiling"]) == ("exceeded", proved["margin_ceiling"])


@settings(deadline=None, max_examples=60)
@given(
    c=st.sampled_from([None, 0.1, 1.0, 100.0]),
    eta=st.sampled_from([1e-200, 0.1, 3.0]),
    late=st.sampled_from([0, 10]),
    declared=st.sampled_from([1e-3, 0.1, 0.5, 2.0]),
    seed=st.integers(0, 2**32),
)
def test_a_verdict_exceeded_is_for_ever_and_the_ceiling_never_rises(c, eta, late, declared, seed):
    rng = np.random.default_rng(seed)
    xs = rng.normal(size=(400, 3)) * 10 ** rng.uniform(-2, 2, size=(400, 1))
    bound = Bound(c, eta, declared)
    reports = []
    perceptron(xs, rng.choice([-1, 1], 400), bound, c=c, eta=eta, late=late, seed=seed,
               check=lambda w: reports.append(report_of(Bound.restore(bound.state(), w), w, None)))  # fmt: skip
    verdicts = [report["verdict"] for report in reports]
    assert verdicts == sorted(verdicts, key=["unknown", "within", "exceeded"].index)
    ceilings = [report["margin_ceiling"] for report in reports if report["margin_ceiling"] is not None]
    assert ceilings == sorted(ceilings, reverse=True)


# Where the numbers end


@pytest.mark.parametrize("eta", [1e-200, 1e-150, 1e-9, 1e6])
@pytest.mark.parametrize("c", [None, 1.0])
def test_the_rate_changes_no_verdict_and_no_ceiling(eta, c):
    xs, ys, _, _ = separable(np.random.default_rng(4), 300, 3, radius=1.0, offset=0.0, gap=0.1, hard=True)
    reports = []
    for rate in (1.0, eta):
        bound = Bound(c, rate, 0.05)
        w = perceptron(xs, ys, bound, c=c, eta=rate)
        reports.append(report_of(bound, w, None))
    assert [report["verdict"] for report in reports] == ["within", "within"]
    assert reports[0]["margin_ceiling"] == pytest.approx(reports[1]["margin_ceiling"], rel=1e-6)
    assert reports[0]["weight_norm"] == pytest.approx(reports[1]["weight_norm"] / eta)


@pytest.mark.parametrize(("size", "eta"), [(1e-170, 1.0), (1e-100, 1e-200), (1e-10, 1e-310), (1e200, 1.0)])
@pytest.mark.parametrize("declared", [1e-171, None])
def test_examples_too_small_or_too_large_to_square_prove_nothing(size, eta, declared):
    bound = Bound(None, eta, declared)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        w = perceptron(
            size * np.array([[-1.0], [1.0], [-2.0]] * 5), np.array([-1, 1, -1] * 5), bound, eta=eta
        )
    report = report_of(Bound.restore(bound.state(), w), w, None)
    assert report["verdict"] == "not_applicable"
    assert "too small or too large" in report["why"]
    assert report["margin_ceiling"] is report["mistake_bound"] is report["used"] is None


def test_small_examples_beside_a_bias_are_as_good_as_zeros():
    xs, ys = 1e-170 * np.array([[-1.0], [1.0]] * 20), np.array([-1, 1] * 20)
    bound = Bound(1.0, 1.0, 1e-171)
    report = report_of(bound, perceptron(xs, ys, bound, c=1.0), None)
    assert (report["verdict"], report["mistake_bound"]) == ("within", None)
