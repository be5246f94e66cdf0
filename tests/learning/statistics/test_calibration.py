"""The probability that a label is right: on real data, at the ends of the numbers, in blocks, and as it is saved."""

from fractions import Fraction
from math import isfinite, log

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bench.accuracy import data_sets
from bench.calibration import brier, constant, in_hindsight, log_loss, served
from service.learning import saved
from service.learning.functions import STEEPEST, logistic
from service.learning.statistics import calibration as numbers
from service.learning.statistics.calibration import GRADIENT_GRID, SLOPE_GRID, Calibration, gradient_sums
from service.learning.statistics.statistic import BATCH_MAX, Asked, RevealedBlock, batch_size

SETS = ("breast_cancer", "wine", "digits", "Phishing", "Bananas", "ImageSegments")


@pytest.fixture(scope="module")
def rounds_of():
    return dict(data_sets())


@pytest.mark.parametrize("learner", ["perceptron", "averaged", "arow"])
@pytest.mark.parametrize("name", SETS)
@pytest.mark.thorough
def test_probabilities_are_worth_something_on_the_shipped_data_sets(rounds_of, name, learner):
    """Better than the error rate, which is known afterwards only, and nearly as good as a fit on what was served.

    Three data sets are exceptions. The gaps of Bananas say nothing: its classes are no more separable by a plane than
    by chance, so that the error rate cannot be beaten. Wine has 178 rounds and breast_cancer 569, in which there is
    little to learn from.
    """
    stream = served(rounds_of[name], learner, standardize=True)
    loss, known = log_loss(stream.probabilities, stream.right), constant(stream)
    if name == "Bananas":
        assert loss <= 1.01 * log_loss(known, stream.right)
        assert brier(stream.probabilities, stream.right) <= 1.01 * brier(known, stream.right)
        assert loss <= 1.1 * log_loss(in_hindsight(stream), stream.right)
    else:
        assert loss < log_loss(known, stream.right)
        assert brier(stream.probabilities, stream.right) < brier(known, stream.right)
        few = name in ("wine", "breast_cancer")
        assert loss <= (1.2 if few else 1.1) * log_loss(in_hindsight(stream), stream.right)


def test_the_report_is_that_of_the_probabilities_that_were_served():
    rng = np.random.default_rng(1)
    calibration, kept = Calibration(), []
    for _ in range(500):
        gap = float(rng.exponential())
        right = bool(rng.random() < gap / (1 + gap))
        _, lead, probability = calibration.standing(gap)
        calibration.observe(gap, lead, probability, right, is_late=False)
        if probability is not None:
            kept.append((probability, right))
    report = calibration.report(Asked(0, 2, 500, 0))["calibration"]
    assert report["rounds"] == len(kept) == 499
    assert report["brier"] == pytest.approx(np.mean([(p - right) ** 2 for p, right in kept]))
    assert report["log_loss"] == pytest.approx(np.mean([-log(p if right else 1 - p) for p, right in kept]))
    for found in report["bins"]:
        inside = [right for p, right in kept if found["low"] <= p < found["high"]]
        assert found["rounds"] == len(inside)
        assert found["right_rate"] == (pytest.approx(np.mean(inside)) if inside else None)


STREAMS = {
    "perfectly separated": lambda rng, number: (1.0 + rng.random(), True),
    "hopeless": lambda rng, number: (1.0 + rng.random(), False),
    "ties": lambda rng, number: (0.0, number % 2 == 0),
    "all alike": lambda rng, number: (3.0, number % 2 == 0),
    "the surer, the worse": lambda rng, number: (float(number % 7), number % 7 < 3),
    "growing without end": lambda rng, number: (1.01**number, number % 3 > 0),
    "vanishing": lambda rng, number: (0.99 ** (20 * number), number % 3 > 0),
    "one outlier": lambda rng, number: (1e270 if number == 100 else 1.0, number % 3 > 0),
    "from the largest to the smallest": lambda rng, number: (
        [1e270, 5e-324, 0.0][number % 3],
        number % 5 > 0,
    ),
}


