"""The same streams through scikit-learn: as many mistakes, the same weights."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import Perceptron, SGDClassifier

from tests.learning.rounds import Model


@pytest.fixture(scope="module")
def cancer() -> tuple[np.ndarray, np.ndarray]:
    x, y = load_breast_cancer(return_X_y=True)
    return (x - x.mean(axis=0)) / x.std(axis=0), y


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    x, y = load_digits(return_X_y=True)
    return x[:200], y[:200]


def served_by(estimator: Any, x: np.ndarray, y: np.ndarray, at_first: int) -> Iterator[int]:
    """What an estimator predicts for each example before it learns it."""
    classes = np.unique(y)
    for i in range(len(x)):
        yield int(estimator.predict(x[i : i + 1])[0]) if i else at_first
        estimator.partial_fit(x[i : i + 1], y[i : i + 1], classes=classes)


def agree(model: Model, estimator: Any, x: np.ndarray, y: np.ndarray, at_first: int = 0) -> None:
    """Every served label is the same, and so are the weights at the end."""
    for sent, truth, expected in zip(
        x.tolist(), y.tolist(), served_by(estimator, x, y, at_first), strict=True
    ):
        served, _ = model.predict(sent)
        assert served == expected
        model.reveal(sent, truth, served)
    assert model.mistakes > 10
    for row, (coef, intercept) in enumerate(zip(estimator.coef_, estimator.intercept_, strict=True)):
        weights = model.weights(row if len(estimator.coef_) > 1 else 1)
        expected_weights = [*coef, intercept] if len(weights) > len(coef) else coef
        np.testing.assert_allclose(weights, expected_weights, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_the_perceptron_by_the_margin_rule(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    agree(Model({"rule": "margin"}, tie=0), Perceptron(), *cancer)


@pytest.mark.slow
def test_the_perceptron_with_ten_classes(digits: tuple[np.ndarray, np.ndarray]) -> None:
    agree(Model({"rule": "margin"}, "one_vs_all", 10), Perceptron(), *digits)


@pytest.mark.parametrize("algorithm", ["pa1", "pa2"])
@pytest.mark.slow
def test_passive_aggressive_without_a_bias(algorithm: str, cancer: tuple[np.ndarray, np.ndarray]) -> None:
    estimator = SGDClassifier(
        loss="hinge", penalty=None, learning_rate=algorithm, eta0=0.05, fit_intercept=False
    )
    agree(Model({"algorithm": algorithm, "C": 0.05}, bias_value=None, tie=0), estimator, *cancer)


@pytest.mark.parametrize("algorithm", ["pa1", "pa2"])
@pytest.mark.slow
def test_passive_aggressive_with_ten_classes(algorithm: str, digits: tuple[np.ndarray, np.ndarray]) -> None:
    estimator = SGDClassifier(
        loss="hinge", penalty=None, learning_rate=algorithm, eta0=0.01, fit_intercept=False
    )
    model = Model({"algorithm": algorithm, "C": 0.01}, "one_vs_all", 10, bias_value=None)
    agree(model, estimator, *digits)


def test_passive_aggressive_differs_in_that_the_bias_counts_in_the_norm() -> None:
    """z = (2, 1): ours is a step of 1/5 along z, theirs a step of 1/4 by ‖x‖² alone, the bias moving along."""
    model = Model({"algorithm": "pa1", "C": 10})
    model.reveal([2.0], 1, 0)
    assert model.weights().tolist() == pytest.approx([2 / 5, 1 / 5])
    estimator = SGDClassifier(loss="hinge", penalty=None, learning_rate="pa1", eta0=10.0)
    estimator.partial_fit([[2.0]], [1], classes=[0, 1])
    assert [*estimator.coef_[0], *estimator.intercept_] == pytest.approx([2 / 4, 1 / 4])


@pytest.mark.slow
def test_averaged_without_a_bias(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    """Theirs updates at a tie as well; there is one, at the first example, and `tie` makes it a mistake."""
    x, y = cancer
    estimator = SGDClassifier(
        loss="perceptron", penalty=None, learning_rate="constant", eta0=1.0, average=True, fit_intercept=False
    )
    wrong = 1 - int(y[0])
    agree(Model({"algorithm": "averaged"}, bias_value=None, tie=wrong), estimator, x, y, at_first=wrong)


def test_averaged_in_one_pass_with_a_bias(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = cancer
    estimator = SGDClassifier(
        loss="perceptron", penalty=None, learning_rate="constant", eta0=1.0, average=True,
        max_iter=1, tol=None, shuffle=False,
    ).fit(x, y)  # fmt: skip
    model = Model({"algorithm": "averaged"}, tie=1 - int(y[0])).run(zip(x.tolist(), y.tolist(), strict=True))
    np.testing.assert_allclose(
        model.weights(), [*estimator.coef_[0], *estimator.intercept_], rtol=1e-9, atol=1e-9
    )
