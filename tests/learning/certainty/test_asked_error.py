"""The error over all predictions by the few labels that were asked for, which come late, in any order or never."""

import numpy as np
import pytest

from service.learning.certainty.asking import LEVELS, Asking, interval

NEVER = 10**9


def probabilities(rng, rounds, b=0.2):
    """Those with which labels are asked for, and how far ahead the served label was."""
    gaps = rng.exponential(size=rounds)
    asking = Asking(b, 1.0, rules=2)
    return np.array([asking.probability(gap) for gap in gaps]), gaps


def counted(p, chosen):
    return np.bincount(np.rint(p[chosen] * LEVELS).astype(int) - 1, minlength=LEVELS)


def at(time, p, asked, wrong, revealed_at):
    """The interval when so many predictions were made and those labels have come that had by then."""
    made = np.arange(len(p)) < time
    known = made & asked & (revealed_at <= time)
    counts = (known & wrong, known & ~wrong, made & asked & ~known)
    return interval(*(counted(p, chosen) for chosen in counts), time, 0.95)


def steady(rng, p, gaps, asked):
    return 0.5 / (1 + 3 * gaps)


def drifting(rng, p, gaps, asked):
    return np.linspace(0.05, 0.95, len(p)) / (1 + gaps)


def switching(rng, p, gaps, asked):
    return np.where(np.arange(len(p)) // 100 % 2, 0.9, 0.02)


def adversary(rng, p, gaps, asked):
    """Errs where it is seldom asked while what was asked tells of few mistakes, and else where it often is."""
    chances, ahead = np.empty(len(p)), 0.0
    for number in range(len(p)):
        chances[number] = 0.9 if (p[number] < 0.2) == (ahead <= 0.0) else 0.05
        ahead += chances[number] * (asked[number] / p[number] - 1.0)
    return chances


def at_once(rng, wrong):
    return np.arange(len(wrong)) + 1


def late(rng, wrong):
    return np.arange(len(wrong)) + rng.geometric(1 / 500, len(wrong))


def mistakes_last(rng, wrong):
    return np.arange(len(wrong)) + np.where(wrong, 1_000, 1)


def mistakes_first_and_others_never(rng, wrong):
    return np.where(wrong | (rng.random(len(wrong)) < 0.7), np.arange(len(wrong)) + 30, NEVER)


def some_mistakes_never(rng, wrong):
    return np.where(wrong & (rng.random(len(wrong)) < 0.5), NEVER, np.arange(len(wrong)) + 1)


@pytest.mark.slow
@pytest.mark.parametrize("stream", [steady, drifting, switching, adversary])
@pytest.mark.parametrize(
    "delays", [at_once, late, mistakes_last, mistakes_first_and_others_never, some_mistakes_never]
)
def test_at_any_time_the_mean_chance_is_inside_whatever_the_stream_and_the_delays(stream, delays):
    rng = np.random.default_rng(7)
    runs, rounds, outside = 60, 1_000, 0
    for _ in range(runs):
        p, gaps = probabilities(rng, rounds)
        asked = rng.random(rounds) < p
        chances = stream(rng, p, gaps, asked)
        wrong = rng.random(rounds) < chances
        revealed_at = delays(rng, wrong)
        for time in (1, 3, 10, 30, 60, 100, 200, 300, 500, 700, 1_000):
            found = at(time, p, asked, wrong, revealed_at)
            if not found.low <= chances[:time].mean() <= found.high:
                outside += 1
                break
    assert outside <= 0.05 * runs


def test_the_interval_is_as_narrow_as_asked_labels_allow():
    """4,000 predictions: by rules 1 nothing was told from below."""
    rng = np.random.default_rng(3)
    p, gaps = probabilities(rng, 4_000, b=0.3)
    asked = rng.random(4_000) < p
    chances = 0.3 / (1 + 3 * gaps)
    wrong = rng.random(4_000) < chances
    found = at(4_000, p, asked, wrong, at_once(rng, wrong))
    assert found.low <= chances.mean() <= found.high
    assert asked.mean() < 0.4 and found.high - found.low < 0.095 and found.low > 0.08
    before = Asking(0.3, 1.0, rules=1)
    for probability, mistake in zip(p[asked], wrong[asked], strict=True):
        before.observe(probability, True, bool(mistake))
    was = before.report(int((~asked).sum()), [], 0.95)["error_rate_interval"]
    assert was["low"] == 0.0 and was["high"] > 0.4


def test_what_has_not_come_counts_as_right_below_and_as_wrong_above():
    none, few, many = np.zeros(LEVELS, int), np.zeros(LEVELS, int), np.zeros(LEVELS, int)
    few[127], many[127] = 100, 900
    known = interval(few, many, none, 2_000, 0.95)
    without = interval(few, none, many, 2_000, 0.95)
    assert without.low == known.low and without.high > 0.9 > known.high
    assert interval(few, many, few, 2_000, 0.95).high > known.high
    assert interval(none, none, none, 0, 0.95) == interval(none, none, none, 5, 0.95) == (0.0, 1.0)


def test_labels_that_are_late_bias_neither_the_estimate_nor_the_interval():
    """16,000 predictions, half of them wrong, and their labels 8,000 late. Rules 1 tell 0.255 with [0.173, 0.337]."""
    rng = np.random.default_rng(5)
    asking, before = Asking(0.2, 1.0, rules=2), Asking(0.2, 1.0, rules=1)
    waiting, unasked, wrong_ones = [], 0, 0
    for number in range(16_000):
        probability, wrong = asking.probability(rng.exponential()), bool(rng.random() < 0.5)
        wrong_ones += wrong
        if rng.random() < probability:
            waiting.append((number, probability, wrong))
        else:
            unasked += 1
        while waiting and waiting[0][0] <= number - 8_000:
            _, of, was_wrong = waiting.pop(0)
            asking.observe(of, True, was_wrong)
            before.observe(of, True, was_wrong)
    true = wrong_ones / 16_000
    told = asking.report(unasked, [probability for _, probability, _ in waiting], 0.95)
    assert told["predictions"] == 16_000
    assert told["error_rate"] == pytest.approx(true, abs=0.03)
    assert told["error_rate_interval"]["low"] <= true <= told["error_rate_interval"]["high"]
    # By rules 1, which models of before keep, both are wrong.
    was = before.report(unasked, [], 0.95)
    assert was["error_rate"] < 0.6 * true and was["error_rate_interval"]["high"] < true
