"""What holds for every learner, every way to several classes and every kind of features."""

from typing import Any

import numpy as np
import pytest

from service.journal.codec import encode_state
from service.learning.vectors import Vector
from tests.learning.rounds import AUTO, FEATURES, PAIRS, PAIRS_AND_PANELS, STRATEGIES, Model, make, rounds_for
from tests.support.tiers import covering, slow

every_classifier = pytest.mark.parametrize(("learner", "way"), covering(PAIRS))
every_classifier_and_panel = pytest.mark.parametrize(("learner", "way"), covering(PAIRS_AND_PANELS))
every_sparse_one = pytest.mark.parametrize(
    ("learner", "way"), covering([pair for pair in PAIRS if not pair[0].endswith("full")])
)
every_growing_one = pytest.mark.parametrize(
    ("learner", "way"),
    covering([pair for pair in PAIRS if pair[1] in ("one_vs_all", "one_vs_one", "multiclass")]),
)

SOME = ("dense", "dense-standardized", "named", "hashed-standardized")  # where all would tell no more


def unseen(features: str) -> Any:
    if features.startswith("dense"):
        return [0.3, -1.7, 250.0, 0.0]
    return {"never seen": 3.5, "city": "nowhere", "tags": ["unheard of"], "subject": "of late"}


@every_classifier_and_panel
def test_weights_start_at_zero(learner: str, way: str) -> None:
    for features in FEATURES:
        model = make(learner, way, features)
        if learner != AUTO:  # whose score is a share of votes
            assert model.predict(unseen(features))[1] == 0.0, features
        assert not model.weights(model.classes - 1).any(), features
        assert model.classifier.updates == 0, features


@every_classifier_and_panel
def test_predicting_changes_nothing(learner: str, way: str) -> None:
    for features in FEATURES:
        model = make(learner, way, features).run(rounds_for(way, features, 20))
        before = model.to_bytes()
        for sent, _ in rounds_for(way, features, 5, seed=2):
            model.predict(sent)
        model.predict(unseen(features))
        assert model.to_bytes() == before, features


@every_classifier_and_panel
def test_the_same_examples_give_the_same_state_to_the_bit(learner: str, way: str) -> None:
    for features in SOME:
        rounds = rounds_for(way, features, 20)
        model, again = make(learner, way, features).run(rounds), make(learner, way, features).run(rounds)
        assert model.classifier.updates > 0, features
        assert model.to_bytes() == again.to_bytes(), features


@every_classifier_and_panel
@pytest.mark.parametrize("pause", [slow(0), 12])
def test_a_restored_model_goes_on_as_if_it_had_never_stopped(learner: str, way: str, pause: int) -> None:
    for features in FEATURES:
        rounds = rounds_for(way, features, 20)
        model = make(learner, way, features)
        model.read(rounds[0][0])  # fixes the dimension, as a prediction does
        model.run(rounds[:pause])
        data = model.to_bytes()
        restored = make(learner, way, features)
        restored.restore(data, model.classes)
        assert restored.to_bytes() == data, features
        assert restored.predict(unseen(features)) == model.predict(unseen(features)), features
        assert restored.run(rounds[pause:]).to_bytes() == model.run(rounds[pause:]).to_bytes(), features


@every_classifier_and_panel
def test_a_weight_of_1_leaves_the_same_bits_as_none(learner: str, way: str) -> None:
    for features in SOME:
        rounds = rounds_for(way, features, 40)
        with_it, without = (
            make(learner, way, features).run(rounds, 1.0),
            make(learner, way, features).run(rounds),
        )
        assert with_it.to_bytes() == without.to_bytes(), features


@every_classifier_and_panel
def test_a_restored_model_goes_on_with_weights_as_if_it_had_never_stopped(learner: str, way: str) -> None:
    weights = (0.5, 3.0, 1.0)
    for features in SOME:
        rounds = rounds_for(way, features, 40)
        model = make(learner, way, features).run(rounds[:21], *weights)
        restored = make(learner, way, features)
        restored.restore(model.to_bytes(), model.classes)
        assert (
            restored.run(rounds[21:], *weights).to_bytes() == model.run(rounds[21:], *weights).to_bytes()
        ), features


