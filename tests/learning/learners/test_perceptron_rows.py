"""Whatever is guessed about a block of rows, the perceptron learns what it would learn one by one, to the bit."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.learning.classes.one_vs_all import Binary
from service.learning.learners import single_rows
from service.learning.learners.perceptron import Perceptron
from service.learning.vectors import Array, Vectors

RULES = st.sampled_from([("mistake", 0.0), ("margin", 0.0), ("margin", 0.5)])
SCHEDULES = st.sampled_from(["constant", "inverse", "inverse_sqrt"])


def classifier_of(rule: tuple[str, float], schedule: str, size: int, tie: int = 1) -> Binary:
    learner = Perceptron(rule=rule[0], delta=rule[1], eta0=0.3, schedule=schedule, tie=tie)
    classifier = Binary(learner, (tie + 1) // 2)
    classifier.grow(size)
    return classifier


def one_by_one(classifier: Binary, vectors: Vectors, signs: list[int]) -> tuple[list[float], list[bool]]:
    scores, updated = [], []
    for at, y in enumerate(signs):
        served, score, _ = classifier.decide(vectors.row(at))
        scores.append(score)
        updated.append(classifier.learn(vectors.row(at), (y + 1) // 2, served))
    return scores, updated


def same_both_ways(
    rows: Array, signs: list[int], rule: tuple[str, float], schedule: str, tie: int, indices: Any = None
) -> None:
    size = rows.shape[1] if indices is None else int(indices.max()) + 1
    alone, together = (classifier_of(rule, schedule, size, tie) for _ in range(2))
    vectors = Vectors(rows, indices)
    expected = one_by_one(alone, vectors, signs)
    scores, updated = single_rows.learn_perceptron(together.learner, vectors, np.array(signs))
    assert [score.hex() for score in scores.tolist()] == [score.hex() for score in expected[0]]
    assert updated.tolist() == expected[1]
    assert together.rows().tobytes() == alone.rows().tobytes()
    assert together.updates == alone.updates


@settings(deadline=None)
@given(st.data(), RULES, SCHEDULES, st.sampled_from([-1, 1]), st.booleans())
def test_rows_with_ties_and_near_ties(
    data: st.DataObject, rule: Any, schedule: str, tie: int, sparse: bool
) -> None:
    """Tenths add up to nearly nothing, and to what depends on their order."""
    chance = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    count, size = data.draw(st.integers(1, 600)), data.draw(st.integers(1, 20))
    rows = chance.integers(-3, 4, size=(count, size)) / data.draw(st.sampled_from([1, 10]))
    signs = chance.choice([-1, 1], count).tolist()
    indices = chance.permutation(size + 5)[:size] if sparse else None
    same_both_ways(rows, signs, rule, schedule, tie, indices)


@settings(deadline=None)  # wrong guesses take their time
@given(st.integers(0, 2**32), RULES, SCHEDULES, st.floats(0, 1))
@pytest.mark.slow
def test_wrong_guesses_are_found(seed: int, rule: Any, schedule: str, guessed: float) -> None:
    chance = np.random.default_rng(seed)

    def guess(learner: Any, weights: Array, rows: Array, *_: Any) -> list[int]:
        return np.flatnonzero(chance.random(len(rows)) < guessed).tolist()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(single_rows, "_guess", guess)
        rows = chance.normal(size=(150, 9)) * 10 ** chance.uniform(-9, 9, 9)
        same_both_ways(rows, chance.choice([-1, 1], 150).tolist(), rule, schedule, 1)


def test_guesses_are_nearly_always_right() -> None:
    """Else it would still be right, but slow."""
    chance = np.random.default_rng(1958)
    rows = chance.normal(size=(5_000, 64))
    signs = np.where((rows @ chance.normal(size=64) > 0) ^ (chance.random(5_000) < 0.05), 1, -1)
    learner = classifier_of(("mistake", 0.0), "constant", 64).learner
    wrong = 0
    for start in range(0, len(rows), single_rows.WINDOW_MAX):
        part = slice(start, start + single_rows.WINDOW_MAX)
        rates = learner.next_rates(len(rows[part]))
        guessed = single_rows._guess(learner, learner.weights[0].copy(), rows[part], signs[part], rates)
        _, updated = single_rows.learn_perceptron(learner, Vectors(rows[part]), signs[part])
        wrong += guessed != np.flatnonzero(updated).tolist()
    assert wrong <= 1
