"""Each learner against its formula, written down a second time as plainly as the papers have it."""

from collections.abc import Callable, Iterator
from math import exp, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from service.learning.learners import algorithms
from service.learning.vectors import Vector
from tests.learning.rounds import One, dense_rounds

Example = tuple[np.ndarray, int]


def examples(count: int = 150) -> list[Example]:
    return [(np.array([*x, 1.0]), 2 * truth - 1) for x, truth in dense_rounds(count, 2, seed=11)]


def step(score: float) -> int:
    return 1 if score >= 0 else -1


WEIGHTS = (0.25, 1.0, 3.0, 1.0, 7.5)
"""What the examples weigh, in turn."""


def weighted() -> Iterator[tuple[np.ndarray, int, float]]:
    return ((z, y, WEIGHTS[number % len(WEIGHTS)]) for number, (z, y) in enumerate(examples()))


def perceptron(margin: float | None, eta: Callable[[int], float]) -> Iterator[np.ndarray]:
    w, k = np.zeros(5), 0
    for z, y in examples():
        if (step(w @ z) != y) if margin is None else (y * (w @ z) <= margin):
            k += 1
            w = w + eta(k) * y * z
        yield w


def averaged(eta: float) -> Iterator[np.ndarray]:
    w, history = np.zeros(5), []
    for z, y in examples():
        if step(w @ z) != y:
            w = w + eta * y * z
        history.append(w)
        yield sum(history) / len(history)


def passive_aggressive(tau: Callable[[float, float], float]) -> Iterator[np.ndarray]:
    w = np.zeros(5)
    for z, y in examples():
        loss = max(0.0, 1 - y * (w @ z))
        w = w + tau(loss, z @ z) * y * z
        yield w


def arow(r: float, diagonal: bool) -> Iterator[np.ndarray]:
    w, S = np.zeros(5), np.eye(5)
    for z, y in examples():
        if y * (w @ z) < 1:
            beta = 1 / (z @ S @ z + r)
            alpha = beta * (1 - y * (w @ z))
            w = w + alpha * y * (S @ z)
            S = S - beta * np.outer(S @ z, S @ z)
            if diagonal:
                S = np.diag(np.diag(S))
        yield w


def forgetting_arow(r: float, forget: float, diagonal: bool, weighs: bool = False) -> Iterator[np.ndarray]:
    """By its inverse, as Kalman has it: Σ⁻¹ gains zzᵀ/r; then a share of Σ is that of the start."""
    w, S = np.zeros(5), np.eye(5)
    for z, y, h in weighted():
        weight = h if weighs else 1.0
        m = y * (w @ z)
        if m < 1:
            w = w + (1 - m) / (z @ S @ z + r / weight) * y * (S @ z)
            if diagonal:
                S = np.diag(np.diag(S) - np.diag(S) ** 2 * z**2 / (z @ S @ z + r / weight))
            else:
                S = np.linalg.inv(np.linalg.inv(S) + np.outer(z, z) * weight / r)
            S = (1 - forget) * S + forget * np.eye(5)
        yield w


def logistic(eta: float, weighs: bool = False) -> Iterator[np.ndarray]:
    """Each weight by itself, with the math library's exponential and all gradients so far in a list."""
    w: list[float] = [0.0] * 5
    gradients: list[list[float]] = [[] for _ in w]
    for z, y, h in weighted():
        m = y * sum(a * b for a, b in zip(w, z.tolist(), strict=True))
        for i, value in enumerate(z.tolist()):
            gradients[i].append(-(h if weighs else 1.0) * y * value / (1 + exp(m)))
            w[i] -= eta * gradients[i][-1] / sqrt(1 + sum(g * g for g in gradients[i]))
        yield np.array(w)


