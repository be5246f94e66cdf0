"""Numbers as large and as small as a client may send: nothing becomes infinite or not a number."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.learning import catalogue, ways
from service.learning.vectors import LARGEST, Vector
from tests.learning.rounds import FEATURES, PAIRS, WAYS, Model

EXTREME: dict[str, dict[str, Any]] = {
    "perceptron": {"eta0": 1e6},
    "perceptron-margin": {"rule": "margin", "delta": 1e100, "eta0": 1e6},
    "averaged": {"algorithm": "averaged", "eta0": 1e6},
    "pa": {"algorithm": "pa"},
    "pa1": {"algorithm": "pa1", "C": 1e6},
    "pa2": {"algorithm": "pa2", "C": 5e-324},
    "arow": {"algorithm": "arow", "r": 1e-6},
    "arow-full": {"algorithm": "arow", "r": 1e-6, "covariance": "full"},
    "scw": {"algorithm": "scw", "C": 1e6, "eta": 1 - 2**-53},
    "scw-full": {"algorithm": "scw", "C": 1e6, "eta": 0.5 + 2**-53, "covariance": "full"},
}

magnitudes = st.sampled_from([0.0, 5e-324, 1e-310, 1e-200, 1e-110, 1e-100, 1e-50, 1e-9, 1.0, 3.0, 1e8,
                              1e50, 1e99, LARGEST])  # fmt: skip
numbers = st.builds(lambda size, sign, part: size * sign * part, magnitudes, st.sampled_from([-1.0, 1.0]),
                    st.floats(0.5, 1.0))  # fmt: skip
rounds = st.lists(
    st.tuples(st.lists(numbers, min_size=3, max_size=3), st.integers(0, 3)), min_size=1, max_size=25
)


def all_finite(state: Any) -> bool:
    if isinstance(state, dict):
        return all(all_finite(value) for value in state.values())
    if isinstance(state, list):
        return all(all_finite(value) for value in state)
    return not isinstance(state, float | np.ndarray) or bool(np.isfinite(state).all())


@pytest.mark.parametrize(("learner", "way"), [(a, b) for a, b in PAIRS if not b.endswith("appearing")])
@settings(max_examples=15, deadline=None, derandomize=True)
@given(stream=rounds, sparse=st.booleans())
def test_nothing_becomes_infinite(
    learner: str, way: str, stream: list[tuple[list[float], int]], sparse: bool
) -> None:
    name, classes, _ = WAYS[way]
    classifier = ways.build(catalogue.complete(EXTREME[learner]), name, classes=classes, tie=1)
    classifier.grow(3)
    for values, truth in stream:
        z = Vector(np.array(values), np.arange(3) if sparse else None)
        served, score = classifier.decide(z)
        assert np.isfinite(score)
        classifier.learn(z, truth % classes, served)
        assert all_finite(classifier.state())
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


def test_a_stream_built_to_blow_up_a_diagonal_covariance_does_not() -> None:
    """Two weights that cancel out keep the loss while their variances shrink; then the next is moved far."""
    classifier = ways.build(catalogue.complete({"algorithm": "arow", "r": 1e-6}), None, classes=2, tie=1)
    classifier.grow(40)
    rng = np.random.default_rng(3)
    for round_ in range(4000):
        at = rng.choice(40, size=3, replace=False)
        weights = classifier.weights_for(1)[at]
        z = np.where(weights == 0, 1.0, 0.5 / np.where(weights == 0, 1.0, weights))
        z[1] *= -1.0
        z = np.clip(z * 10.0 ** rng.integers(-3, 100), -LARGEST, LARGEST)
        classifier.learn(Vector(z, at), round_ % 2, 0)
        assert all_finite(classifier.state())


def _absorbed(model: Model, sent: Any) -> Vector:
    """The vector as it will be when the example is revealed, without revealing it."""
    kept = model.features.state()
    example = model.read(sent)
    model.features.absorb(example)
    z = model.features.vector(example)
    model.features.restore(kept)
    return z
