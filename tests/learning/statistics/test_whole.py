"""The statistics as one: the parts of the report, the state, the memory."""

import random
import tracemalloc

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.learning.bound.mistake_bound import Bound
from service.learning.statistics import STATISTICS, Statistics
from service.learning.statistics.drift import Drift
from tests.support.tiers import slow

START_US = 1_700_000_000_000_000


def stream(rng, rounds, classes=2, apart_us=500_000, error=0.2):
    """Reveals as the engine sends them; times now and then go backwards."""
    at_us = START_US
    for _ in range(rounds):
        at_us += rng.randrange(2 * apart_us)
        truth = rng.randrange(classes)
        served = truth if rng.random() > error else rng.randrange(-1, classes)
        when_us = at_us - rng.choice([0, 0, 0, 0, 90_000_000])
        yield {
            "truth": truth,
            "served": served,
            "at_us": when_us,
            "predicted_at_us": when_us - int(rng.lognormvariate(14, 3)),
            "updated": truth != served,
            "stale_updates": rng.randrange(20),
            "standing": (rng.random(), rng.random(), rng.choice([None, rng.random()])),
            "weight": rng.choice([1.0, 1.0, 0.1, 3.5]),
        }


def observed(reveals):
    statistics = Statistics()
    for reveal in reveals:
        statistics.observe(**reveal)
    return statistics


def plain(value):
    """Whether a state is made of nothing but what MessagePack has."""
    if isinstance(value, dict):
        return all(type(key) is str and plain(item) for key, item in value.items())
    if isinstance(value, list):
        return all(plain(item) for item in value)
    return type(value) in (type(None), bool, int, float, str, bytes)


def test_counters_and_rates_are_those_of_the_list():
    reveals = list(stream(random.Random(1), 3000))
    statistics = observed(reveals)
    mistakes = [r["truth"] != r["served"] for r in reveals]
    report = statistics.report(reveals[-1]["at_us"], 2)
    assert statistics.revealed == 3000
    assert report["mistakes"] == statistics.mistakes == sum(mistakes)
    assert report["updates"] == statistics.updates == sum(mistakes)
    assert report["error_rate"] == sum(mistakes) / 3000
    weights = [0.99 ** (2999 - number) for number in range(3000)]
    ewma = sum(w * m for w, m in zip(weights, mistakes, strict=True)) / sum(weights)
    assert report["ewma_error_rate"] == pytest.approx(ewma, rel=1e-9)
    assert report["windows"]["last_100"] == {
        "rounds": 100,
        "mistakes": sum(mistakes[-100:]),
        "error_rate": sum(mistakes[-100:]) / 100,
    }
    assert report["windows"]["last_10000"]["rounds"] == 3000
    assert report["drift"]["count"] == statistics.drift_count
    assert report["drift"]["state"] == statistics.drift_state
    assert report["delay"]["updates_max"] == 19
    assert report["curve"]["rounds"][-1] == 3000
    assert report["curve"]["mistakes"][-1] == sum(mistakes)


def test_the_report_has_the_parts_of_the_interface_and_nothing_undefined_is_a_number():
    report = Statistics().report(START_US, 2)
    nothing = {"rounds": 0, "mistakes": 0, "error_rate": None}
    assert report == {
        "mistakes": 0,
        "updates": 0,
        "error_rate": None,
        "ewma_error_rate": None,
        "windows": dict.fromkeys(["last_100", "last_1000", "last_10000", "minute", "hour", "day"], nothing),
        "confusion": {"matrix": [[0, 0], [0, 0]]},
        "classes": [{"support": 0, "precision": None, "recall": None, "f1": None}] * 2,
        "baselines": dict.fromkeys(
            ["majority_error_rate", "no_change_error_rate", "kappa", "kappa_m", "kappa_t"]
        ),
        "delay": {"seconds": {"p50": None, "p90": None, "p99": None, "max": None}, "updates_max": None},
        "drift": {"state": "stable", "count": 0, "last_round": None, "delta": 0.002},
        "curve": {"rounds": [0], "mistakes": [0], "times": [None]},
        "error_rate_interval": None,
        "weighted_error_rate": None,
        "calibration": {
            "rounds": 0,
            "bins": [
                {"low": at / 10, "high": (at + 1) / 10, "rounds": 0, "right_rate": None} for at in range(10)
            ],
            "brier": None,
            "log_loss": None,
        },
    }


def test_observing_says_at_which_reveal_the_error_rose():
    statistics, found = Statistics(), []
    for number in range(1, 1000):
        wrong = number > 500
        if statistics.observe(
            1, 0 if wrong else 1, at_us=START_US, predicted_at_us=START_US, updated=wrong, stale_updates=0
        ):
            found.append(number)
    assert len(found) == 1
    assert found[0] == statistics.report(START_US, 2)["drift"]["last_round"]
    assert 500 < found[0] < 600
    assert statistics.drift_state == "drift"


def test_a_reveal_without_a_served_label_is_a_mistake_in_no_column():
    statistics = Statistics()
    statistics.observe(0, -1, at_us=START_US, predicted_at_us=START_US, updated=True, stale_updates=0)
    report = statistics.report(START_US, 1)
    assert report["mistakes"] == 1
    assert report["confusion"]["matrix"] == [[0]]
    assert report["classes"][0] == {"support": 1, "precision": None, "recall": 0.0, "f1": 0.0}


