"""Two classes that no line separates."""

import numpy as np
import pytest

from service.learning.learners.algorithms import ALGORITHMS, AUTO
from tests.learning.rounds import Model
from tests.support.tiers import slow


def xor(count: int) -> list[tuple[list[float], int]]:
    x = np.random.default_rng(0).uniform(-1, 1, size=(count, 2))
    return list(zip(x.tolist(), ((x[:, 0] > 0) ^ (x[:, 1] > 0)).astype(int).tolist(), strict=True))


def error_over_the_last_thousand(model: Model) -> float:
    rounds = xor(5000)
    model.run(rounds[:4000])
    before = model.mistakes
    model.run(rounds[4000:])
    return (model.mistakes - before) / 1000


LINEAR = [name for name in ALGORITHMS if name != AUTO]


@pytest.mark.parametrize("algorithm", [LINEAR[0], *map(slow, LINEAR[1:])])
def test_a_linear_learner_fails_at_xor(algorithm: str) -> None:
    assert error_over_the_last_thousand(Model({"algorithm": algorithm})) > 0.35


@pytest.mark.slow
def test_a_panel_learns_xor_as_it_is() -> None:
    assert error_over_the_last_thousand(Model({"algorithm": AUTO})) < 0.05


@pytest.mark.parametrize("algorithm", LINEAR)
@pytest.mark.slow
def test_fourier_features_learn_xor(algorithm: str) -> None:
    model = Model({"algorithm": algorithm}, features={"fourier": {"features": 256, "gamma": 4.0}})
    assert error_over_the_last_thousand(model) < 0.05
