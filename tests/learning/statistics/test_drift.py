"""ADWIN, against river's and against a plain one that keeps every bucket; and how often it is wrong."""

import random
from itertools import accumulate
from math import log, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river.drift import ADWIN

from service.learning.statistics.drift import SHOWN_ROUNDS, Drift
from tests.learning.statistics.records import asked, block
from tests.support.tiers import slow


class PlainAdwin:
    """The algorithm as described: rows of buckets, every cut tested, at both deltas."""

    def __init__(self, delta):
        self.delta = delta
        self.restart()

    def restart(self):
        self.rows = [[]]  # row i: buckets of 2^i rounds, oldest first
        self.rounds = 0
        self.warning = False

    def observe(self, value):
        self.rounds += 1
        self.rows[0].append(value)
        for row in range(len(self.rows)):
            if len(self.rows[row]) == 6:
                if row + 1 == len(self.rows):
                    self.rows.append([])
                self.rows[row + 1].append(self.rows[row].pop(0) + self.rows[row].pop(0))
        if self.rounds % 32:
            return 0
        newest_first = self.newest_first()
        self.warning = False
        for cut in range(1, len(newest_first)):
            newer, older = newest_first[:cut], newest_first[cut:]
            rise = self.rise(newer, older, self.delta)
            if rise:
                self.restart()
                return 1 if rise > 0 else -1
            self.warning = self.warning or self.rise(newer, older, min(1.0, 10 * self.delta)) > 0
        return 0

    def newest_first(self):
        return [(2**i, ones) for i, row in enumerate(self.rows) for ones in reversed(row)]

    def rise(self, newer, older, delta):
        n1, n0 = sum(size for size, _ in newer), sum(size for size, _ in older)
        if min(n0, n1) < 5:
            return 0
        u1, u0 = sum(ones for _, ones in newer), sum(ones for _, ones in older)
        n = n0 + n1
        p = (u0 + u1) / n
        t = log(2 * log(n) / delta)
        m = 1 / (n0 - 4) + 1 / (n1 - 4)
        difference = u1 / n1 - u0 / n0
        return difference if abs(difference) > sqrt(2 * m * p * (1 - p) * t) + 2 / 3 * t * m else 0


def stream(rng, length):
    """Stretches of Bernoulli trials, from rounds to thousands long, from always right to always wrong."""
    values = []
    while len(values) < length:
        rate = rng.choice([0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.99, 1.0])
        values += [rng.random() < rate for _ in range(rng.choice([7, 50, 200, 500, 1000, 5000]))]
    return values[:length]


def river_changes(values, delta=0.002):
    oracle, changes = ADWIN(delta=delta), []
    for number, value in enumerate(values, 1):
        oracle.update(int(value))
        if oracle.drift_detected:
            changes.append(number)
    return changes


def our_changes(values, delta=0.002):
    drift, changes = Drift(delta), []
    for number, value in enumerate(values, 1):
        drift.observe(value, number)
        if not drift.rounds:  # any change, rise or fall, starts afresh
            changes.append(number)
    return changes


@pytest.mark.slow
def test_change_points_are_rivers():
    rng = random.Random(10)
    changes = 0
    for _ in range(150):
        values = stream(rng, rng.choice([500, 3_000, 20_000]))
        ours = our_changes(values)
        assert ours == river_changes(values)
        changes += len(ours)
    assert changes > 300


@pytest.mark.parametrize("delta", [0.00001, 0.05, 0.5])
def test_change_points_are_rivers_at_other_deltas(delta):
    values = stream(random.Random(11), 40_000)
    ours = our_changes(values, delta)
    assert ours
    assert ours == river_changes(values, delta)


def test_a_window_of_hundreds_of_thousands_of_rounds_is_still_rivers():
    rng = random.Random(12)
    values = [rng.random() < 0.1 for _ in range(300_000)] + [rng.random() < 0.12 for _ in range(20_000)]
    ours = our_changes(values)
    assert ours
    assert ours == river_changes(values)


# At 0.002 no newer part below 10 rounds can be a change; at 0.5 the smallest parts count.
@pytest.mark.parametrize("delta", [0.002, 0.5])
@settings(deadline=None, max_examples=60)
@given(
    stretches=st.lists(st.tuples(st.integers(1, 400), st.floats(0, 1)), min_size=1, max_size=6),
    seed=st.integers(0, 2**32),
)
def test_direction_and_warning_are_those_of_the_plain_algorithm(delta, stretches, seed):
    rng = random.Random(seed)
    values = [rng.random() < rate for length, rate in stretches for _ in range(length)]
    drift, plain, rises, last = Drift(delta), PlainAdwin(delta), 0, None
    for number, value in enumerate(values, 1):
        change = plain.observe(value)
        if change > 0:
            rises, last = rises + 1, number
        assert drift.observe(value, number) == (change > 0)
        assert (drift.rounds, drift.warning) == (plain.rounds, plain.warning)
    assert (drift.count, drift.last_round) == (rises, last)


