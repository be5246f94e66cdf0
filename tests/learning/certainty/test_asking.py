"""Asking for few labels: the bound on expected mistakes, and the error estimated from those labels."""

from math import sqrt

import numpy as np
import pytest

from service.learning.certainty.asking import LEAST, Asking, is_asked
from tests.learning.known_planes import separable
from tests.support.tiers import slow

SEEDS = 200


ROUNDS = 400


def run(seed, b, *, late=0, offset=0.0):
    """A perceptron that gets only the labels it asks for: its mistakes on all rounds, labels, and what bounds them."""
    rng = np.random.default_rng(seed)
    xs, ys, u, plane = separable(rng, ROUNDS, 5, 1.0, offset, 0.1, hard=True)
    zs = np.column_stack([xs, np.ones(ROUNDS)])
    asking = Asking(b, 1.0, rules=2)
    w, updates, waiting, mistakes, labels, stale_max = np.zeros(6), 0, [], 0, 0, 0
    for number in range(ROUNDS + late):
        if number < ROUNDS:
            score = float(zs[number] @ w)
            served = 1 if score >= 0 else -1
            mistakes += served != ys[number]
            if is_asked(f"{seed}-{number}", "key", asking.probability(abs(score))):
                waiting.append((number, served, updates))
        while waiting and waiting[0][0] <= number - late:
            of, served, seen = waiting.pop(0)
            labels += 1
            if served != ys[of]:
                stale_max = max(stale_max, updates - seen)
                w = w + ys[of] * zs[of]
                updates += 1
    radius_sq = float((xs * xs).sum(axis=1).max())
    growth = (1 + 2 * stale_max) * (radius_sq + 1)
    margin = float((ys * (xs @ u + plane)).min())
    return mistakes, labels, asking.expected_mistakes(growth, sqrt(1 + plane * plane), margin)


@pytest.mark.parametrize(
    ("b", "late", "offset"),
    [slow(0.05, 0, 0.0), slow(0.5, 0, 0.0), slow(2.0, 0, 0.0), slow(0.05, 0, 0.4), (0.5, 0, 0.4), slow(2.0, 0, 0.4),
     slow(0.05, 30, 0.2), slow(0.5, 30, 0.2), (2.0, 30, 0.2)],
)  # fmt: skip
def test_the_mean_of_the_mistakes_over_many_seeds_is_within_the_bound(b, late, offset):
    runs = [run(seed, b, late=late, offset=offset) for seed in range(SEEDS)]
    mistakes, labels, bounds = np.array(runs, dtype=float).T
    assert mistakes.mean() <= bounds.mean()
    assert 0 < labels.mean() < ROUNDS


def test_the_smaller_b_is_the_fewer_labels_are_asked_for():
    labels = [np.mean([run(seed, b)[1] for seed in range(20)]) for b in (0.01, 0.1, 1.0, 10.0)]
    assert labels == sorted(labels)
    assert labels[0] < 0.5 * ROUNDS


def test_the_best_b_gives_the_mistake_bound():
    growth, gamma = 3.0, 0.1
    assert Asking(growth / 2, 1.0, rules=2).expected_mistakes(growth, 1.0, gamma) == pytest.approx(
        growth / gamma**2
    )


@pytest.mark.slow
@pytest.mark.parametrize("rules", [1, 2])
def test_with_labels_at_once_the_estimate_is_right_and_its_interval_holds_as_often_as_it_says(rules):
    """Close examples are asked for more often and are wrong more often."""
    rng = np.random.default_rng(11)
    outside, estimates, asked_rates = 0, [], []
    for stream in range(200):
        asking = Asking(0.2, 1.0, rules=rules)
        unasked, is_outside, expected, predictions = 0, False, 0.0, 0
        for number in range(1500):
            gap = float(rng.exponential())
            chance = 0.5 / (1 + 3 * gap)
            probability = asking.probability(gap)
            expected += chance
            predictions += 1
            if is_asked(f"{stream}-{number}", "key", probability):
                asking.observe(probability, True, bool(rng.random() < chance))
            else:
                unasked += 1
            if number % (50 if rules == 1 else 250) == 49:
                found = asking.report(unasked, [], 0.95)["error_rate_interval"]
                is_outside |= not found["low"] <= expected / predictions <= found["high"]
        outside += is_outside
        report = asking.report(unasked, [], 0.95)
        estimates.append(report["error_rate"] - expected / predictions)
        asked_rates.append(report["asked_rate"])
    assert outside <= 0.05 * 200
    assert abs(np.mean(estimates)) < 3 * np.std(estimates) / sqrt(len(estimates))
    assert np.mean(asked_rates) < 0.5, "fewer than half of the labels were asked for"


def test_auto_only_ever_raises_b():
    asking = Asking(None, 1.0, rules=2)
    assert asking.probability(5.0) == 1.0, "nothing is known yet"
    asking.follow(2.0)
    asking.follow(1.0)
    assert asking.b == 2.0
    given = Asking(0.5, 1.0, rules=2)
    given.follow(2.0)
    assert given.b == 0.5


def test_by_rules_2_probabilities_are_rounded_up_to_multiples_of_1_in_256():
    exact, counted = Asking(0.3, 1.0, rules=1), Asking(0.3, 1.0, rules=2)
    for gap in (0.0, 0.1, 1.0, 7.0, 1e300):
        rounded = counted.probability(gap)
        assert (rounded * 256).is_integer() and 0 <= rounded - exact.probability(gap) < 1 / 256


def test_one_in_64_is_asked_for_whatever_the_gap():
    assert Asking(1e-9, 1.0, rules=2).probability(1e9) == LEAST


def test_the_choice_depends_on_the_key_and_on_nothing_else():
    ids = [f"p{number}" for number in range(500)]
    first = [is_asked(prediction_id, "a", 0.5) for prediction_id in ids]
    assert first == [is_asked(prediction_id, "a", 0.5) for prediction_id in ids]
    assert first != [is_asked(prediction_id, "b", 0.5) for prediction_id in ids]
    assert all(is_asked(prediction_id, "a", 1.0) for prediction_id in ids)


@pytest.mark.parametrize("rules", [1, 2])
def test_what_was_saved_goes_on_to_the_bit(rules):
    asking = Asking(None, 0.5, rules=rules)
    asking.follow(0.3)
    asking.observe(0.25, True, True)
    asking.observe(0.5, True, False)
    asking.observe(0.5, False, True)
    asking.expire(3, [(64, 1)])
    asking.expire(2, None)
    again = Asking(None, 0.5, rules=rules)
    again = again.restored(asking.state())
    assert again.state() == asking.state()
    assert again.report(5, [0.5], 0.9) == asking.report(5, [0.5], 0.9)
    assert asking.report(5, [0.5], 0.9)["predictions"] == (14 if rules == 2 else 13)


def test_of_what_expired_unknown_it_is_taken_that_all_was_asked_for_with_the_least_probability():
    known, unknown = Asking(0.2, 1.0, rules=2), Asking(0.2, 1.0, rules=2)
    for asking, asked in ((known, []), (unknown, None)):
        for number in range(400):
            asking.observe(0.5, True, number % 4 == 0)
        asking.expire(400, asked)
    one, other = (asking.report(0, [], 0.95)["error_rate_interval"] for asking in (known, unknown))
    assert one["low"] == other["low"] and one["high"] < other["high"] < 1.0
