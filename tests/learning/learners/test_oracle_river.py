"""The same streams through river, names and all: as many mistakes, the same weights."""

from itertools import islice
from typing import Any

import numpy as np
import pytest
from river import datasets, linear_model, multiclass, optim, preprocessing

from tests.learning.rounds import Model

Stream = list[tuple[dict[str, float], Any]]


@pytest.fixture(scope="module")
def phishing() -> Stream:
    return list(datasets.Phishing())


@pytest.fixture(scope="module")
def bananas() -> Stream:
    return list(islice(datasets.Bananas(), 1000))


@pytest.fixture(scope="module")
def segments() -> Stream:
    return [
        ({name: value / 100 for name, value in x.items()}, label)
        for x, label in islice(datasets.ImageSegments(), 300)
    ]


def agree(model: Model, theirs: Any, weights: Any, stream: Stream) -> None:
    """Every served label is the same, and so is the weight of every name at the end."""
    for x, label in stream:
        served, _ = model.predict(x)
        assert served == int(theirs.predict_one(x) or False)
        model.reveal(x, int(label), served)
        theirs.learn_one(x, label)
    assert model.mistakes > 10
    names = [model.features.name(i) for i in range(model.features.size())]
    for name, weight in zip(names, model.weights(), strict=True):
        expected = weights.intercept if name == "bias" else weights.weights[name]
        assert weight == pytest.approx(expected, rel=1e-9, abs=1e-9), name


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("data", ["phishing", "bananas"])
def test_passive_aggressive_without_a_bias(mode: int, data: str, request: pytest.FixtureRequest) -> None:
    learner = {"algorithm": ["pa", "pa1", "pa2"][mode], **({"C": 0.125} if mode else {})}
    theirs = linear_model.PAClassifier(C=0.125, mode=mode, learn_intercept=False)
    model = Model(learner, features="named", bias_value=None, tie=0)
    agree(model, theirs, theirs, request.getfixturevalue(data))


@pytest.mark.parametrize("data", ["phishing", "bananas"])
def test_the_perceptron_by_the_margin_rule(data: str, request: pytest.FixtureRequest) -> None:
    theirs = linear_model.Perceptron()
    model = Model({"rule": "margin"}, features="named", tie=0)
    agree(model, theirs, theirs, request.getfixturevalue(data))


@pytest.mark.parametrize("data", ["phishing", "bananas"])
def test_logistic_regression_by_adagrad_without_a_bias(data: str, request: pytest.FixtureRequest) -> None:
    theirs = linear_model.LogisticRegression(optim.AdaGrad(0.5, eps=1.0), intercept_lr=0.0)
    model = Model({"algorithm": "logistic"}, features="named", bias_value=None, tie=0)
    for x, label in request.getfixturevalue(data):
        served, score = model.predict(x)
        assert abs(score) < 1e-6 or served == int(theirs.predict_one(x))
        model.reveal(x, int(label), served)
        theirs.learn_one(x, label)
    assert model.mistakes > 10
    for i, weight in enumerate(model.weights()):
        assert weight == pytest.approx(theirs.weights[model.features.name(i)], rel=1e-5, abs=1e-6)


def test_passive_aggressive_differs_in_that_the_bias_counts_in_the_norm() -> None:
    model = Model({"algorithm": "pa"}, features="named")
    model.reveal({"x": 2.0}, 1, 0)
    assert model.weights().tolist() == pytest.approx([1 / 5, 2 / 5])
    theirs = linear_model.PAClassifier(mode=0)
    theirs.learn_one({"x": 2.0}, True)
    assert [theirs.intercept, theirs.weights["x"]] == pytest.approx([1 / 4, 2 / 4])


def test_standardized_dense_features(bananas: Stream) -> None:
    scaler, theirs = preprocessing.StandardScaler(), linear_model.Perceptron()
    model = Model({"rule": "margin"}, features={"standardize": True}, tie=0, robust=False)
    for x, label in bananas:
        sent = list(x.values())
        served, _ = model.predict(sent)
        assert served == int(theirs.predict_one(scaler.transform_one(x)))
        model.reveal(sent, int(label), served)
        scaler.learn_one(x)
        theirs.learn_one(scaler.transform_one(x), label)
    expected = [*(theirs.weights[name] for name in x), theirs.intercept]
    np.testing.assert_allclose(model.weights(), expected, rtol=1e-9)


def test_one_vs_all_with_classes_as_they_appear(segments: Stream) -> None:
    theirs = multiclass.OneVsRestClassifier(linear_model.PAClassifier(C=0.5, mode=1, learn_intercept=False))
    model = Model({"algorithm": "pa1", "C": 0.5}, "one_vs_all", 0, "named", None)
    classes: dict[str, int] = {}
    for x, label in segments:
        model.reveal(x, classes.setdefault(label, len(classes)), model.predict(x)[0])
        theirs.learn_one(x, label)
    assert len(classes) == 7
    for label, chosen in classes.items():
        expected = theirs.classifiers[label].weights
        for i, weight in enumerate(model.weights(chosen)):
            assert weight == pytest.approx(expected[model.features.name(i)], rel=1e-9, abs=1e-9)


def test_one_vs_one_with_classes_as_they_appear(segments: Stream) -> None:
    """Theirs numbers each pair by the labels' alphabet and counts the second as +1; ours by their order."""
    theirs = multiclass.OneVsOneClassifier(linear_model.PAClassifier(C=0.5, mode=2, learn_intercept=False))
    model = Model({"algorithm": "pa2", "C": 0.5}, "one_vs_one", 0, "named", None)
    classes: dict[str, int] = {}
    for x, label in segments:
        model.reveal(x, classes.setdefault(label, len(classes)), model.predict(x)[0])
        theirs.learn_one(x, label)
    for label, chosen in classes.items():
        for i, weight in enumerate(model.weights(chosen)):
            name = model.features.name(i)
            expected = sum(
                pair.weights[name] if label == second else -pair.weights[name]
                for (first, second), pair in theirs.classifiers.items()
                if label in (first, second)
            )
            assert weight == pytest.approx(expected, rel=1e-9, abs=1e-9)