@pytest.mark.parametrize("classes", [2, 3, slow(12)])
@pytest.mark.parametrize("error", [slow(0.0), 0.02, 0.5])
def test_blocks_of_any_size_leave_each_statistic_as_one_by_one_would(classes, error):
    rng = random.Random(classes)
    alone, together = Statistics(), Statistics()
    for number in range(60):
        size = rng.choice([1, 2, 7, 31, 32, 33, 300, 1000])
        at_us = START_US + number * rng.choice([0, 1, 30_000_000, 3_000_000_000])
        truths = np.array([rng.randrange(classes) for _ in range(size)])
        least = -1 if number % 9 == 8 else 0
        served = np.array([rng.randrange(least, classes) if rng.random() < error else int(t) for t in truths])
        gaps = np.array([rng.choice([0.0, rng.random(), 10 * rng.random()]) for _ in range(size)])
        rises, probabilities = [], []
        for truth, answer, gap in zip(truths.tolist(), served.tolist(), gaps.tolist(), strict=True):
            standing = alone.calibration.standing(gap)
            probabilities.append(standing[2])
            if alone.observe(
                truth,
                answer,
                at_us=at_us,
                predicted_at_us=at_us,
                updated=truth != answer,
                stale_updates=0,
                standing=standing,
            ):
                rises.append(alone.revealed)
        block = together.observe_rows(truths, served, truths != served, gaps, at_us=at_us)
        assert block.rises == rises
        assert block.probabilities == probabilities
        for name in STATISTICS:
            assert getattr(together, name).state() == getattr(alone, name).state(), name
        assert together.state() == alone.state()


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 1500), st.lists(st.floats(0, 1), max_size=3), st.integers(1, 12), st.integers(0, 2**32))
def test_stopping_and_going_on_equals_never_having_stopped(rounds, stops, classes, seed):
    reveals = list(stream(random.Random(seed), rounds, classes))
    unbroken = observed(reveals)
    broken, before = Statistics(), 0
    for stop in sorted(int(fraction * rounds) for fraction in stops):
        for reveal in reveals[before:stop]:
            broken.observe(**reveal)
        before = stop
        saved = broken.state()
        assert plain(saved)
        broken = Statistics.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(saved)))
        broken.check(classes)
        assert broken.state() == saved
    for reveal in reveals[before:]:
        broken.observe(**reveal)
    assert msgspec.msgpack.encode(broken.state()) == msgspec.msgpack.encode(unbroken.state())
    assert broken.report(START_US + 10**9, classes) == unbroken.report(START_US + 10**9, classes)


def test_a_chosen_delta_survives_a_restart():
    statistics = Statistics()
    statistics.drift = Drift(delta=0.05)
    statistics = Statistics.restore(statistics.state())
    assert statistics.report(START_US, 2)["drift"]["delta"] == 0.05


@pytest.mark.thorough
@pytest.mark.usefixtures("only_this_thread")
def test_an_old_model_takes_at_most_17_kilobytes_in_memory_and_in_its_snapshot():
    rng = random.Random(2)
    x = np.linspace(-1.0, 1.0, 7)

    def observe(number):
        at_us = START_US + number * 1_000_000
        wrong = rng.random() < 0.5
        delay_us = int(2 ** rng.uniform(0, 36)) * 1000  # from a millisecond to years: every bucket occurs
        statistics.observe(
            number & 1,
            number & 1 ^ wrong,
            at_us=at_us,
            predicted_at_us=at_us - delay_us,
            updated=wrong,
            stale_updates=rng.randrange(1000),
        )
        bound.observe(x, 1, updated=wrong, score=0.1, stale_updates=number)

    statistics, bound = Statistics(), Bound(1.0, 1.0, None)
    for number in range(180_000):  # more than two days, so that every window is full
        observe(number)
    saved = statistics.state(), bound.state()
    Statistics.restore(saved[0])  # msgspec keeps what it finds out about a type
    del statistics, bound
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    statistics, bound = Statistics.restore(saved[0]), Bound.restore(saved[1], x)
    for number in range(180_000, 181_000):  # grown, not just as large as when restored
        observe(number)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(statistics.state()["delay"][-1]) > 250
    encoded = msgspec.msgpack.encode([statistics.state(), bound.state()])
    assert 12 * 1024 <= after - before <= 17 * 1024
    assert len(encoded) <= 17 * 1024


@pytest.mark.usefixtures("only_this_thread")
def test_a_young_model_takes_about_2_3_kilobytes():
    models, rounds = 200, 3
    x = np.linspace(-1.0, 1.0, 5)
    one = gap = 1.0
    kept = [None] * 2 * (models + 1)
    for count in range(models + 1):
        if (
            count == 1
        ):  # what the first one makes for all stays out of it, and so does what the test itself keeps
            tracemalloc.start()
        statistics, bound = Statistics(), Bound(one, one, None)
        for number in range(rounds):
            at_us = START_US + number * 1_000_000
            wrong = number == 0
            statistics.observe(
                0,
                int(wrong),
                at_us=at_us,
                predicted_at_us=at_us - 7_000_000,
                updated=wrong,
                stale_updates=0,
                standing=statistics.calibration.standing(gap),
            )
            bound.observe(x, -1, updated=wrong, score=0.1, stale_updates=0)
        kept[2 * count], kept[2 * count + 1] = statistics, bound
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken / models <= 2350
