"""Batch training: the notes' batch perceptron, passes of a model's own learner, and why they stop."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from service.journal.codec import encode_state
from service.learning.batch import fitting
from service.learning.batch.fitting import Fitted, Progress
from service.learning.classes import strategies
from service.learning.classes.classifier import Classifier
from service.learning.learners import algorithms
from service.learning.learners.algorithms import BadParameter
from service.learning.vectors import Vector
from tests.learning.rounds import PAIRS, STRATEGIES, make

Set = tuple[list[Vector], list[int]]


def points(count: int, classes: int, *, spread: float, seed: int = 2, sparse: bool = False) -> Set:
    """Points with a bias around a centre for each class; apart if the spread is small."""
    rng = np.random.default_rng(seed)
    angles = 2 * np.pi * np.arange(classes) / classes
    truths = np.arange(count) % classes
    at = np.stack([np.cos(angles), np.sin(angles)], axis=1)[truths] + spread * rng.normal(size=(count, 2))
    z = np.column_stack([at, np.ones(count)])
    return [Vector(row, np.arange(3) if sparse else None) for row in z], truths.tolist()


def classifier(way: str | None = None, classes: int = 2, **learner: Any) -> Classifier:
    made = strategies.build(algorithms.complete(learner), way, classes=classes, tie=1)
    made.grow(3)
    return made


def fit(
    made: Classifier, data: Set, report: Callable[[Progress], bool] = lambda _: True, **options: Any
) -> Fitted:
    return fitting.fit(made, *data, fitting.complete(options), report)


def batch_by_hand(data: Set, passes: int, eta: Callable[[int], float]) -> tuple[np.ndarray, float, int]:
    """w ← w + η(k) Σ y z over the misclassified, a tie being +1; then J_p and the errors."""
    w = np.zeros(3)
    signed = [(z.values, 2 * truth - 1) for z, truth in zip(*data, strict=True)]

    def misclassified() -> list[tuple[np.ndarray, int]]:
        return [(z, y) for z, y in signed if (1 if w @ z >= 0 else -1) != y]

    for k in range(1, passes + 1):
        w = w + eta(k) * sum((y * z for z, y in misclassified()), np.zeros(3))
    return w, float(sum(-y * (w @ z) for z, y in misclassified())), len(misclassified())


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("schedule", ["constant", "inverse", "inverse_sqrt"])
def test_a_pass_adds_the_sum_of_the_misclassified(schedule: str, sparse: bool) -> None:
    eta = {"constant": lambda k: 0.3, "inverse": lambda k: 0.3 / k, "inverse_sqrt": lambda k: 0.3 / k**0.5}
    data = points(200, 2, spread=0.9, sparse=sparse)
    for passes in (1, 2, 7):
        made = classifier()
        fitted = fit(made, data, eta0=0.3, schedule=schedule, passes_max=passes)
        weights, criterion, errors = batch_by_hand(data, passes, eta[schedule])
        np.testing.assert_allclose(made.weights_for(1), weights, rtol=1e-9, atol=1e-12)
        assert fitted.criterion == pytest.approx(criterion, rel=1e-9, abs=1e-12)
        assert (fitted.errors, fitted.passes, fitted.updates) == (errors, passes, passes)
        assert fitted.stop == "budget"
        assert errors > 0


@pytest.mark.parametrize(
    ("way", "classes"), [(None, 2), ("one_vs_all", 2), ("one_vs_all", 4), ("multiclass", 4)]
)
@pytest.mark.parametrize("algorithm", ["batch", "online"])
def test_separable_classes_are_learned_to_the_last_example(
    way: str | None, classes: int, algorithm: str
) -> None:
    data = points(80, classes, spread=0.1)
    made = classifier(way, classes)
    fitted = fit(made, data, algorithm=algorithm, passes_max=500)
    assert fitted.stop == "all_correct"
    assert fitted.errors == 0
    if way is None:
        assert fitted.criterion == 0.0
    assert [made.decide(z)[0] for z in data[0]] == data[1]
    assert 0 < fitted.passes < 500


def test_a_set_that_is_right_already_takes_no_pass() -> None:
    data = points(40, 2, spread=0.1)
    made = classifier()
    fit(made, data)
    again = fit(made, data)
    assert (again.stop, again.passes, again.updates) == ("all_correct", 0, 0)


def test_one_vs_all_is_a_batch_perceptron_for_each_class() -> None:
    data = points(150, 3, spread=0.8)
    made = classifier("one_vs_all", 3)
    fitted = fit(made, data, passes_max=5)
    criterion = 0.0
    for own in range(3):
        w = np.zeros(3)
        signed = [(z.values, 1 if truth == own else -1) for z, truth in zip(*data, strict=True)]
        for _ in range(5):
            w = w + sum((y * z for z, y in signed if (1 if w @ z > 0 else -1) != y), np.zeros(3))
        np.testing.assert_allclose(made.weights_for(own), w, rtol=1e-9, atol=1e-12)
        criterion += sum(-y * (w @ z) for z, y in signed if (1 if w @ z > 0 else -1) != y)
    assert fitted.criterion == pytest.approx(criterion)
    assert fitted.errors == sum(made.decide(z)[0] != truth for z, truth in zip(*data, strict=True))


def test_multiclass_moves_the_true_rows_and_the_winning_ones() -> None:
    data = points(150, 3, spread=0.8)
    made = classifier("multiclass", 3)
    fitted = fit(made, data, passes_max=5)
    rows = np.zeros((3, 3))
    for _ in range(5):
        before = rows.copy()
        for z, truth in zip(*data, strict=True):
            chosen = int(np.argmax(before @ z.values))
            if chosen != truth:
                rows[truth] += z.values
                rows[chosen] -= z.values
    np.testing.assert_allclose([made.weights_for(own) for own in range(3)], rows, rtol=1e-9, atol=1e-12)
    scores = [rows @ z.values for z in data[0]]
    criterion = sum(score.max() - score[truth] for score, truth in zip(scores, data[1], strict=True))
    assert fitted.criterion == pytest.approx(criterion)


def test_it_stops_at_the_criterion() -> None:
    data = points(100, 2, spread=0.9)
    steps: list[np.ndarray] = [np.zeros(3)]
    made = classifier()
    fitted = fit(made, data, lambda _: bool(steps.append(made.weights_for(1).copy()) or True),
                 schedule="inverse", theta=2.0, passes_max=10_000)  # fmt: skip
    moved = [float(np.linalg.norm(b - a)) for a, b in pairwise(steps)]
    assert fitted.stop == "criterion"
    assert moved[-1] < 2.0
    assert all(step >= 2.0 for step in moved[:-1])


def test_it_stops_when_the_weights_are_stable() -> None:
    data = points(100, 2, spread=0.9)
    tolerant = fit(classifier(), data, schedule="inverse", tolerance=0.05, passes_max=10_000)
    assert tolerant.stop == "weights_stable"
    assert tolerant.passes > 1


def test_it_stops_when_nothing_moves_any_more() -> None:
    """Misclassified examples whose sum is zero: z as -1 and -z as -1, each a tie that is served +1."""
    made = classifier()
    z = np.array([1.0, 2.0, 0.0])
    data = ([Vector(z), Vector(-z), Vector(np.zeros(3))], [0, 0, 1])
    fitted = fit(made, data)
    assert (fitted.stop, fitted.passes, fitted.errors, fitted.criterion) == ("weights_stable", 1, 2, 0.0)


@pytest.mark.parametrize("algorithm", ["batch", "online"])
def test_it_stops_when_validation_does_not_improve_and_keeps_the_best_weights(algorithm: str) -> None:
    data = points(300, 2, spread=0.9)
    made = classifier()
    seen: list[float] = []

    def watch(progress: Progress) -> bool:
        assert progress.validation_error is not None
        seen.append(progress.validation_error)
        return True

    fitted = fit(made, data, watch, algorithm=algorithm, validation_share=0.3, patience=4)
    held_out = list(zip(*data, strict=True))[210:]
    assert fitted.examples == 210
    assert fitted.stop == "validation"
    assert fitted.passes == fitted.kept_pass + 4
    error = sum(made.decide(z)[0] != truth for z, truth in held_out) / 90
    assert error == fitted.validation_error == min(seen)
    assert encode_state(made.state()) == encode_state(fitted.state)


def test_an_update_budget_ends_online_passes_in_their_midst() -> None:
    made = classifier()
    fitted = fit(made, points(300, 2, spread=0.9), algorithm="online", updates_max=17)
    assert fitted.stop == "budget"
    assert fitted.updates == made.updates == 17


@pytest.mark.parametrize("algorithm", ["batch", "online"])
def test_it_is_given_up_as_soon_as_it_is_not_wanted(algorithm: str) -> None:
    answers = iter([True] * 3 + [False] * 1000)
    fitted = fit(
        classifier(),
        points(3000, 2, spread=0.9),
        lambda _: next(answers),
        algorithm=algorithm,
        passes_max=999,
    )
    assert fitted.stop == "cancelled"
    assert fitted.passes <= 4


@pytest.mark.parametrize(("learner", "way"), [pair for pair in PAIRS if not pair[1].endswith("appearing")])
def test_online_passes_are_rounds_of_the_models_own_learner(learner: str, way: str) -> None:
    data = points(60, STRATEGIES[way][2], spread=0.7)
    fitted_one, by_hand = make(learner, way).classifier, make(learner, way).classifier
    for made in (fitted_one, by_hand):
        made.grow(3)
    fitted = fit(fitted_one, data, algorithm="online", passes_max=2)
    for z, truth in list(zip(*data, strict=True)) * 2:
        by_hand.learn(z, truth, by_hand.decide(z)[0])
    assert fitted.passes == 2
    assert encode_state(fitted.state) == encode_state(by_hand.state())


@pytest.mark.parametrize("algorithm", ["batch", "online"])
@pytest.mark.parametrize("order", ["given", "shuffled"])
def test_the_same_seed_gives_the_same_result_to_the_bit(algorithm: str, order: str) -> None:
    data = points(200, 3, spread=0.8)
    options = {"algorithm": algorithm, "order": order, "validation_share": 0.2, "passes_max": 6}
    states = [
        encode_state(fit(classifier("one_vs_all", 3), data, seed=seed, **options).state) for seed in (1, 1, 2)
    ]
    assert states[0] == states[1]
    assert (states[0] == states[2]) == (order == "given")


def test_every_shuffled_pass_has_an_order_of_its_own() -> None:
    data = points(60, 2, spread=0.9)
    fitted, by_hand = classifier(), classifier()
    fit(fitted, data, algorithm="online", order="shuffled", seed=5, passes_max=2)
    generator = np.random.Generator(np.random.PCG64(5))
    train = generator.permutation(60)
    for order in (generator.permutation(60), generator.permutation(60)):
        for i in train[order]:
            by_hand.learn(data[0][i], data[1][i], by_hand.decide(data[0][i])[0])
    assert encode_state(fitted.state()) == encode_state(by_hand.state())


@pytest.mark.parametrize("learner", ["averaged", "pa1", "arow", "arow_forgetting", "scw", "logistic"])
def test_any_learner_goes_on_from_the_fitted_weights(learner: str) -> None:
    data = points(60, 2, spread=0.1)
    made, plain = classifier(algorithm=learner), classifier()
    fit(made, data)
    fit(plain, data)
    assert np.array_equal(made.weights_for(1), plain.weights_for(1))
    made.learn(Vector(np.array([1.0, 1.0, 1.0])), 0, 1)
    assert np.isfinite(made.weights_for(1)).all()
    restored = classifier(algorithm=learner)
    restored.restore(made.state(), *made.shape)
    assert encode_state(restored.state()) == encode_state(made.state())


@pytest.mark.parametrize("algorithm", ["batch", "online"])
def test_one_class_only_is_refused(algorithm: str) -> None:
    vectors, _ = points(10, 2, spread=0.1)
    with pytest.raises(BadParameter, match="two classes"):
        fit(classifier(), (vectors, [1] * 10), algorithm=algorithm)
    with pytest.raises(BadParameter, match="not held out"):
        fit(classifier(), (vectors, [1] * 8 + [0] * 2), algorithm=algorithm, validation_share=0.2)


def test_batch_does_not_train_pairs() -> None:
    with pytest.raises(BadParameter) as refused:
        fit(classifier("one_vs_one", 3), points(30, 3, spread=0.1))
    assert refused.value.field == "algorithm"
    fitted = fit(classifier("one_vs_one", 3), points(30, 3, spread=0.1), algorithm="online")
    assert fitted.stop == "all_correct"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"algorithm": "newton"}, "algorithm"),
        ({"algorithm": "online", "eta0": 1.0}, "eta0"),
        ({"passes_max": 0}, "passes_max"),
        ({"updates_max": 0}, "updates_max"),
        ({"validation_share": 1.0}, "validation_share"),
        ({"patience": 0}, "patience"),
        ({"order": "random"}, "order"),
        ({"seed": -1}, "seed"),
        ({"theta": -1}, "theta"),
        ({"epochs": 3}, "epochs"),
    ],
)
def test_options_that_do_not_fit_are_refused_by_field(options: dict[str, Any], field: str) -> None:
    with pytest.raises(BadParameter) as refused:
        fitting.complete(options)
    assert refused.value.field == field