def scw1(C: float, eta: float, diagonal: bool) -> Iterator[np.ndarray]:
    phi = NormalDist().inv_cdf(eta)
    psi, zeta = 1 + phi**2 / 2, 1 + phi**2
    w, S = np.zeros(5), np.eye(5)
    for z, y in examples():
        m, v = y * (w @ z), z @ S @ z
        if phi * sqrt(v) - m > 0:
            alpha = (-m * psi + sqrt(m**2 * phi**4 / 4 + v * phi**2 * zeta)) / (v * zeta)
            alpha = min(C, max(0.0, alpha))
            u = (-alpha * v * phi + sqrt(alpha**2 * v**2 * phi**2 + 4 * v)) ** 2 / 4
            beta = alpha * phi / (sqrt(u) + v * alpha * phi)
            w = w + alpha * y * (S @ z)
            S = S - beta * np.outer(S @ z, S @ z)
            if diagonal:
                S = np.diag(np.diag(S))
        yield w


FORMULAS: dict[str, tuple[dict[str, Any], Callable[[], Iterator[np.ndarray]]]] = {
    "mistake": ({}, lambda: perceptron(None, lambda k: 1.0)),
    "mistake, η0/k": ({"schedule": "inverse", "eta0": 2}, lambda: perceptron(None, lambda k: 2 / k)),
    "margin": ({"rule": "margin"}, lambda: perceptron(0.0, lambda k: 1.0)),
    "margin 0.7, η0/√k": (
        {"rule": "margin", "delta": 0.7, "schedule": "inverse_sqrt", "eta0": 0.3},
        lambda: perceptron(0.7, lambda k: 0.3 / sqrt(k)),
    ),
    "averaged": ({"algorithm": "averaged", "eta0": 0.5}, lambda: averaged(0.5)),
    "pa": ({"algorithm": "pa"}, lambda: passive_aggressive(lambda loss, n: loss / n)),
    "pa1": ({"algorithm": "pa1", "C": 0.1}, lambda: passive_aggressive(lambda loss, n: min(0.1, loss / n))),
    "pa2": (
        {"algorithm": "pa2", "C": 0.1},
        lambda: passive_aggressive(lambda loss, n: loss / (n + 1 / (2 * 0.1))),
    ),
    "arow": ({"algorithm": "arow", "r": 0.7}, lambda: arow(0.7, True)),
    "arow, full": ({"algorithm": "arow", "r": 0.7, "covariance": "full"}, lambda: arow(0.7, False)),
    "forgetting": (
        {"algorithm": "arow_forgetting", "r": 0.7, "forget": 0.02},
        lambda: forgetting_arow(0.7, 0.02, True),
    ),
    "forgetting, full": (
        {"algorithm": "arow_forgetting", "r": 0.7, "forget": 0.3, "covariance": "full"},
        lambda: forgetting_arow(0.7, 0.3, False),
    ),
    "scw": ({"algorithm": "scw", "C": 0.5, "eta": 0.85}, lambda: scw1(0.5, 0.85, True)),
    "scw, C not reached": ({"algorithm": "scw", "C": 1e6}, lambda: scw1(1e6, 0.9, True)),
    "scw, full": (
        {"algorithm": "scw", "C": 0.5, "eta": 0.95, "covariance": "full"},
        lambda: scw1(0.5, 0.95, False),
    ),
    "logistic": ({"algorithm": "logistic", "eta0": 0.3}, lambda: logistic(0.3)),
}

NEAR = {"logistic": 1e-6}
"""Its exponential is our own, the same on every machine, and within 1e-8."""


def learner_for(settings: dict[str, Any], tie: int = 1) -> One:
    return One(algorithms.complete(settings), tie=tie, size=5)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_learner_follows_its_formula(name: str) -> None:
    settings, formula = FORMULAS[name]
    learner = learner_for(settings)
    changes = 0
    for (z, y), expected in zip(examples(), formula(), strict=True):
        changes += learner.learn(Vector(z), y, None)
        near = NEAR.get(name, 1e-9)
        np.testing.assert_allclose(learner.weights, expected, rtol=near, atol=near / 1e3)
        assert learner.score(Vector(z)) == pytest.approx(float(z @ expected), rel=near, abs=near)
    assert learner.updates == changes
    assert 10 < changes <= 150  # a stream that is too easy tests nothing