@pytest.mark.parametrize("way", ["binary", "multiclass"])
def test_under_rule_mistake_a_weight_of_2_is_the_example_sent_twice(way: str) -> None:
    """Both reveals of a prediction that was served once, and wrongly: w += y z, twice."""
    once, twice = make("perceptron", way), make("perceptron", way)
    updates = 0
    for sent, truth in rounds_for(way, count=60):
        served, _ = once.predict(sent)
        assert served == twice.predict(sent)[0]
        updates += once.reveal(sent, truth, served, 2.0)
        for _ in range(2):
            twice.reveal(sent, truth, served)
        for chosen in range(once.classes):
            np.testing.assert_allclose(once.weights(chosen), twice.weights(chosen), rtol=1e-12, atol=1e-12)
    assert updates > 5
    assert (once.classifier.updates, twice.classifier.updates) == (updates, 2 * updates)


def test_weights_of_the_perceptron_counted_by_hand() -> None:
    model = Model({"algorithm": "perceptron", "eta0": 0.5})
    assert model.reveal([1.0, 2.0], 1, 0, 3.0)  # 3 · 0.5 · (1, 2, 1)
    assert model.weights().tolist() == [1.5, 3.0, 1.5]
    assert not model.reveal([1.0, 0.0], 1, 1, 100.0)  # served rightly
    assert model.reveal([1.0, -1.0], 0, 1, 2.0)  # - 2 · 0.5 · (1, -1, 1)
    assert model.weights().tolist() == [0.5, 4.0, 0.5]
    assert model.reveal([4.0, 0.0], 1, 0, 0.25)  # 0.25 · 0.5 · (4, 0, 1)
    assert model.weights().tolist() == [1.0, 4.0, 0.625]


@every_classifier_and_panel
def test_a_state_shares_no_memory_with_the_model(learner: str, way: str) -> None:
    for features in SOME:
        rounds = rounds_for(way, features, 30)
        model, other = make(learner, way, features).run(rounds[:15]), make(learner, way, features)
        before = model.to_bytes()
        kept = {"features": model.features.state(), "classifier": model.classifier.state()}
        other.features.restore(kept["features"])
        other.classifier.restore(kept["classifier"], *model.classifier.shape)
        other.classes = model.classes
        other.run(rounds[15:])
        assert model.to_bytes() == before, features
        model.run(rounds[15:])
        assert encode_state(kept) == before, features


@every_classifier
def test_the_score_is_the_product_of_the_chosen_weights_with_the_vector(learner: str, way: str) -> None:
    for features in SOME:
        model = make(learner, way, features).run(rounds_for(way, features, 20))
        for sent, _ in rounds_for(way, features, 5, seed=3):
            z = model.features.vector(model.read(sent))
            chosen, score, _ = model.classifier.decide(z)
            product = z.dot(model.weights(chosen))
            assert product == pytest.approx(score, rel=1e-9, abs=1e-9), features


@every_classifier_and_panel
def test_whoever_learns_errs_less_than_by_chance(learner: str, way: str) -> None:
    for features in ("dense", "named"):
        rounds = rounds_for(way, features, 200)
        model = make(learner, way, features).run(rounds[:100])
        before = model.mistakes
        model.run(rounds[100:])
        by_chance = 100 * (1 - 1 / STRATEGIES[way][2])
        assert model.mistakes - before < 0.7 * by_chance, features


@every_classifier
def test_sparse_and_dense_forms_of_an_example_give_the_same_weights(learner: str, way: str) -> None:
    rng = np.random.default_rng(5)
    dense, sparse = make(learner, way).classifier, make(learner, way).classifier
    for classifier in (dense, sparse):
        classifier.grow(9)
        for _ in range(STRATEGIES[way][2] - STRATEGIES[way][1]):
            classifier.add_class()
    for _ in range(80):
        values = rng.normal(size=9) * (rng.random(9) < 0.4)
        truth = int(rng.integers(STRATEGIES[way][2]))
        present = rng.permutation(np.flatnonzero(values))
        served, score, gap = dense.decide(Vector(values))
        assert sparse.decide(Vector(values[present], present)) == (
            served,
            pytest.approx(score, abs=1e-12),
            pytest.approx(gap, abs=1e-12),
        )
        assert dense.learn(Vector(values), truth, served) == sparse.learn(
            Vector(values[present], present), truth, served
        )
    for chosen in range(STRATEGIES[way][2]):
        np.testing.assert_allclose(
            sparse.weights_for(chosen), dense.weights_for(chosen), rtol=1e-12, atol=1e-12
        )


