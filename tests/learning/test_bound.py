"""The mistake bound on streams whose separating plane is known, at any delay, with and without a bias."""

from math import inf, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.learning.bound import Bound

ROUNDS = {0: 800, 1: 800, 10: 800, 100: 1200, 1000: 3000, "random": 1500}


def reveal_order(rounds, late, rng):
    """For each moment, which prediction's label is revealed after that moment's prediction is made."""
    lateness = rng.integers(0, 400, rounds) if late == "random" else np.full(rounds, late)
    moments = [[] for _ in range(rounds + 1000)]
    for number in rng.permutation(rounds) if late == "random" else range(rounds):
        moments[number + lateness[number]].append(number)
    return moments


def perceptron(xs, ys, bound, *, c=None, eta=1.0, late=0, tie=1, seed=0, check=None):
    """The mistake-driven perceptron, its labels late; returns its weights."""
    zs = xs if c is None else np.column_stack([xs, np.full(len(xs), c)])
    norms_sq = np.add.reduce(xs * xs, axis=1)
    w, updates, served, seen_at = np.zeros(zs.shape[1]), 0, {}, {}
    for moment, revealed in enumerate(reveal_order(len(xs), late, np.random.default_rng(seed))):
        if moment < len(xs):
            score = float(np.add.reduce(w * zs[moment]))
            served[moment] = 1 if score > 0 else -1 if score < 0 else tie
            seen_at[moment] = updates
        for number in revealed:
            y = int(ys[number])
            mistake = served[number] != y
            stale = updates - seen_at[number]
            if mistake:
                w = w + eta * y * zs[number]
                updates += 1
            bound.observe(
                xs[number], norms_sq[number], y, updated=mistake, mistake=mistake, stale_updates=stale
            )
            if check is not None and number % 97 == 0:
                check(w)
    return w


def separable(rng, rounds, dimension, radius, offset, gap, hard):
    """Examples in a ball with the plane u·x + b = 0 through it, none nearer to it than a gap; and the plane.

    `hard` ones all lie at the gap, so that the perceptron errs on them for long.
    """
    u = rng.normal(size=dimension)
    u /= np.linalg.norm(u)
    b = offset * radius
    xs = rng.normal(size=(rounds, dimension))
    xs *= (radius * rng.random(rounds) ** 0.5 / np.linalg.norm(xs, axis=1))[:, None]
    ys = np.where(rng.random(rounds) < 0.5, 1, -1)
    distance = gap * radius * (np.ones(rounds) if hard else 1 + rng.exponential(size=rounds))
    xs += ((ys * distance) - (xs @ u + b))[:, None] * u
    return xs, ys, u, b


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
def test_a_separable_stream_keeps_the_bound_and_its_margin_stays_below_the_ceiling(
    late, plane, c, eta, tie, seed
):
    plane = {**plane, "offset": 0.0 if c is None else plane["offset"]}
    xs, ys, u, b = separable(np.random.default_rng(seed), ROUNDS[late], **plane)
    margin = float(np.min(ys * (xs @ u + b)))
    bound = Bound(c, eta, margin)
    checked = []

    def check(w):
        report = bound.report(w, None)
        assert report["verdict"] in ("within", "unknown")
        if report["verdict"] == "within":
            assert bound.updates <= report["mistake_bound"] * (1 + 1e-9)
            assert report["used"] == bound.updates / report["mistake_bound"]
            assert report["margin_ceiling"] is None or report["margin_ceiling"] >= margin * (1 - 1e-9)
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
def test_every_number_is_its_formula(plane, c, eta, late, seed):
    xs, ys, _, _ = separable(np.random.default_rng(seed), 300, **plane)
    gamma = 0.01
    stale = []

    class Recorded(Bound):
        def observe(self, x, norm_sq, y, **how):
            if how["mistake"]:
                stale.append(how["stale_updates"])
            super().observe(x, norm_sq, y, **how)

    bound = Recorded(c, eta, gamma)
    w = perceptron(xs, ys, bound, c=c, eta=eta, late=late, seed=seed)
    report = bound.report(w, None)
    M, d = len(stale), np.mean(stale)
    R = max(np.linalg.norm(x) for x in xs)
    k_max = 1.0 if c is None else 1 + R**2 / c**2
    R_z_sq = R**2 if c is None else R**2 + c**2
    assert report["R"] == pytest.approx(R)
    assert report["weight_norm"] == pytest.approx(np.linalg.norm(w))
    assert report["margin_ceiling"] == pytest.approx(np.linalg.norm(w) * sqrt(k_max) / (eta * M))
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
    report = bound.report(w, None)
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
    report = bound.report(w, None)
    assert (2 * radius / gamma) ** 2 == 144
    assert bound.updates > 1000
    assert bound.updates <= report["mistake_bound"]
    assert report["verdict"] == "within"
    with_c_of_radius = Bound(radius, 1.0, gamma)
    w = perceptron(xs, ys, with_c_of_radius, c=radius)
    assert with_c_of_radius.report(w, None)["mistake_bound"] == pytest.approx(144)
    assert with_c_of_radius.updates <= 144


