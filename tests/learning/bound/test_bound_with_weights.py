"""The mistake bound with weights of reveals: it never lies, at any delay, and each number is its formula."""

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.learning.bound.mistake_bound import Bound
from service.learning.bound.verdict import report as report_of
from tests.learning.bound.test_bound import ROUNDS, planes
from tests.learning.known_planes import perceptron, separable

WEIGHTS = {
    "halves and twos": lambda rng, count: rng.choice([0.5, 1.0, 2.0], count),
    "a few that are large": lambda rng, count: np.where(rng.random(count) < 0.02, 1000.0, 1.0),
    "from small to large": lambda rng, count: 10.0 ** rng.uniform(-6, 6, count),
    "small ones, then large ones": lambda rng, count: np.where(np.arange(count) < count // 2, 1e-3, 1e3),
    "all the largest": lambda rng, count: np.full(count, 1e12),
}


@pytest.mark.parametrize("late", ROUNDS)
@settings(deadline=None, max_examples=15)
@given(
    plane=planes,
    weights=st.sampled_from(sorted(WEIGHTS)),
    c=st.sampled_from([None, 0.1, 1.0, 100.0]),
    eta=st.sampled_from([0.1, 1.0, 3.0]),
    seed=st.integers(0, 2**32),
)
@pytest.mark.slow
def test_the_bound_never_lies_with_weights_and_delays(late, plane, weights, c, eta, seed):
    plane = {**plane, "offset": 0.0 if c is None else plane["offset"]}
    rng = np.random.default_rng(seed)
    xs, ys, u, b = separable(rng, ROUNDS[late], **plane)
    margin = float(np.min(ys * (xs @ u + b)))
    bound, observed = Bound(c, eta, margin), Bound(c, eta, None)
    ceilings = [inf]

    class Both:
        def observe(self, x, y, **how):
            bound.observe(x, y, **how)
            observed.observe(x, y, **how)

    def check(w):
        report = report_of(Bound.restore(bound.state(), w), w, None)
        assert report["verdict"] in ("within", "unknown")
        assert report_of(observed, w, None)["verdict"] in ("within", "unknown")
        if report["verdict"] == "within" and report["mistake_bound"] is not None and bound.updates:
            assert bound.weight <= report["mistake_bound"] * (1 + 1e-9)
            assert report["margin_ceiling"] >= margin * (1 - 1e-9)
            assert report["margin_ceiling"] <= ceilings[-1]
            ceilings.append(report["margin_ceiling"])

    w = perceptron(
        xs,
        ys,
        Both(),
        c=c,
        eta=eta,
        late=late,
        seed=seed,
        check=check,
        weights=WEIGHTS[weights](rng, len(xs)),
    )
    check(w)
    assert len(ceilings) > 1


@settings(deadline=None, max_examples=40)
@given(
    plane=planes,
    c=st.sampled_from([None, 1.0, 100.0]),
    late=st.sampled_from([0, 10, "random"]),
    seed=st.integers(0, 2**32),
)
def test_every_number_of_the_bound_with_weights_is_its_formula(plane, c, late, seed):
    rng = np.random.default_rng(seed)
    xs, ys, _, _ = separable(rng, 300, **plane)
    weights, gamma, seen = rng.choice([0.25, 1.0, 7.0], 300), 0.01, []

    class Recorded(Bound):
        def observe(self, x, y, **how):
            if how["updated"]:
                seen.append((how["weight"], how["stale_weight"]))
            super().observe(x, y, **how)

    bound = Recorded(c, 0.5, gamma)
    report = report_of(
        bound, perceptron(xs, ys, bound, c=c, eta=0.5, late=late, seed=seed, weights=weights), None
    )
    h, stale = np.array(seen).T
    R_sq = max(x @ x for x in xs)
    k_max, R_z_sq = (1.0, R_sq) if c is None else (1 + R_sq / c**2, R_sq + c**2)
    growth = float(np.sum(h**2 + 2 * h * stale) / np.sum(h))
    assert report["update_weight"] == pytest.approx(np.sum(h))
    assert report["mistake_bound"] == pytest.approx(k_max * R_z_sq * growth / gamma**2)
    assert report["used"] == pytest.approx(np.sum(h) / report["mistake_bound"])


def test_weights_of_1_leave_the_bound_as_no_weights_do():
    xs, ys, _, _ = separable(np.random.default_rng(3), 500, 3, radius=1.0, offset=0.2, gap=0.05, hard=True)
    without, with_them = Bound(1.0, 1.0, None), Bound(1.0, 1.0, None)
    perceptron(xs, ys, without, c=1.0, late=10)
    perceptron(xs, ys, with_them, c=1.0, late=10, weights=np.ones(500))
    assert with_them.state() == without.state()