@every_sparse_one
def test_sparse_learning_touches_only_what_is_present(learner: str, way: str) -> None:
    classifier = make(learner, way).run(rounds_for(way)).classifier
    classifier.grow(1000)
    before = classifier.state()
    classifier.learn(Vector(np.array([5.0, -3.0]), np.array([700, 2])), 1, 0)
    absent = np.delete(np.arange(1000), [700, 2])
    kept, now = _arrays(before), _arrays(classifier.state())
    assert kept.keys() == now.keys()
    for name, array in kept.items():
        if array.shape[-1] == 1000 and learner == "perceptron-forgetting":  # all shrinks
            assert (np.abs(now[name][..., absent]) <= np.abs(array[..., absent])).all()
        elif array.shape[-1] == 1000:
            assert np.array_equal(array[..., absent], now[name][..., absent]), name


@every_classifier
def test_growing_adds_zeros_and_changes_nothing_else(learner: str, way: str) -> None:
    rounds = rounds_for(way)
    model = make(learner, way).run(rounds)
    before = [model.weights(chosen).copy() for chosen in range(model.classes)]
    for size in (6, 7, 8, 50):  # within and beyond the room there is
        model.classifier.grow(size)
        for chosen, weights in enumerate(before):
            assert np.array_equal(model.weights(chosen)[:5], weights)
            assert not model.weights(chosen)[5:].any()


@every_classifier
def test_growing_one_by_one_gives_the_same_state_as_growing_at_once(learner: str, way: str) -> None:
    slowly, at_once = make(learner, way).classifier, make(learner, way).classifier
    at_once.grow(30)
    rng = np.random.default_rng(8)
    for classifier in (slowly, at_once):
        for _ in range(STRATEGIES[way][2] - STRATEGIES[way][1]):
            classifier.add_class()
    for size in range(1, 31):
        slowly.grow(size)
        z = Vector(rng.normal(size=2), np.array([size - 1, size // 2 - 1 if size > 1 else size]))
        if size == 1:
            z = Vector(z.values[:1], z.indices[:1])  # type: ignore[index]
        truth = int(rng.integers(STRATEGIES[way][2]))
        for classifier in (slowly, at_once):
            classifier.learn(z, truth, classifier.decide(z)[0])
    kept, now = _arrays(slowly.state()), _arrays(at_once.state())
    for name in kept:
        np.testing.assert_allclose(kept[name], now[name], rtol=1e-12, atol=1e-12, err_msg=name)


@every_growing_one
def test_a_class_that_appears_starts_from_zero_and_the_rest_is_untouched(learner: str, way: str) -> None:
    model = make(learner, way).run(rounds_for(way))
    before = [model.weights(chosen).copy() for chosen in range(3)]
    model.classifier.add_class()
    assert not model.weights(3).any()
    for chosen, weights in enumerate(before):
        assert np.array_equal(model.weights(chosen), weights)


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("way", ["binary", "multiclass"])
def test_under_rule_mistake_a_correctly_served_example_changes_no_weight(way: str, features: str) -> None:
    model = make("perceptron", way, features).run(rounds_for(way, features))
    for sent, truth in rounds_for(way, features, seed=4):
        before = model.weights(truth).copy()
        assert not model.reveal(sent, truth, truth)
        assert np.array_equal(model.weights(truth)[: len(before)], before)
        assert not model.weights(truth)[len(before) :].any()


@every_classifier
def test_an_example_of_zeros_moves_no_weight_and_is_no_update(learner: str, way: str) -> None:
    model = make(learner, way, "dense-no-bias").run(rounds_for(way, "dense-no-bias", 30))
    updates = model.classifier.updates
    before = [model.weights(chosen).copy() for chosen in range(model.classes)]
    for truth in range(model.classes):
        for served in range(model.classes):
            assert not model.classifier.learn(Vector(np.zeros(4)), truth, served)
            assert not model.classifier.learn(Vector(np.zeros(0), np.zeros(0, dtype=int)), truth, served)
    assert model.classifier.updates == updates
    if learner != "averaged":  # whose mean goes on towards the weights that it has now
        for chosen, weights in enumerate(before):
            assert np.array_equal(model.weights(chosen), weights)


def test_a_wrongly_served_example_updates_even_if_the_weights_have_become_right() -> None:
    model = Model({"algorithm": "perceptron"})
    assert model.reveal([1.0], 1, 0)
    assert model.predict([1.0])[0] == 1
    assert model.reveal([1.0], 1, 0)  # served before the first reveal, revealed after it
    assert model.weights().tolist() == [2.0, 2.0]


def _arrays(state: Any, name: str = "") -> dict[str, np.ndarray]:
    if isinstance(state, np.ndarray):
        return {name: state}
    parts = state.items() if isinstance(state, dict) else enumerate(state) if isinstance(state, list) else ()
    return {key: array for part, value in parts for key, array in _arrays(value, f"{name}/{part}").items()}