@pytest.mark.parametrize("c", [None, 0.1, 1.0, 100.0])
@pytest.mark.parametrize("late", [0, 10, 100])
def test_a_stream_that_is_not_separable_ends_exceeded(c, late):
    rng = np.random.default_rng(2)
    xs = np.repeat(rng.normal(size=(5, 2)), 2, axis=0)
    xs, ys = np.tile(xs, (600, 1)), np.tile([1, -1], 3000)  # each example with either label
    bound = Bound(c, 1.0, 1.0)
    w = perceptron(xs, ys, bound, c=c, late=late)
    report = bound.report(w, None)
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
    report = bound.report(w, None)
    assert bound.updates == 1
    assert report["margin_ceiling"] == pytest.approx(gamma, rel=1e-12)
    assert report["verdict"] == "within"


def test_the_more_updates_the_more_rounding_is_allowed_for():
    bound = Bound(None, 1.0, 1.0)
    for x in (1.0, -1000.0):
        bound.observe(np.array([x]), x * x, int(np.sign(x)), updated=True, mistake=True, stale_updates=0)
    for updates, ceiling, verdict in [
        (10**12, 1.0 - 1e-7, "within"),
        (10**12, 1.0 - 1e-5, "exceeded"),
        (10**6, 1.0 - 1e-7, "exceeded"),
    ]:
        bound.updates = bound.mistakes = updates
        report = bound.report(np.array([ceiling * updates]), None)
        assert (report["verdict"], report["margin_ceiling"]) == (verdict, pytest.approx(ceiling, rel=1e-12))


def test_nothing_is_said_until_both_classes_have_been_revealed():
    bound = Bound(1.0, 1.0, 0.5)
    x = np.array([1.0, 0.0])
    assert bound.report(np.zeros(3), None)["R"] is None
    for _ in range(3):
        bound.observe(x, 1.0, -1, updated=True, mistake=True, stale_updates=0)
        report = bound.report(np.array([-1.0, 0.0, -1.0]), None)
        assert report["verdict"] == "unknown"
        assert report["why"] == "both classes must have been revealed"
        assert report["mistake_bound"] is report["used"] is report["margin_ceiling"] is None
        assert report["R"] == 1.0
        assert report["weight_norm"] == sqrt(2)
    bound.observe(-x, 1.0, 1, updated=False, mistake=False, stale_updates=0)
    assert bound.report(np.array([-1.0, 0.0, -1.0]), None)["verdict"] == "within"


def test_where_the_theorem_does_not_apply_it_says_why_and_claims_nothing():
    bound = Bound(1.0, 1.0, None)
    for y in (1, -1):
        bound.observe(np.array([float(y)]), 1.0, y, updated=True, mistake=True, stale_updates=3)
    report = bound.report(np.array([2.0, 0.0]), "the learner is pa1")
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
        "mistake_bound": None,
        "used": None,
    }
    assert bound.report(None, "the learner is pa1")["weight_norm"] is None


def test_before_the_first_mistake_there_is_no_ceiling_and_nothing_is_used():
    bound = Bound(None, 1.0, 0.5)
    for y in (1, -1):
        bound.observe(np.array([float(y)]), 1.0, y, updated=False, mistake=False, stale_updates=9)
    report = bound.report(np.zeros(1), None)
    assert (report["verdict"], report["mistake_bound"], report["used"]) == ("within", 4.0, 0.0)
    assert report["margin_ceiling"] is report["stale_updates_mean"] is report["stale_updates_max"] is None


