"""Products of all pairs, as a panel's experts see them."""

import numpy as np
import pytest

from service.learning.panel.expert_features import REACH, product_name, products_kept, write_products
from service.learning.vectors import Array


def written(x: Array) -> Array:
    dimension = x.shape[-1]
    room = np.full((*x.shape[:-1], dimension + products_kept(dimension) + 1), np.nan)
    write_products(x, room[..., :-1])
    assert np.isnan(room[..., -1]).all(), "nothing beyond its end is written"
    return room[..., :-1]


@pytest.mark.parametrize("dimension", [1, 2, 3, 8, 43, 44])
def test_every_pair_and_every_square_has_one_entry_with_its_name(dimension: int) -> None:
    x = np.random.default_rng(dimension).normal(size=dimension)
    products = written(x[np.newaxis])[0, dimension:]
    names = [product_name(entry, dimension) for entry in range(len(products))]
    assert sorted(names) == [(i, j) for i in range(dimension) for j in range(i, dimension)]  # type: ignore[type-var]
    for (i, j), product in zip(names, products, strict=True):
        assert product == x[int(i)] * x[int(j)]


@pytest.mark.parametrize("dimension", [1, 8, 45, 64, 127, 128, 129])
def test_products_of_rows_are_those_of_each_row_to_the_bit(dimension: int) -> None:
    rows = 3 * np.random.default_rng(dimension).normal(size=(9, dimension))
    together = written(rows)
    for row, products in zip(rows, together, strict=True):
        assert np.array_equal(written(row), products)
    assert dimension > 128 or np.abs(together[:, :dimension]).max() <= REACH


@pytest.mark.parametrize("dimension", [45, 64, 128])
def test_folded_products_keep_the_inner_products_of_all_of_them_nearly(dimension: int) -> None:
    """Of examples that are alike; what is added up that does not belong together cancels out on average."""
    chance = np.random.default_rng(dimension)
    off = []
    for _ in range(60):
        x = chance.normal(size=(2, dimension))
        x[1] += x[0]
        x = np.clip(x, -REACH, REACH)
        left, right = np.triu_indices(dimension)
        exact = float((x[0, left] * x[0, right]) @ (x[1, left] * x[1, right]))
        folded = written(x)[:, dimension:]
        off.append(float(folded[0] @ folded[1]) / exact - 1.0)
    assert abs(np.mean(off)) < 0.05 and np.std(off) < 0.3
