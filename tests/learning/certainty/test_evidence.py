"""The evidence for a challenger: what it is, and that it may be looked at after every round."""

from collections.abc import Iterable
from fractions import Fraction
from math import comb, factorial, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.learning import saved
from service.learning.certainty.anytime import (
    EVIDENCE_MAX,
    _is_enough_exactly,
    evidence,
    is_enough,
    log_evidence,
)
from service.learning.certainty.duel import Duel, Record

STREAMS, ROUNDS, ALPHA = 400, 5_000, 0.05


def exactly(won: int, lost: int) -> Fraction:
    """E by its definition, in whole numbers."""
    bets = [(Fraction(129 + 2 * j, 128)) ** won * Fraction(127 - 2 * j, 128) ** lost for j in range(64)]
    return sum(bets, Fraction(0)) / 64


@given(st.integers(0, 300), st.integers(0, 300))
def test_evidence_is_the_mean_of_64_bets(won: int, lost: int) -> None:
    expected = exactly(won, lost)
    assert evidence(won, lost) == pytest.approx(float(expected), rel=1e-10)


@given(st.integers(0, 60), st.integers(0, 60))
def test_evidence_is_close_to_the_integral_over_all_bets(won: int, lost: int) -> None:
    n = won + lost
    tail = Fraction(sum(comb(n + 1, k) for k in range(won + 1)), 2 ** (n + 1))
    integral = Fraction(2 ** (n + 1) * factorial(won) * factorial(lost), factorial(n + 1)) * tail
    assert log_evidence(won, lost) == pytest.approx(log(integral), abs=0.05)


@given(st.integers(0, 400), st.integers(0, 400), st.integers(1, 8), st.floats(0.5, 0.9999))
def test_enough_evidence_is_k_over_alpha_on_every_machine(
    won: int, lost: int, entered: int, confidence: float
) -> None:
    expected = exactly(won, lost) * (1 - Fraction(confidence)) >= entered
    assert is_enough(won, lost, entered, confidence) == expected
    assert _is_enough_exactly(won, lost, entered, confidence) == expected


def test_much_evidence_is_told_as_a_number_that_json_has() -> None:
    assert evidence(10**6, 0) == EVIDENCE_MAX
    assert evidence(0, 10**6) < 1e-5
    assert is_enough(10**9, 10**8, 8, 0.9999) and not is_enough(10**8, 10**9, 8, 0.9999)


def ever_enough(won: np.ndarray, factor: int) -> np.ndarray:
    """Which of many streams, their rows of rounds won (1) or lost (0), ever have enough evidence."""
    needed = np.full(won.shape[1] + 1, won.shape[1] + 1)  # rounds won, by rounds lost
    least = 0
    for lost in range(won.shape[1] + 1):
        while least + lost <= won.shape[1] and not is_enough(least, lost, factor, 1 - ALPHA):
            least += 1
        needed[lost] = least
    total = won.cumsum(axis=1)
    return (total >= needed[np.arange(1, won.shape[1] + 1) - total]).any(axis=1)


@pytest.mark.parametrize("without", [range(1, 6), [1] * 20], ids=["5 entrants", "20 restarts"])
def test_false_promotions_in_a_life_are_at_most_alpha_where_each_comparison_has_a_number_of_its_own(
    without: Iterable[int],
) -> None:
    """By rules 1 challengers that entered one after another had K/α, and one that restarted 1/α each time."""
    chance = np.random.default_rng(23)
    numbered, before = np.zeros((2, 2_000), dtype=bool)
    for number, factor in enumerate(without, 1):
        won = chance.integers(2, size=(2_000, 500))  # no better than the champion
        numbered |= ever_enough(won, number * (number + 1))
        before |= ever_enough(won, factor)
    assert 0 < numbered.mean() <= ALPHA < before.mean()


def promoted_at(
    chance: np.random.Generator, rounds: int, won: float, lost: float, rounds_min: int
) -> int | None:
    """With which round a challenger is promoted that wins and loses rounds with these chances."""
    duel = Duel()
    for number, luck in enumerate(chance.random(rounds).tolist(), 1):
        if luck < won:
            duel.observe(mistaken=False, champion_mistaken=True)
        elif luck < won + lost:
            duel.observe(mistaken=True, champion_mistaken=False)
        else:
            duel.observe(mistaken=False, champion_mistaken=False)
        if luck < won and duel.is_decided(rounds_min, 2, 1 - ALPHA):
            return number
    return None


@pytest.mark.slow
def test_of_equal_learners_at_most_alpha_are_promoted_though_each_round_is_looked_at() -> None:
    chance = np.random.default_rng(20)
    found = [promoted_at(chance, ROUNDS, 0.1, 0.1, rounds_min=1) for _ in range(STREAMS)]
    promoted = sum(number is not None for number in found)
    assert 0 < promoted <= ALPHA * STREAMS


@pytest.mark.parametrize(
    ("won", "lost"),
    [(0.10 * 0.95, 0.05 * 0.90), (0.10, 0.05), (0.12, 0.07)],
    ids=["errors of 10 and 5 %, independent", "they differ in 15 % of rounds", "in 19 %"],
)
def test_a_challenger_that_is_five_points_better_is_promoted_within_2000_rounds(
    won: float, lost: float
) -> None:
    chance = np.random.default_rng(21)
    found = [promoted_at(chance, 2_000, won, lost, rounds_min=500) for _ in range(100)]
    assert sum(number is not None for number in found) >= 95
    assert min(number for number in found if number is not None) >= 500


def test_the_interval_of_the_difference_holds_at_all_times_at_once() -> None:
    chance = np.random.default_rng(22)
    outside = 0
    for _ in range(40):
        duel = Duel()
        for number, (one, other) in enumerate(chance.random((1000, 2)).tolist(), 1):
            duel.observe(one < 0.2, other < 0.25)
            if not number % 25:
                found = duel.report(0.95, 1)["difference_interval"]
                if not found["low"] <= -0.05 <= found["high"]:
                    outside += 1
                    break
    assert outside <= 2


def test_duels_and_records_are_restored_to_the_bit_and_refused_by_the_place() -> None:
    duel, record = Duel(), Record()
    for number in range(100):
        duel.observe(number % 3 == 0, number % 5 == 0)
        record.observe(number % 3 == 0)
    assert Duel.restore(duel.state()).state() == duel.state()
    assert Record.restore(record.state()).state() == record.state()
    for kind, state in ((Duel, [10, 6, 5, 1.0]), (Duel, [10, 1, 1, 41.0]), (Record, [3, 4, 0.5])):
        with pytest.raises(saved.BadState):
            kind.restore(state)
