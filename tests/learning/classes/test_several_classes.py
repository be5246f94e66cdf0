"""The ways from binary learners to several classes."""

import sys
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from service.learning.classes import strategies
from service.learning.learners import algorithms
from service.learning.learners.algorithms import BadParameter
from service.learning.vectors import Vector
from tests.learning.rounds import LEARNERS, Model, One, dense_rounds

PERCEPTRON = algorithms.complete({})


def examples(count: int = 80, classes: int = 4) -> list[tuple[Vector, int]]:
    return [(Vector(np.array([*x, 1.0])), truth) for x, truth in dense_rounds(count, classes, seed=7)]


@pytest.mark.parametrize("way", strategies.STRATEGIES)
def test_no_class_is_decided_while_none_is_known(way: str) -> None:
    classifier = strategies.build(PERCEPTRON, way, classes=0, tie=1)
    classifier.grow(3)
    z = Vector(np.ones(3))
    assert classifier.decide(z) == (-1, 0.0, 0.0)
    assert classifier.weights_for(-1).tolist() == [0.0, 0.0, 0.0]
    classifier.add_class()
    classifier.learn(z, 0, -1)
    assert classifier.decide(z)[0] == 0


@pytest.mark.parametrize("way", strategies.STRATEGIES)
def test_a_tie_goes_to_the_class_declared_first(way: str) -> None:
    classifier = strategies.build(PERCEPTRON, way, classes=3, tie=1)
    classifier.grow(2)
    assert classifier.decide(Vector(np.ones(2)))[:2] == (0, 0.0)
    classifier.learn(Vector(np.array([1.0, 0.0])), 2, 0)
    assert classifier.decide(Vector(np.array([1.0, 0.0])))[0] == 2
    assert classifier.decide(Vector(np.array([0.0, 1.0])))[0] == 0


@pytest.mark.parametrize("name", LEARNERS)
def test_one_vs_all_is_a_binary_learner_for_each_class_against_the_rest(name: str) -> None:
    settings = algorithms.complete(LEARNERS[name])
    classifier = strategies.build(settings, "one_vs_all", classes=4, tie=1)
    alone = [One(settings, tie=-1, size=5) for _ in range(4)]
    classifier.grow(5)
    for z, truth in examples():
        scores = [learner.score(z) for learner in alone]
        assert classifier.decide(z)[:2] == (int(np.argmax(scores)), max(scores))  # to the bit
        classifier.learn(z, truth, 0)
        for own, learner in enumerate(alone):
            learner.learn(z, 1 if own == truth else -1, None)
    for own, learner in enumerate(alone):
        assert np.array_equal(classifier.weights_for(own), learner.weights)


@pytest.mark.parametrize("name", LEARNERS)
def test_one_vs_one_is_a_binary_learner_for_each_pair_and_the_majority_wins(name: str) -> None:
    settings = algorithms.complete(LEARNERS[name])
    classifier = strategies.build(settings, "one_vs_one", classes=4, tie=1)
    alone = {pair: One(settings, tie=1, size=5) for pair in combinations(range(4), 2)}
    classifier.grow(5)
    for z, truth in examples():
        votes, sums = [0] * 4, [0.0] * 4
        for (first, second), learner in alone.items():
            score = learner.score(z)
            votes[first if score >= 0 else second] += 1
            sums[first] += score
            sums[second] -= score
        chosen, score, _ = classifier.decide(z)
        assert chosen == max(range(4), key=lambda c: (votes[c], sums[c], -c))
        assert score == pytest.approx(sums[chosen], abs=1e-12)
        classifier.learn(z, truth, 0)
        for (first, second), learner in alone.items():
            if truth in (first, second):
                learner.learn(z, 1 if truth == first else -1, None)


def test_pairs_get_their_learner_only_when_one_of_their_classes_is_revealed() -> None:
    classifier = strategies.build(PERCEPTRON, "one_vs_one", classes=1000, tie=1)
    classifier.grow(3)
    assert len(classifier.state()["pairs"]) == 0
    classifier.learn(Vector(np.ones(3)), 500, 0)
    assert len(classifier.state()["pairs"]) == 999
    assert classifier.decide(Vector(np.ones(3)))[0] == 500  # it wins its 999 pairs
    assert classifier.decide(Vector(-np.ones(3)))[0] == 0  # and loses them here


