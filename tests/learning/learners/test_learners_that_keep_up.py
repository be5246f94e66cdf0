"""Streams that change: which learners follow, and what the others lose."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from service.learning.classes.one_vs_all import Binary
from service.learning.classes.runs import learn_rows
from service.learning.learners import algorithms
from service.learning.vectors import Vector, Vectors
from tests.learning.rounds import Model, One


def turning(count: int, every: int, *, seed: int = 7) -> list[tuple[list[float], int]]:
    """Two classes on the sides of a plane, which is another one `every` so many rounds."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 8))
    planes = rng.normal(size=(-(-count // every), 8))
    sides = np.add.reduce(x * planes[np.arange(count) // every], axis=1) > 0
    return list(zip(x.tolist(), sides.astype(int).tolist(), strict=True))


def mistakes(algorithm: str, stream: list[tuple[list[float], int]], **parameters: Any) -> int:
    return Model({"algorithm": algorithm, **parameters}).run(stream).mistakes


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("algorithm", ["arow_forgetting", "logistic"])
@pytest.mark.thorough
def test_on_a_stream_that_changes_its_mind_they_err_far_less_than_arow(algorithm: str, seed: int) -> None:
    stream = turning(8000, 2000, seed=seed)
    assert mistakes(algorithm, stream) < 0.5 * mistakes("arow", stream)


def test_the_more_is_forgotten_the_sooner_it_has_caught_up() -> None:
    stream = turning(4200, 4000)
    before, after = stream[:4000], stream[4000:]
    caught_up = []
    for forget in (1e-6, 1e-4, 1e-2):
        model = Model({"algorithm": "arow_forgetting", "forget": forget}).run(before)
        so_far = model.mistakes
        caught_up.append(model.run(after).mistakes - so_far)
    assert caught_up == sorted(caught_up, reverse=True)
    assert caught_up[0] > caught_up[1] > caught_up[2]


def test_forgetting_next_to_nothing_is_arow() -> None:
    stream = turning(500, 500)
    forgetting, arow = Model({"algorithm": "arow_forgetting", "forget": 1e-300}), Model({"algorithm": "arow"})
    assert forgetting.run(stream).weights().tobytes() == arow.run(stream).weights().tobytes()


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_a_variance_stays_between_what_an_update_forgets_and_one(covariance: str) -> None:
    learner = grown({"algorithm": "arow_forgetting", "r": 0.01, "forget": 0.1, "covariance": covariance}, 8)
    for x, side in turning(300, 50):
        learner.learn(Vector(np.array(x)), 2 * side - 1, None)
        kept = learner.state()["covariance"]
        variances = kept if covariance == "diagonal" else np.linalg.eigvalsh(kept)
        assert (variances <= 1 + 1e-12).all()
        assert learner.updates == 0 or (variances >= 0.1).all()


def test_logistic_regression_learns_a_little_even_where_it_is_right() -> None:
    learner = grown({"algorithm": "logistic"}, 2)
    z, steps = Vector(np.array([1.0, 1.0])), []
    for _ in range(50):
        before = learner.score(z)
        assert learner.learn(z, 1, 1)
        steps.append(learner.score(z) - before)
    assert all(0 < later < sooner for sooner, later in pairwise(steps))
    learner.learner.start_from(np.array([[8.0, 8.1]]))
    assert not learner.learn(z, 1, 1)
    assert learner.learn(z, -1, 1)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_rows_of_logistic_regression_are_its_examples_one_by_one_to_the_bit(is_sparse: bool) -> None:
    chance = np.random.default_rng(12)
    rows = chance.normal(size=(400, 6)) * 10 ** chance.uniform(-6, 3, 6)
    rows[::5] = 0.0
    rows[::7] *= 1e6  # of which it gets quite sure
    truths = (rows[:, 0] > 0).astype(np.int64)
    indices = chance.permutation(9)[:6] if is_sparse else None
    vectors = Vectors(rows, indices)
    alone, together = (logistic(9 if is_sparse else 6) for _ in range(2))
    served, scores, updated = [], [], []
    for at, truth in enumerate(truths.tolist()):
        chosen, score, _ = alone.decide(vectors.row(at))
        served.append(chosen)
        scores.append(score.hex())
        updated.append(alone.learn(vectors.row(at), truth, chosen))
    learned = learn_rows(together, vectors, truths)
    assert learned.served.tolist() == served
    assert [score.hex() for score in learned.scores.tolist()] == scores
    assert learned.updated.tolist() == updated and 0 < sum(updated) < 320
    assert together.updates == alone.updates
    for name, kept in alone.state().items():
        assert np.array_equal(together.state()[name], kept), name


def logistic(size: int) -> Binary:
    classifier = Binary(algorithms.build(algorithms.complete({"algorithm": "logistic"}), tie=1), 1)
    classifier.grow(size)
    return classifier


def grown(settings: dict[str, Any], size: int) -> One:
    return One(algorithms.complete(settings), tie=1, size=size)