def weighted_perceptron(eta: Callable[[int], float], margin: float | None = None) -> Iterator[np.ndarray]:
    w, k = np.zeros(5), 0
    for z, y, h in weighted():
        if (step(w @ z) != y) if margin is None else (y * (w @ z) <= margin):
            k += 1
            w = w + h * eta(k) * y * z
        yield w


def weighted_averaged(eta: float) -> Iterator[np.ndarray]:
    """A mean over the rounds: weights count in the steps, not in the mean."""
    history: list[np.ndarray] = []
    for w in weighted_perceptron(lambda k: eta):
        history.append(w)
        yield sum(history) / len(history)


def weighted_pa(tau: Callable[[float, float, float], float]) -> Iterator[np.ndarray]:
    w = np.zeros(5)
    for z, y, h in weighted():
        w = w + tau(max(0.0, 1 - y * (w @ z)), z @ z, h) * y * z
        yield w


def weighted_arow(r: float, diagonal: bool) -> Iterator[np.ndarray]:
    w, S = np.zeros(5), np.eye(5)
    for z, y, h in weighted():
        if y * (w @ z) < 1:
            beta = 1 / (z @ S @ z + r / h)
            w, S = w + beta * (1 - y * (w @ z)) * y * (S @ z), S - beta * np.outer(S @ z, S @ z)
            S = np.diag(np.diag(S)) if diagonal else S
        yield w


def weighted_scw(C: float, eta: float) -> Iterator[np.ndarray]:
    phi = NormalDist().inv_cdf(eta)
    psi, zeta = 1 + phi**2 / 2, 1 + phi**2
    w, S = np.zeros(5), np.eye(5)
    for z, y, h in weighted():
        m, v = y * (w @ z), z @ S @ z
        if phi * sqrt(v) - m > 0:
            alpha = (-m * psi + sqrt(m**2 * phi**4 / 4 + v * phi**2 * zeta)) / (v * zeta)
            alpha = min(h * C, max(0.0, alpha))
            u = (-alpha * v * phi + sqrt(alpha**2 * v**2 * phi**2 + 4 * v)) ** 2 / 4
            beta = alpha * phi / (sqrt(u) + v * alpha * phi)
            w, S = w + alpha * y * (S @ z), np.diag(np.diag(S - beta * np.outer(S @ z, S @ z)))
        yield w


WEIGHTED: dict[str, tuple[dict[str, Any], Callable[[], Iterator[np.ndarray]]]] = {
    "mistake": ({"eta0": 0.5}, lambda: weighted_perceptron(lambda k: 0.5)),
    "margin 0.7, η0/√k": (
        {"rule": "margin", "delta": 0.7, "schedule": "inverse_sqrt", "eta0": 0.3},
        lambda: weighted_perceptron(lambda k: 0.3 / sqrt(k), 0.7),
    ),
    "averaged": ({"algorithm": "averaged", "eta0": 0.5}, lambda: weighted_averaged(0.5)),
    "pa": ({"algorithm": "pa"}, lambda: weighted_pa(lambda loss, n, h: h * loss / n)),
    "pa1": ({"algorithm": "pa1", "C": 0.1}, lambda: weighted_pa(lambda loss, n, h: min(h * 0.1, loss / n))),
    "pa2": (
        {"algorithm": "pa2", "C": 0.1},
        lambda: weighted_pa(lambda loss, n, h: loss / (n + 1 / (2 * h * 0.1))),
    ),
    "arow": ({"algorithm": "arow", "r": 0.7}, lambda: weighted_arow(0.7, True)),
    "arow, full": ({"algorithm": "arow", "r": 0.7, "covariance": "full"}, lambda: weighted_arow(0.7, False)),
    "forgetting": (
        {"algorithm": "arow_forgetting", "r": 0.7, "forget": 0.02},
        lambda: forgetting_arow(0.7, 0.02, True, weighs=True),
    ),
    "forgetting, full": (
        {"algorithm": "arow_forgetting", "r": 0.7, "forget": 0.3, "covariance": "full"},
        lambda: forgetting_arow(0.7, 0.3, False, weighs=True),
    ),
    "scw": ({"algorithm": "scw", "C": 0.1, "eta": 0.85}, lambda: weighted_scw(0.1, 0.85)),
    "logistic": ({"algorithm": "logistic", "eta0": 0.3}, lambda: logistic(0.3, weighs=True)),
}


