"""Products with many rows: the same bits as one by one, and no memory for all of them."""

import tracemalloc

import numpy as np
import pytest

from service.learning.vectors import ALL, PRODUCTS_AT_ONCE, RowIndex, Vector, dot


@pytest.mark.parametrize("columns", [1, 7, 1_000, 8_193, 65_536, PRODUCTS_AT_ONCE + 1])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_every_product_is_what_it_is_by_itself(columns: int, is_sparse: bool) -> None:
    chance = np.random.default_rng(columns)
    rows = chance.normal(size=(40, columns + 3))[:, :columns]  # as in a matrix with room to grow
    indices = np.sort(chance.permutation(columns)[: columns // 2 + 1]) if is_sparse else None
    z = Vector(chance.normal(size=columns if indices is None else len(indices)), indices)
    expected = [dot(row if indices is None else row[indices], z.values) for row in rows]
    assert z.dots(rows).tolist() == expected
    chosen = chance.permutation(40)[:23]
    assert z.dots(rows, chosen).tolist() == [expected[at] for at in chosen]
    assert not len(z.dots(rows, chosen[:0]))


@pytest.mark.parametrize("chosen", [ALL, np.arange(100)])
@pytest.mark.usefixtures("only_this_thread")
def test_products_with_a_large_matrix_take_little_memory(
    chosen: RowIndex,
) -> None:
    rows, z = np.ones((100, 65_536)), Vector(np.ones(65_536))
    tracemalloc.start()
    products = z.dots(rows, chosen)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert products.tolist() == [65_536.0] * 100
    assert most < rows.nbytes / 10, "all products at once take as much as the matrix, or twice that"
