"""The interval for the error rate holds at all times at once."""

from math import log, sqrt

import numpy as np
import pytest

from service.learning.certainty.anytime import boundary, interval
from service.learning.statistics.error_interval import ErrorInterval
from service.learning.statistics.statistic import Asked

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


@pytest.mark.parametrize("kind", ["stationary", "drifting", "adversarial"])
@pytest.mark.thorough
def test_the_true_mean_is_seldom_outside_although_one_looks_after_every_round(kind):
    """An adversary sees all that came before, and makes mistakes likelier just when there have been many."""
    rng = np.random.default_rng(7)
    missed = 0
    for _ in range(STREAMS):
        planned = chances(kind, rng)
        draws = rng.random(ROUNDS)
        observed, mistakes, expected = ErrorInterval(), 0, 0.0
        is_missed = False
        for t in range(ROUNDS):
            chance = planned[t] if planned is not None else 0.9 if mistakes > expected else 0.1
            mistake = bool(draws[t] < chance)
            observed.observe(t, mistakes, mistake)
            expected += chance
            mistakes += mistake
            # The radius is what costs time: it is looked at once the mean is far enough off to be outside.
            if abs(mistakes - expected) > 8 and not is_missed:
                found = observed.report(Asked(0, 2, t + 1, mistakes))["error_rate_interval"]
                is_missed = not found["low"] <= expected / (t + 1) <= found["high"]
        missed += is_missed
    assert missed <= 0.05 * STREAMS


def test_no_interval_is_narrower_than_the_radius_that_the_coverage_test_leaves_out():
    assert boundary(0.0, 0.025, scale=1.0) > 8


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