@pytest.mark.parametrize("size", [5e-324, 1.0, 1e265])
@pytest.mark.parametrize("name", STREAMS)
def test_nothing_becomes_infinite_and_what_is_saved_can_be_opened(name, size):
    rng = np.random.default_rng(2)
    calibration = Calibration()
    for number in range(4500):
        gap, right = STREAMS[name](rng, number)
        gap = min(gap * size, 1e275)
        _, lead, probability = calibration.standing(gap)
        if probability is not None:
            assert logistic(-STEEPEST) <= probability <= logistic(STEEPEST)
        calibration.observe(gap, lead, probability, right, is_late=bool(number % 2))
        if number % 500 == 17:
            state = calibration.state()
            assert all(isfinite(value) for value in state[0])
            restored = Calibration.restore(state)
            restored.check(Asked(0, 2, number + 1, 0))
            assert restored.state() == state
    report = calibration.report(Asked(0, 2, 4500, 0))["calibration"]
    assert 0.0 <= report["brier"] <= 1.0
    assert 0.0 < report["log_loss"] <= -log(logistic(-STEEPEST))
    if name in ("perfectly separated", "hopeless"):
        assert report["log_loss"] < 0.02


def test_probabilities_do_not_depend_on_the_scale_of_the_scores():
    served_at = []
    for size in (2.0**-900, 1.0, 2.0**800):
        rng = np.random.default_rng(3)
        calibration, probabilities = Calibration(), []
        for _ in range(1000):
            gap = float(rng.exponential())
            standing = calibration.standing(gap * size)
            probabilities.append(standing[2])
            calibration.observe(*standing, bool(rng.random() < gap))
        served_at.append(probabilities)
    assert served_at[0] == served_at[1] == served_at[2]


LIMITS = (32, 128, 512, 2048, 8192)
starts = st.sampled_from([0, 1, *[limit + by for limit in LIMITS for by in (-9, -1, 0, 1)], 2048 - 300])
sizes = st.lists(
    st.sampled_from([1, 2, 7, 8, 9, 31, 32, 33, 255, 256, 257, 1000, 4097]), min_size=1, max_size=6
)


@settings(deadline=None, max_examples=25)
@given(start=starts, blocks=sizes, seed=st.integers(0, 2**32))
@example(start=0, blocks=[32, 96, 384, 1536, 512], seed=1)
@example(start=0, blocks=[31, 2, 94, 2, 382, 2, 1534, 2, 300], seed=2)
@pytest.mark.slow
def test_blocks_across_the_limits_of_batches_are_as_one_by_one_to_the_bit(start, blocks, seed):
    rng = np.random.default_rng(seed)
    total = start + sum(blocks)
    gaps = rng.exponential(size=total) * 10.0 ** rng.integers(-3, 4) * (rng.random(total) < 0.9)
    right = rng.random(total) < 0.8
    alone, together = Calibration(), Calibration()
    done = 0
    for block in (start, *blocks):
        gaps_now, right_now = gaps[done : done + block], right[done : done + block]
        done += block
        expected = []
        for gap, is_right in zip(gaps_now.tolist(), right_now.tolist(), strict=True):
            standing = alone.standing(gap)
            expected.append(standing[2])
            alone.observe(*standing, is_right, is_late=False)
        whole = RevealedBlock(
            right_now, right_now, ~right_now, np.cumsum(~right_now), done - block, 0, gaps_now
        )
        together.observe_rows(whole)
        assert whole.probabilities == expected
        assert together.state() == alone.state()
        together = Calibration.restore(together.state())


def served_in_blocks(calibration, gaps, right):
    probabilities = []
    for start in range(0, len(gaps), 4096):
        now = right[start : start + 4096]
        block = RevealedBlock(now, now, ~now, np.cumsum(~now), start, 0, gaps[start : start + 4096])
        calibration.observe_rows(block)
        probabilities += block.probabilities
    return np.array([0.5 if p is None else p for p in probabilities])


@pytest.mark.parametrize(("before", "after"), [(0.85, 0.5), (0.55, 0.98), (0.999, 0.6)])
def test_probabilities_follow_a_stream_that_changes(before, after):
    rng = np.random.default_rng(5)
    gaps = rng.exponential(size=50_000)
    right = rng.random(50_000) < np.where(np.arange(50_000) < 40_000, before, after)
    distances = []
    for forgets in (True, False):
        probabilities = served_in_blocks(Calibration(forgets=forgets), gaps, right)
        assert abs(probabilities[39_000:40_000].mean() - before) < 0.04
        distances.append(abs(probabilities[42_048:46_000].mean() - after))
    assert distances[0] < 0.09 and distances[0] < distances[1]


GAPS_AND_CHANCES = {
    "sharp": lambda gaps: 1 / (1 + np.exp(-4 * gaps)),
    "one in seven wrong": lambda gaps: np.full(len(gaps), 0.85),
    "one in fifty wrong": lambda gaps: np.full(len(gaps), 0.98),
    "one in a thousand wrong": lambda gaps: np.full(len(gaps), 0.999),
}