def test_multiclass_moves_the_true_row_and_the_served_one() -> None:
    classifier = strategies.build(algorithms.complete({"eta0": 0.5}), "multiclass", classes=3, tie=1)
    classifier.grow(2)
    z = Vector(np.array([2.0, 1.0]))
    assert classifier.learn(z, 2, 1)
    assert [classifier.weights_for(c).tolist() for c in range(3)] == [[0, 0], [-1, -0.5], [1, 0.5]]
    assert not classifier.learn(z, 2, 2)
    assert classifier.updates == 1


def test_multiclass_by_the_margin_rule_corrects_the_strongest_rival() -> None:
    settings = algorithms.complete({"rule": "margin", "delta": 1.0})
    classifier = strategies.build(settings, "multiclass", classes=3, tie=1)
    classifier.grow(1)
    z = Vector(np.array([1.0]))
    assert classifier.learn(z, 1, 1)  # served right, but without the margin: the rival is the first
    assert [classifier.weights_for(c)[0] for c in range(3)] == [-1, 1, 0]
    assert classifier.learn(z, 1, 1)  # 1 against 0 is within the margin still: the rival is the third
    assert [classifier.weights_for(c)[0] for c in range(3)] == [-1, 2, -1]
    assert not classifier.learn(z, 1, 0)


def test_multiclass_with_one_class_has_no_rival() -> None:
    classifier = strategies.build(algorithms.complete({"rule": "margin"}), "multiclass", classes=1, tie=1)
    classifier.grow(1)
    assert not classifier.learn(Vector(np.array([1.0])), 0, 0)


def test_declared_and_appearing_classes_learn_different_weights() -> None:
    rounds = [([1.0], 0), ([2.0], 0), ([3.0], 1)]
    late = Model({"rule": "margin"}, "one_vs_all", 0).run(rounds)
    early = Model({"rule": "margin"}, "one_vs_all", 2).run(rounds)
    assert late.weights(1).tolist() == [3.0, 1.0]  # it knows nothing of the first two
    assert early.weights(1).tolist() == [2.0, 0.0]


def test_two_declared_labels_are_one_learner_unless_asked_otherwise() -> None:
    assert strategies.complete(None, 2, PERCEPTRON) is None
    assert strategies.complete("one_vs_one", 2, PERCEPTRON) == "one_vs_one"
    assert strategies.complete(None, 3, PERCEPTRON) == "one_vs_all"
    assert strategies.complete(None, None, PERCEPTRON) == "one_vs_all"


@pytest.mark.parametrize(
    ("given", "labels", "field"),
    [("all_vs_all", 3, "multiclass"), (7, 3, "multiclass"), ("one_vs_one", 101, "labels")],
)
def test_a_way_that_does_not_exist_or_does_not_fit_is_refused(given: Any, labels: int, field: str) -> None:
    with pytest.raises(BadParameter) as refused:
        strategies.complete(given, labels, PERCEPTRON)
    assert refused.value.field == field


def test_multiclass_takes_only_the_perceptron() -> None:
    with pytest.raises(BadParameter, match="multiclass"):
        strategies.complete("multiclass", 3, algorithms.complete({"algorithm": "arow"}))


def calls_to_decide(classes: int) -> int:
    """How many functions are called, of Python or in C."""
    classifier = strategies.build(
        algorithms.complete({"algorithm": "pa1"}), "one_vs_all", classes=classes, tie=1
    )
    classifier.grow(65)
    z = Vector(np.random.default_rng(0).normal(size=65))
    classifier.learn(z, 3, 0)
    classifier.decide(z)
    calls: list[str] = []
    sys.setprofile(lambda frame, event, _: calls.append(event) if event.endswith("call") else None)
    try:
        classifier.decide(z)
    finally:
        sys.setprofile(None)
    return len(calls)


def test_a_thousand_classes_are_scored_at_once() -> None:
    assert calls_to_decide(1_000) == calls_to_decide(10)
