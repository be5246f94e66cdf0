"""The intervals hold at all times at once."""

from math import log, sqrt

import numpy as np
import pytest

from service.learning.certainty.anytime import boundary, interval, interval_of_share

ZETA = 3.1055472779775806
"""ζ(1.4), from tables."""
STREAMS = 1000
ROUNDS = 1000


def by_the_paper(v, alpha, c, m=10.0, eta=2.0, s=1.4):
    """Howard and others 2021, equation 10, written down once more."""
    v = max(v, m)
    ell = s * log(log(eta * v / m)) + log(ZETA / (alpha * log(eta) ** s))
    k1 = (eta**0.25 + eta**-0.25) / sqrt(2)
    k2 = (sqrt(eta) + 1) / 2
    return sqrt(k1**2 * v * ell + (k2 * c * ell) ** 2) + k2 * c * ell


@pytest.mark.parametrize("v", [0.0, 1.0, 10.0, 100.0, 1e6])
@pytest.mark.parametrize("alpha", [0.2, 0.05, 1e-4])
@pytest.mark.parametrize("c", [1.0, 2.0, 64.0])
def test_the_boundary_is_that_of_the_paper(v, alpha, c):
    assert boundary(v, alpha, scale=c) == pytest.approx(by_the_paper(v, alpha, c), rel=1e-7)
    assert boundary(v, alpha, scale=c) >= by_the_paper(v, alpha, c), "rounded up, not down"


def test_the_boundary_gives_the_figure_that_the_authors_publish():
    assert boundary(100.0, 0.05, scale=3.0) == pytest.approx(64.48755, abs=1e-5)


def chances(kind, rng):
    """The chance of a mistake in each round of a stream, or what an adversary makes of the rounds so far."""
    if kind == "stationary":
        return np.full(ROUNDS, rng.choice([0.01, 0.1, 0.5]))
    if kind == "drifting":
        return np.clip(np.cumsum(rng.normal(0, 0.02, ROUNDS)) + rng.uniform(0.05, 0.6), 0.0, 1.0)
    return None


LAMBDAS = np.array(
    [0.004 * 1500 ** (i / 63) for i in range(64)] + [1e-7 * 4e4 ** (i / 32) for i in range(32)]
)
WEIGHTS = np.array([0.9 / 64] * 64 + [0.1 / 32] * 32)


def log_mixture(hits, rounds, m, sign):
    """The logarithm of the mixture of martingales at means m: one for each row of these arrays."""
    hits, rounds, m = (np.asarray(column, dtype=float)[:, None] for column in (hits, rounds, m))
    terms = np.log(WEIGHTS) + sign * LAMBDAS * hits - rounds * np.log1p(m * np.expm1(sign * LAMBDAS))
    return np.logaddexp.reduce(terms, axis=1)


def is_held(hits, rounds, m, confidence):
    level = log(2 / (1 - confidence))
    return (log_mixture(hits, rounds, m, 1) < level) & (log_mixture(hits, rounds, m, -1) < level)


@pytest.mark.parametrize(
    ("hits", "rounds"), [(0, 1), (1, 1), (1, 2), (0, 50), (3, 100), (70, 100), (90, 1000)]
)
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.9999])
def test_the_interval_of_a_share_holds_the_means_at_which_both_mixtures_are_small(hits, rounds, confidence):
    low, high = interval_of_share(hits, rounds, confidence)
    assert 0 <= low <= hits / rounds <= high <= 1
    means = np.linspace(0.0005, 0.9995, 1000)
    held = is_held(np.full(1000, hits), np.full(1000, rounds), means, confidence)
    assert (held == ((low < means) & (means < high))).all()


@pytest.mark.parametrize("kind", ["stationary", "drifting", "adversarial"])
@pytest.mark.thorough
def test_the_true_mean_is_seldom_outside_although_one_looks_after_every_round(kind):
    """An adversary sees all that came before, and makes mistakes likelier just when there have been many."""
    rng = np.random.default_rng(7)
    rounds = np.arange(1, ROUNDS + 1)
    missed = 0
    for _ in range(STREAMS):
        planned = chances(kind, rng)
        draws = rng.random(ROUNDS)
        if planned is None:
            planned = np.empty(ROUNDS)
            ahead = 0.0
            for t in range(ROUNDS):
                planned[t] = 0.9 if ahead > 0 else 0.1
                ahead += (draws[t] < planned[t]) - planned[t]
        mistakes = np.cumsum(draws < planned)
        missed += not is_held(mistakes, rounds, np.cumsum(planned) / rounds, 0.95).all()
    assert missed <= 0.05 * STREAMS


def test_the_interval_of_a_share_is_much_narrower_than_by_the_boundary():
    for share, widths in ((0.02, (0.104, 0.196)), (0.1, (0.202, 0.279)), (0.3, (0.302, 0.495))):
        low, high = interval_of_share(round(100 * share), 100, 0.95)
        assert high - low == pytest.approx(widths[0], rel=0.03)
        assert high - low < 0.75 * widths[1]


def test_an_interval_narrows_and_stays_within_what_is_possible():
    widths = []
    for rounds in (1, 10, 100, 1000, 10_000, 100_000):
        found = interval(0.1 * rounds, rounds, 0.09 * rounds, 0.95)
        assert 0.0 <= found.low <= 0.1 <= found.high <= 1.0
        widths.append(found.high - found.low)
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.01


def test_more_confidence_makes_it_wider():
    narrow, wide = (interval(100, 1000, 90.0, confidence) for confidence in (0.5, 0.9999))
    assert wide.low < narrow.low < narrow.high < wide.high