def bursts(rng):
    """Hardly any mistakes, then some in a row: changes that few cuts show, and some only a warning."""
    rate = rng.choice([0.01, 0.05, 0.2])
    values = []
    while len(values) < 1_500:
        values += [rng.random() < rate for _ in range(rng.randint(20, 600))]
        values += [rng.random() < 0.8 for _ in range(rng.randint(1, 24))]
    return values


@pytest.mark.parametrize("delta", [slow(0.00001), 0.002, slow(0.05), slow(0.5)])
def test_many_at_once_are_the_same_as_one_by_one(delta):
    rng = random.Random(13)
    warnings = changes = 0
    for values in [stream(rng, 8_000) for _ in range(10)] + [bursts(rng) for _ in range(150)]:
        alone, together = Drift(delta), Drift(delta)
        done = 0
        while done < len(values):
            part = values[done : done + rng.choice([1, 31, 32, 96, 100, 257, 1000, 2500])]
            rises = [number for number, value in enumerate(part, done + 1) if alone.observe(value, number)]
            together.observe_rows(rounds := block(part, done))
            assert rounds.rises == rises
            done += len(part)
            assert together.state() == alone.state()
            warnings += alone.warning
            changes += alone.rounds < done
    assert warnings
    assert changes > 10


def test_the_window_is_cut_where_the_exponential_histogram_has_its_borders():
    rng = random.Random(14)
    drift, plain = Drift(), PlainAdwin(0.002)
    for number in range(1, 20_001):
        value = rng.random() < 0.3
        drift.observe(value, number)
        plain.observe(value)
        if number % 32 == 0:
            sizes, ones = zip(*plain.newest_first(), strict=True)
            borders = list(zip(accumulate(sizes), accumulate(ones), strict=True))
            # Parts below 5 are never tested; the whole window is no cut, but harmless as the last.
            assert [cut for cut in drift._cuts() if cut[0] <= number] == [b for b in borders if b[0] >= 5]
    assert drift.rounds == 20_000


def test_a_fall_is_no_drift_but_starts_afresh():
    drift = Drift()
    found = [drift.observe(number <= 500, number) for number in range(1, 1001)]
    assert not any(found)
    assert drift.count == 0
    assert drift.rounds < 500
    assert drift.report(asked(revealed=1000))["drift"] == {
        "state": "stable",
        "count": 0,
        "last_round": None,
        "delta": 0.002,
    }


def test_a_rise_warns_then_is_drift_for_a_thousand_reveals_then_stable():
    rng = random.Random(13)
    drift, states = Drift(), []
    for number in range(1, 8001):
        drift.observe(rng.random() < (0.1 if number <= 4000 else 0.2), number)
        states.append(drift.state_at(number))
    first = drift.last_round
    assert drift.count == 1
    assert 4000 < first < 5000
    assert states[first - 2] == "warning"
    assert states[first - 1 : first - 1 + SHOWN_ROUNDS] == ["drift"] * SHOWN_ROUNDS
    assert states[first - 1 + SHOWN_ROUNDS] != "drift"
    assert states[-1] == "stable"
    assert states[:3500].count("stable") > 3400


@pytest.mark.slow
def test_false_alarms_on_stationary_streams_are_rare(capsys):
    rounds, alarms, changes = 10_000, 0, 0
    rates = [0.01, 0.05, 0.1, 0.3, 0.5]
    for seed in range(200):
        rng = random.Random(1000 + seed)
        rate = rates[seed % len(rates)]
        drift = Drift()
        for number in range(1, rounds + 1):
            drift.observe(rng.random() < rate, number)
            changes += not drift.rounds
        alarms += drift.count > 0
    with capsys.disabled():
        print(
            f"\nADWIN, delta 0.002: {alarms} of 200 stationary streams of {rounds} rounds had a false drift"
            f" ({alarms / 2:.1f}%), {changes} false changes in {200 * rounds // 32} tests"
        )
    assert changes / (200 * rounds // 32) <= 0.002  # what delta promises of a test
    assert alarms <= 2  # docs/statistics.md: fewer than one such stream in 600


def test_delta_must_be_a_probability():
    for delta in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="delta"):
            Drift(delta)