@pytest.mark.parametrize("name", WEIGHTED)
def test_a_learner_follows_its_formula_with_weights(name: str) -> None:
    settings, formula = WEIGHTED[name]
    learner, changes = learner_for(settings), 0
    for (z, y, h), expected in zip(weighted(), formula(), strict=True):
        changes += learner.learn(Vector(z), y, None, h)
        near = NEAR.get(name, 1e-9)
        np.testing.assert_allclose(learner.weights, expected, rtol=near, atol=near / 1e3)
    assert learner.updates == changes > 10


@pytest.mark.parametrize("C", [1.0, 1e-20, 5e-324])
def test_a_weight_too_small_to_be_multiplied_moves_nothing(C: float) -> None:
    learner = One({"algorithm": "pa2", "C": C}, tie=1, size=5)
    learner.learn(Vector(np.ones(5)), 1, None, 5e-324)
    assert np.abs(learner.weights).max() < 1e-300


@pytest.mark.parametrize("tie", [-1, 1])
@pytest.mark.parametrize("y", [-1, 1])
def test_the_two_rules_differ_at_ties(tie: int, y: int) -> None:
    z = Vector(np.ones(5))
    assert learner_for({"rule": "mistake"}, tie).learn(z, y, None) == (y != tie)
    assert learner_for({"rule": "mistake"}, tie).learn(z, y, tie) == (y != tie)
    assert learner_for({"rule": "margin"}, tie).learn(z, y, tie)
    assert learner_for({"algorithm": "averaged"}, tie).learn(z, y, tie) == (y != tie)


@pytest.mark.parametrize("algorithm", ["pa", "pa1", "pa2", "arow", "arow_forgetting", "scw"])
@pytest.mark.parametrize("tiny", [0.0, 5e-324, 1e-160])
def test_a_vector_of_no_length_teaches_nothing(algorithm: str, tiny: float) -> None:
    learner = learner_for({"algorithm": algorithm})
    assert not learner.learn(Vector(np.full(5, tiny)), 1, None)
    assert learner.updates == 0
    assert not learner.weights.any()


def test_pa_gives_the_example_the_margin_one() -> None:
    learner = learner_for({"algorithm": "pa"})
    for z, y in examples():
        learner.learn(Vector(z), y, None)
        assert y * learner.score(Vector(z)) > 1 - 1e-9


def test_averaged_takes_the_mean_over_the_weights_after_each_reveal() -> None:
    learner = learner_for({"algorithm": "averaged"})
    z = np.array([1.0, 0, 0, 0, 0])
    learner.learn(Vector(z), -1, None)  # w = -1
    learner.learn(Vector(z), 1, None)  # w = 0
    learner.learn(Vector(z), 1, None)  # w = 0, and a tie is +1
    learner.learn(Vector(z), -1, None)  # w = -1
    assert learner.weights[0] == (-1 + 0 + 0 - 1) / 4


def test_a_variance_never_grows_and_never_falls_to_zero() -> None:
    for settings in ({"algorithm": "arow", "r": 1e-6}, {"algorithm": "scw", "C": 1e6}):
        learner = learner_for(settings)
        before = np.ones(5)
        for z, y in examples():
            learner.learn(Vector(np.where(np.arange(5) == 2, 1e60, 0.0) * z), y, None)
            now = learner.state()["covariance"]
            assert (now <= before).all()
            assert (now > 0).all()
            before = now