@pytest.mark.parametrize("name", GAPS_AND_CHANCES)
def test_a_stream_that_stays_the_same_loses_less_than_a_hundredth_by_forgetting(name):
    rng = np.random.default_rng(1)
    gaps = np.abs(rng.normal(size=60_000))
    right = rng.random(60_000) < GAPS_AND_CHANCES[name](gaps)
    with_memory, without = (
        log_loss(served_in_blocks(Calibration(forgets=forgets), gaps, right), right)
        for forgets in (True, False)
    )
    assert with_memory < 1.01 * without


def test_a_larger_gap_never_makes_a_label_less_likely():
    rng = np.random.default_rng(6)
    calibration = Calibration()
    for _ in range(3000):
        gap = float(rng.exponential())
        calibration.observe(*calibration.standing(gap), bool(rng.random() < 1 / (1 + gap)))
        small, large = calibration.standing(0.01)[2], calibration.standing(10.0)[2]
        assert small <= large
    assert calibration.state()[0][numbers.SLOPE] == 0.0
    assert abs(calibration.standing(1.0)[2] - 0.6) < 0.1, "it is the share of right labels then"


def test_batches_end_where_their_sizes_change():
    for limit in LIMITS:
        assert limit % batch_size(limit) == 0 and limit % batch_size(limit + 1) == 0
    assert batch_size(10**12) == BATCH_MAX


def test_the_sums_of_a_batch_are_exact_in_any_order():
    """Which is what lets a block add them up by a product of matrices: the largest terms there can be, all odd."""
    rng = np.random.default_rng(4)
    u = np.full(BATCH_MAX, numbers.STEEPNESS)
    u[::2] = rng.uniform(0.0, numbers.STEEPNESS, BATCH_MAX // 2)
    p = np.where(rng.random(BATCH_MAX) < 0.5, logistic(STEEPEST), rng.random(BATCH_MAX))
    right = np.zeros(BATCH_MAX, dtype=bool)
    exact = [Fraction(0)] * 5
    for each_u, gradient in zip(u.tolist(), p.tolist(), strict=True):
        slope = Fraction((gradient * each_u + SLOPE_GRID) - SLOPE_GRID)
        g = Fraction((gradient + GRADIENT_GRID) - GRADIENT_GRID)
        for at, term in enumerate((slope, g, slope * slope, slope * g, g * g)):
            exact[at] += term
    order = rng.permutation(BATCH_MAX)
    for chosen in (np.arange(BATCH_MAX), order):
        assert [Fraction(x) for x in gradient_sums(u[chosen], p[chosen], right)] == exact


def test_a_matrix_that_rounding_has_made_singular_still_gives_a_step():
    """What 2^38 rounds with one lead leave: A is the start plus n times the same square, which has no inverse."""
    calibration = Calibration()
    for number in range(4096):
        calibration.observe(*calibration.standing(1.0), number % 2 == 0)
    state = calibration.state()
    rounds = 2.0**38
    state[0][numbers.A_SLOPE], state[0][numbers.A_BOTH] = 4 * rounds, 2 * rounds
    state[0][numbers.A_OFFSET] = rounds
    calibration = Calibration.restore(state)
    (gap, lead, before) = calibration.standing(1.0)  # the usual gap, so the lead is one half
    assert lead == 0.5 and before is not None
    for _ in range(512):
        calibration.observe(*calibration.standing(gap), False)
    after = calibration.standing(gap)[2]
    assert after is not None and 0.0 < after <= before
    assert all(isfinite(value) for value in calibration.state()[0])


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (numbers.A_BOTH, 1e160),
        (numbers.A_SLOPE, 1.0),
        (numbers.A_OFFSET, 1e160),
        (numbers.H_BOTH, 5000.0),
        (numbers.H_SLOPE, -1.0),
        (numbers.G_SLOPE, 1e4),
        (numbers.G_OFFSET, -1100.0),
        (numbers.SCALE, -1.0),
        (numbers.GAPS, 1e290),
        (numbers.BRIER, 1e13),
        (numbers.PRODUCT, 0.0),
        (numbers.OF_GROUP, 2.0),
        (numbers.EXPONENT, 2.0),
        (numbers.SLOPE, float("nan")),
    ],
)
def test_numbers_that_no_stream_leads_to_are_refused_by_their_place(at, value):
    calibration = Calibration()
    for number in range(100):
        calibration.observe(*calibration.standing(1.0), number % 3 > 0)
    state = calibration.state()
    state[0][at] = value
    with pytest.raises(saved.BadState) as error:
        Calibration.restore(state)
    assert error.value.field == f"[0][{at}]"
