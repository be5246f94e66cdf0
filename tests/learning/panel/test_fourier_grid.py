"""Fourier features on a grid: exact sums, the same for rows as one by one, near the kernel."""

import numpy as np
import pytest

from service.learning.features.fourier import REACH, X_GRID, FourierGrid, _drawn, features_for

GAMMAS = (1.0, 4.0)


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("dimension", [1, 2, 7, 64, 2048, 65_536])
def test_every_sum_is_exact_so_that_no_order_of_additions_matters(dimension: int, gamma: float) -> None:
    features = features_for(512, dimension)
    projection, phases = _drawn(features, dimension, gamma, 0)
    largest = np.full(dimension, REACH * X_GRID)
    for column in (0, features - 1):
        whole = [int(number) for number in projection[:, column]]
        most = sum(abs(number) for number in whole) * int(largest[0]) + int(phases[column])
        assert most < 2**53
        assert all(number == int(number) for number in projection[:, column].tolist())


@pytest.mark.parametrize("dimension", [1, 3, 64, 300])
def test_rows_are_the_same_to_the_bit_as_one_by_one(dimension: int) -> None:
    rows = np.random.default_rng(1).normal(size=(70, dimension)) * 3
    rows[0] = 1e100
    rows[1] = -1e100
    rows[2] = 0.0
    fourier = FourierGrid(512, dimension, gamma=4.0, seed=0)
    together = fourier.apply(rows)
    for row, found in zip(rows, together, strict=True):
        assert np.array_equal(fourier.apply(row), found)
    assert np.isfinite(together).all() and np.abs(together).max() <= np.sqrt(2 / 512) + 1e-9


@pytest.mark.parametrize("gamma", GAMMAS)
def test_products_come_near_the_kernel(gamma: float) -> None:
    x = np.random.default_rng(2).normal(size=(60, 16))
    features = FourierGrid(4096, 16, gamma=gamma, seed=1).apply(x)
    squared = ((x[:, None] - x[None]) ** 2).sum(axis=2)
    off = features @ features.T - np.exp(-gamma * squared / 16)
    assert np.abs(off).max() < 0.1 and np.abs(off).mean() < 0.02


def test_the_draws_never_change() -> None:
    projection, phases = _drawn(4, 2, 1.0, 0)
    assert projection.tolist() == [
        [166527.0, -325949.0, 89025.0, 307200.0],
        [104861.0, 142674.0, -294786.0, -18462.0],
    ]
    assert phases.tolist() == [43771673853.0, 18539601800.0, 2815679124.0, 1135770465.0]
