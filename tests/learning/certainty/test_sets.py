"""Sets hold the true label as often as asked, on any stream and however late labels come."""

from collections import deque
from itertools import cycle, islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.accuracy import data_sets
from service.engine.models.model import Model
from service.events import ModelCreated, RoundLearned
from service.learning.certainty.sets import Sets
from service.web.routes.model_settings import ModelLimits, ModelSettings

CLASSES = 3


def play(sets, rounds, choose_delay, choose_truth, rng):
    """Rounds whose labels come when `choose_delay` says; after each, the theorem's inequality is checked."""
    waiting, errors, revealed = deque(), 0, 0
    longest = 0

    def reveal():
        nonlocal errors, revealed, longest
        served, truth, seen = waiting.popleft()
        errors += served is not None and truth not in served
        longest = max(longest, revealed - seen)
        sets.observe(served, truth=truth, classes=CLASSES, delay=revealed - seen)
        revealed += 1
        assert abs(errors / revealed - (1 - sets.wanted)) <= sets.distance_max + 1e-9

    for number in range(rounds):
        distances = np.sort(rng.random(CLASSES))
        distances[0] = 0.0
        served = sets.serve(distances)
        waiting.append((served, choose_truth(number, served), revealed))
        while waiting and len(waiting) > choose_delay(number):
            reveal()
    while waiting:
        reveal()
    assert revealed == rounds
    return errors / rounds, longest


TRUTHS = {
    "never in the set": lambda number, served: -1,
    "always the best": lambda number, served: 0,
    "out when it can be": lambda number, served: 2 if served is not None and 2 not in served else 0,
    "in turns": lambda number, served: number // 50 % CLASSES,
}


@settings(deadline=None, max_examples=60)
@given(
    wanted=st.sampled_from([0.01, 0.5, 0.8, 0.9, 0.99]),
    delays=st.lists(st.sampled_from([0, 1, 2, 10, 100, 1000]), min_size=1, max_size=4),
    truth=st.sampled_from(sorted(TRUTHS)),
    seed=st.integers(0, 2**32),
)
@pytest.mark.slow
def test_the_theorem_holds_on_every_stream(wanted, delays, truth, seed):
    rng = np.random.default_rng(seed)
    play(Sets(wanted=wanted), 3000, lambda number: delays[number * len(delays) // 3000], TRUTHS[truth], rng)


@pytest.mark.parametrize("delay", [0, 7, 1000])
def test_the_bound_is_the_one_that_the_theorem_states(delay):
    """With one delay from the start on, past the pieces of smaller ones."""
    sets = Sets(wanted=0.9)
    play(sets, 20_000, lambda number: delay, TRUTHS["in turns"], np.random.default_rng(1))
    step = sets.step
    stated = (1 + step * (sets.delay_max + 1) * 0.9) / step / 20_000
    assert sets.delay_max == (1 << delay.bit_length()) - 1
    assert sets.distance_max <= stated + sets.past_distance / 20_000 + 1e-9


def test_coverage_comes_near_to_what_was_asked_for_on_a_random_stream():
    rng = np.random.default_rng(3)
    for wanted in (0.5, 0.9):
        error, _ = play(
            Sets(wanted=wanted),
            10_000,
            lambda number: 20,
            lambda number, served: int(rng.integers(CLASSES)),
            rng,
        )
        assert error == pytest.approx(1 - wanted, abs=0.02)


@pytest.mark.parametrize("wanted", [0.8, 0.95])
@pytest.mark.thorough
def test_coverage_is_within_two_points_after_10_000_rounds_of_the_shipped_data_sets(wanted):
    """Two classes and up to ten; each set is repeated until there are as many rounds."""
    for name, rounds in data_sets():
        labels = sorted({truth for _, truth in rounds})
        asked = {"labels": labels, "features": {"standardize": True}, "coverage": wanted}
        settings = ModelSettings.model_validate(asked).complete(ModelLimits(1000, 1000, 512, 10**8))
        model = Model(ModelCreated("m", 1, settings))
        model.fix_dimension(len(rounds[0][0]))
        for number, (x, truth) in enumerate(islice(cycle(rounds), 10_000)):
            model.apply(RoundLearned("m", 2 + number, None, truth, np.array(x).tobytes()))
        report = model.sets.report()
        assert report["rounds"] == 10_000, name
        assert abs(report["coverage"] - wanted) <= min(0.02, report["distance_max"]), name


@pytest.mark.slow
def test_a_fixed_step_would_swing_and_this_one_does_not():
    """Labels a thousand rounds late: the error of each thousand rounds stays near what was asked for."""
    rng = np.random.default_rng(4)
    sets, waiting, errors = Sets(wanted=0.9), deque(), []
    for _ in range(30_000):
        distances = np.array([0.0, *np.sort(rng.random(2))])
        served = sets.serve(distances)
        truth = int(rng.choice(3, p=[0.7, 0.2, 0.1]))
        waiting.append((served, truth, len(errors)))
        if len(waiting) > 1000:
            served, truth, seen = waiting.popleft()
            sets.observe(served, truth=truth, classes=3, delay=len(errors) - seen)
            errors.append(served is not None and truth not in served)
    late = np.array(errors[9000:]).reshape(-1, 1000).mean(axis=1)
    assert late.max() < 0.3


def test_what_was_saved_goes_on_to_the_bit():
    rng = np.random.default_rng(5)
    whole, broken = Sets(wanted=0.8), Sets(wanted=0.8)
    for number in range(500):
        distances = np.array([0.0, *rng.random(2)])
        assert whole.serve(distances) == broken.serve(distances)
        seen = {"truth": int(rng.integers(3)), "classes": 3, "delay": int(rng.integers(number + 1))}
        for sets in (whole, broken):
            sets.observe(sets.serve(distances), **seen)
        again = Sets(wanted=0.8)
        again = again.restored(broken.state())
        broken = again
    assert broken.state() == whole.state()


def test_nothing_is_ruled_out_at_a_threshold_of_1_and_everything_below_0():
    sets = Sets(wanted=0.9)
    sets.threshold = 1.0
    assert sets.serve(np.array([0.0, 1.0])) is None
    sets.threshold = -1e-9
    assert sets.serve(np.array([0.0, 1.0])) == []
    sets.threshold = 0.0
    assert sets.serve(np.array([0.0, 1.0, 0.0])) == [0, 2]
