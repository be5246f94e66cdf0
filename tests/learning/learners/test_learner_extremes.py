"""Numbers as large and as small as a client may send: nothing becomes infinite or not a number."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.learning import saved
from service.learning.classes import strategies
from service.learning.learners import algorithms
from service.learning.vectors import LARGEST, Vector
from tests.learning.rounds import FEATURES, PAIRS, STRATEGIES, Model
from tests.support.tiers import covering

EXTREME: dict[str, dict[str, Any]] = {
    "perceptron": {"eta0": 1e6},
    "perceptron-margin": {"rule": "margin", "delta": 1e100, "eta0": 1e6},
    "perceptron-forgetting": {"eta0": 1e6, "forget": 1e6},
    "averaged": {"algorithm": "averaged", "eta0": 1e6},
    "pa": {"algorithm": "pa"},
    "pa1": {"algorithm": "pa1", "C": 1e6},
    "pa2": {"algorithm": "pa2", "C": 1e-100},
    "arow": {"algorithm": "arow", "r": 1e-6},
    "arow-full": {"algorithm": "arow", "r": 1e-6, "covariance": "full"},
    "forgetting": {"algorithm": "arow_forgetting", "r": 1e-6, "forget": 0.5},
    "forgetting-full": {"algorithm": "arow_forgetting", "r": 1e-6, "forget": 5e-324, "covariance": "full"},
    "scw": {"algorithm": "scw", "C": 1e6, "eta": 1 - 2**-53},
    "scw-full": {"algorithm": "scw", "C": 1e6, "eta": 0.5 + 2**-53, "covariance": "full"},
    "logistic": {"algorithm": "logistic", "eta0": 1e6},
}

magnitudes = st.sampled_from([0.0, 5e-324, 1e-310, 1e-200, 1e-110, 1e-100, 1e-50, 1e-9, 1.0, 3.0, 1e8,
                              1e50, 1e99, LARGEST])  # fmt: skip
numbers = st.builds(lambda size, sign, part: size * sign * part, magnitudes, st.sampled_from([-1.0, 1.0]),
                    st.floats(0.5, 1.0))  # fmt: skip
rounds = st.lists(
    st.tuples(st.lists(numbers, min_size=3, max_size=3), st.integers(0, 3)), min_size=1, max_size=25
)
weights = st.lists(
    st.sampled_from([5e-324, 1e-300, 1e-100, 1e-12, 0.5, 1.0, 2.5, 1e6, 1e15]), min_size=1, max_size=4
)
"""The largest `weight_max` is 1e9, and a class weighs at most 1e6."""


def all_finite(state: Any) -> bool:
    if isinstance(state, dict):
        return all(all_finite(value) for value in state.values())
    if isinstance(state, list):
        return all(all_finite(value) for value in state)
    return not isinstance(state, float | np.ndarray) or bool(np.isfinite(state).all())


@pytest.mark.parametrize(
    ("learner", "way"),
    covering([(a, b) for a, b in PAIRS if not b.endswith("appearing")], pytest.mark.slow),
)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(stream=rounds, sparse=st.booleans(), weights=weights)
@example(
    stream=[([LARGEST, -LARGEST, 3.0], 0), ([LARGEST, LARGEST, 3.0], 1)] * 12, sparse=False, weights=[1e15]
)
@example(stream=[([1.0, -1.0, 3.0], 0), ([-1.0, 2.0, 3.0], 1)] * 12, sparse=True, weights=[1e15, 1e-12])
@example(stream=[([1e-99, 0.0, 0.0], number % 2) for number in range(25)], sparse=False, weights=[1e15])
def test_nothing_becomes_infinite(
    learner: str, way: str, stream: list[tuple[list[float], int]], sparse: bool, weights: list[float]
) -> None:
    name, classes, _ = STRATEGIES[way]
    classifier = strategies.build(algorithms.complete(EXTREME[learner]), name, classes=classes, tie=1)
    classifier.grow(3)
    for number, (values, truth) in enumerate(stream):
        z = Vector(np.array(values), np.arange(3) if sparse else None)
        served, score, _ = classifier.decide(z)
        assert np.isfinite(score) and abs(score) <= saved.SCORE_MAX
        classifier.learn(z, truth % classes, served, weights[number % len(weights)])
        assert all_finite(classifier.state())
    again = strategies.build(algorithms.complete(EXTREME[learner]), name, classes=classes, tie=1)
    again.restore(classifier.state(), classes, 3)
    for values, _ in stream:
        assert np.isfinite(classifier.decide(Vector(np.array(values)))[1])


@pytest.mark.parametrize("features", [name for name in FEATURES if name.startswith("dense")])
@settings(max_examples=30, deadline=None, derandomize=True)
@given(stream=rounds)
def test_no_transform_makes_an_entry_infinite_or_too_large(
    features: str, stream: list[tuple[list[float], int]]
) -> None:
    options, bias_value = FEATURES[features]
    model = Model({"algorithm": "pa"}, features=options, bias_value=bias_value)
    for values, truth in stream:
        for z in (model.features.vector(model.read(values)), _absorbed(model, values)):
            assert (np.abs(z.values) <= LARGEST).all()
        model.reveal(values, truth % 2, 0)
        assert all_finite(model.features.state())


@pytest.mark.parametrize("features", [name for name in FEATURES if not name.startswith("dense")])
@settings(max_examples=30, deadline=None, derandomize=True)
@given(stream=rounds)
def test_no_transform_of_names_makes_an_entry_infinite_or_too_large(
    features: str, stream: list[tuple[list[float], int]]
) -> None:
    options, bias_value = FEATURES[features]
    model = Model({"algorithm": "arow"}, features=options, bias_value=bias_value)
    for values, truth in stream:
        sent = {f"{truth} {i}": value for i, value in enumerate(values)}
        for z in (model.features.vector(model.read(sent)), _absorbed(model, sent)):
            assert (np.abs(z.values) <= 4 * LARGEST).all()  # a few names may share a slot
            assert z.indices is not None
            assert len(set(z.indices.tolist())) == len(z.indices)
        model.reveal(sent, truth % 2, 0)
        assert all_finite(model.features.state())
        assert all_finite(model.classifier.state())


@pytest.mark.parametrize("learner", ["arow", "forgetting", "scw"])
def test_a_stream_built_to_run_away_does_not(learner: str) -> None:
    """Two equal weights are pulled in opposite ways until they are quite sure, though they stay as they are.

    Then an example that hardly moves them, sure as they are, moves the unsure ones beside them by what the
    sure ones err. Those are 1e100 times as large now, and the next to be made sure.
    """
    classifier = strategies.build(algorithms.complete(EXTREME[learner]), None, classes=2, tie=1)
    classifier.grow(20)
    classifier.learn(Vector(np.ones(2), np.array([0, 1])), 1, 0)
    for pair in range(0, 18, 2):
        here, there = np.array([pair, pair + 1]), np.arange(pair, pair + 4)
        for i in range(1000):
            variance = classifier.state()["covariance"][pair]
            size = min(np.sqrt(1e-6 / variance), LARGEST)
            classifier.learn(Vector(size * np.array([1.0, -1.0]), here), i % 2, 0)
        sign = 1 if classifier.weights_for(1)[pair] > 0 else -1
        classifier.learn(Vector(np.array([1e97 * sign, 1e97 * sign, 1e-3, 1e-3]), there), 0, 1)
        assert all_finite(classifier.state())
        assert np.isfinite(classifier.decide(Vector(np.full(20, LARGEST)))[1])


def test_a_full_covariance_survives_what_rounding_makes_of_it() -> None:
    """Large examples again and again: zᵀΣz is then nothing but rounding errors. Found by a random search."""
    classifier = strategies.build(algorithms.complete(EXTREME["arow-full"]), None, classes=2, tie=1)
    classifier.grow(2)
    again = [-7.099999999999999e98, -9.2e98]
    for values, truth in (
        ([-5.799999999999999e98, 5.2e98], 0),
        (again, 1),
        ([-6.1e-51, -7.299999999999999e98], 0),
        (again, 1),
    ):
        classifier.learn(Vector(np.array(values)), truth, 0)
        assert all_finite(classifier.state())
        assert np.abs(classifier.state()["covariance"]).max() <= 1.0


def _absorbed(model: Model, sent: Any) -> Vector:
    """The vector as it will be when the example is revealed, without revealing it."""
    kept = model.features.state()
    example = model.read(sent)
    model.features.absorb(example)
    z = model.features.vector(example)
    model.features.restore(kept)
    return z
