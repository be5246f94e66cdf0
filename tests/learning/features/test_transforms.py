"""standardize, normalize and fourier."""

from statistics import fmean, pstdev
from typing import Any

import numpy as np
import pytest

from service.learning.features import kinds as feature_kinds
from service.learning.features.contract import Features
from service.learning.features.fourier import Fourier
from service.learning.vectors import Vector


def features(settings: Any) -> Features:
    return feature_kinds.build(feature_kinds.complete(settings), None)


def values(made: Features, sent: Any) -> list[float]:
    return made.vector(made.read(sent)).values.tolist()


def test_dense_features_are_standardized_by_what_was_revealed() -> None:
    made = features({"standardize": True, "dimension": 2})
    stream = [[1.0, 5.0], [4.0, 5.0], [2.5, 5.0], [-7.0, 5.0]]
    assert values(made, [3.0, 9.0]) == [0.0, 0.0]
    for sent in stream:
        made.absorb(made.read(sent))
    first = [sent[0] for sent in stream]
    expected = (3.0 - fmean(first)) / pstdev(first)
    assert values(made, [3.0, 5.0]) == [pytest.approx(expected, rel=1e-12), 0.0]
    assert values(made, [3.0, 9.0])[1] == 0.0  # it has not varied yet


def test_a_large_mean_does_not_hide_a_small_variance() -> None:
    made = features({"standardize": True})
    for i in range(1000):
        made.absorb(made.read([1e9 + (i % 2)]))
    assert values(made, [1e9 + 1]) == [pytest.approx(1.0, rel=1e-6)]


@pytest.mark.parametrize("kind", ["named", "hashed"])
def test_sparse_features_are_scaled_by_their_deviation_with_absent_ones_as_zero(kind: str) -> None:
    made = features({"kind": kind, "standardize": True})
    stream: list[dict[str, Any]] = [
        {"a": 2.0, "c": "x"},
        {"a": 3.0},
        {"b": 7.0, "c": "x"},
        {"a": -1.0},
        {"b": 2.0},
    ]
    for sent in stream:
        made.absorb(made.read(sent))
    for name in ("a", "b"):
        deviation = pstdev([sent.get(name, 0.0) for sent in stream])
        assert np.abs(values(made, {name: 6.0})) == pytest.approx([6.0 / deviation], rel=1e-12)
    assert np.abs(values(made, {"c": "x"})) == pytest.approx([1 / pstdev([1, 0, 1, 0, 0])])
    assert values(made, {"never seen": 1.0}) in ([], [0.0])


def test_normalizing_gives_the_length_one_whatever_the_scale() -> None:
    made = features({"normalize": "l2"})
    assert values(made, [3.0, -4.0]) == pytest.approx([0.6, -0.8])
    assert values(made, [3e99, -4e99]) == pytest.approx([0.6, -0.8])
    assert values(made, [3e-320, -4e-320]) == pytest.approx([0.6, -0.8], rel=1e-3)
    assert values(made, [0.0, 0.0]) == [0.0, 0.0]
    named = features({"kind": "named", "normalize": "l2"})
    named.absorb(named.read({"a": 3, "b": 4}))
    assert values(named, {"a": 3, "b": 4, "unknown": 5}) == pytest.approx([0.6, 0.8])


def test_standardizing_comes_before_normalizing() -> None:
    made = features({"standardize": True, "normalize": "l2"})
    for sent in ([1.0, 100.0], [3.0, 500.0]):
        made.absorb(made.read(sent))
    assert values(made, [3.0, 500.0]) == pytest.approx([np.sqrt(0.5), np.sqrt(0.5)])


@pytest.mark.parametrize("gamma", [0.1, 1.0, 5.0])
def test_products_of_fourier_features_come_near_the_gaussian_kernel(gamma: float) -> None:
    fourier = Fourier(features=4096, gamma=gamma, seed=3)
    rng = np.random.default_rng(1)
    for _ in range(20):
        x, other = rng.normal(size=(2, 3)) / 2
        product = fourier.apply(Vector(x)).values @ fourier.apply(Vector(other)).values
        assert product == pytest.approx(np.exp(-gamma * np.sum((x - other) ** 2)), abs=0.08)


@pytest.mark.parametrize("dimension", [1, 4, 30])
def test_a_gamma_that_is_not_given_is_one_by_the_dimension(dimension: int) -> None:
    x = Vector(np.random.default_rng(2).normal(size=dimension))
    given = Fourier(features=64, gamma=1 / dimension, seed=5).apply(x).values
    assert Fourier(features=64, gamma=None, seed=5).apply(x).values.tolist() == given.tolist()


def test_the_projection_follows_from_the_seed_alone() -> None:
    x = Vector(np.array([0.25, -1.5]))
    one = Fourier(features=3, gamma=1.0, seed=7).apply(x).values
    assert Fourier(features=3, gamma=1.0, seed=7).apply(x).values.tolist() == one.tolist()
    assert Fourier(features=3, gamma=1.0, seed=8).apply(x).values.tolist() != one.tolist()
    # As first drawn. If this changes, every model with fourier features changes under its owner.
    assert one.tolist() == [0.04877570861247223, 0.37134362303797586, -0.7814073391033617]