def test_an_observed_margin_is_that_of_the_weights_and_uses_their_own_bias():
    rng = np.random.default_rng(3)
    xs, ys, _, _ = separable(rng, 400, dimension=3, radius=2.0, offset=0.3, gap=0.2, hard=False)
    c = 0.5
    bound = Bound(c, 1.0, None)
    w = perceptron(np.tile(xs, (20, 1)), np.tile(ys, 20), bound, c=c)
    report = bound.report(w, None)
    length = np.linalg.norm(w[:-1])
    gamma = min(ys[-64:] * (xs[-64:] @ w[:-1] + w[-1] * c)) / length
    k = 1 + (w[-1] * c / length) ** 2 / c**2
    assert gamma > 0
    assert (report["gamma_source"], report["gamma"]) == ("observed", pytest.approx(gamma))
    d = bound.stale_updates_sum / bound.mistakes
    assert report["mistake_bound"] == pytest.approx((1 + 2 * d) * (report["R"] ** 2 + c**2) * k / gamma**2)
    assert report["verdict"] == "within"
    assert report["why"] == "the margin is observed on the last 64 reveals only"


def test_an_observed_margin_that_the_stream_has_not_is_never_called_within():
    bound = Bound(None, 1.0, None)
    for number in range(500):  # contradictions at first
        bound.observe(np.array([1.0]), 1.0, (-1) ** number, updated=True, mistake=True, stale_updates=0)
    for number in range(64):
        y = (-1) ** number
        bound.observe(np.array([float(y)]), 1.0, y, updated=False, mistake=False, stale_updates=0)
    report = bound.report(np.array([1.0]), None)
    assert (report["verdict"], report["gamma"], report["mistake_bound"], report["used"]) == (
        "unknown",
        1.0,
        1.0,
        500.0,
    )
    assert report["why"] == "the margin is observed on the last 64 reveals only, the stream has less"


def test_without_a_margin_the_verdict_is_unknown():
    bound = Bound(1.0, 1.0, None)
    for y in (1, -1):
        bound.observe(np.array([1.0]), 1.0, y, updated=True, mistake=True, stale_updates=0)
    for weights in ([0.0, 0.0], [1.0, 0.0]):
        report = bound.report(np.array(weights), None)
        assert report["verdict"] == "unknown"
        assert report["why"] == "no margin is declared, and the weights do not separate the last 2 reveals"
        assert report["gamma"] is report["gamma_source"] is report["mistake_bound"] is None
    bound.observe(np.zeros(512), 0.0, 1, updated=False, mistake=False, stale_updates=0)
    assert "too large" in bound.report(np.zeros(513), None)["why"]


def test_numbers_too_large_to_square_are_not_reported_as_infinite():
    bound = Bound(1.0, 1.0, 0.5)
    for y in (1, -1):
        bound.observe(np.array([1e200]), inf, y, updated=True, mistake=True, stale_updates=0)
    report = bound.report(np.array([1e200, 1.0]), None)
    assert (report["verdict"], report["R"], report["weight_norm"]) == ("unknown", None, None)
    tiny = Bound(1e-300, 1.0, 1e-300)
    for y in (1, -1):
        tiny.observe(np.array([float(y)]), 1.0, y, updated=False, mistake=False, stale_updates=0)
    report = tiny.report(np.zeros(2), None)
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
            broken = Bound.restore(broken.state())
        for bound in (unbroken, broken):
            norm_sq = float(np.add.reduce(x * x))
            bound.observe(x, norm_sq, y, updated=mistake, mistake=mistake, stale_updates=stale)
    assert broken.state() == unbroken.state()
    w = rng.normal(size=4 + (c is not None))
    assert broken.report(w, None) == unbroken.report(w, None)


def test_settings_that_make_no_sense_are_refused():
    for settings_ in [(0.0, 1.0, None), (1.0, 0.0, None), (1.0, 1.0, -0.1), (None, inf, None)]:
        with pytest.raises(ValueError, match="positive"):
            Bound(*settings_)
