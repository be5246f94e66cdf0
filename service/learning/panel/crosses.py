"""Products of all pairs of features and their squares, folded into a limited number of entries.

Where there are more products than entries, each entry is the sum of several with signs that look random, so that what
does not belong together cancels out on average: a count sketch (Charikar, Chen, Farach-Colton, 2002) whose places
follow each other, since then whole rows are added.
"""

from functools import lru_cache

import numpy as np

from service.learning.features.crosses import pair_count, pairs_of
from service.learning.vectors import Array, Indices

CROSSED_MAX = 128
"""Of more features than this, which would be 8,256 products, there are none."""

KEPT_MAX = 1024

REACH = 5.0
"""Standardized features beyond this many deviations count as this many in products."""


def products_kept(dimension: int) -> int:
    """How many entries the products of so many features have.

    >>> [products_kept(dimension) for dimension in (2, 44, 45, 128, 129)]
    [3, 990, 1024, 1024, 0]
    """
    return min(KEPT_MAX, pair_count(dimension)) if dimension <= CROSSED_MAX else 0


def write_products(x: Array, out: Array) -> None:
    """Write standardized features and their products, of x or of each of its rows: rows as one by one, to the bit."""
    dimension = x.shape[-1]
    if not products_kept(dimension):
        out[...] = x
        return
    x = np.minimum(np.maximum(x, -REACH), REACH)
    out[..., :dimension] = x
    _write(x, out[..., dimension:])


def _write(x: Array, out: Array) -> None:
    left, right, signs = _pairs(x.shape[-1])
    made = out if len(left) <= KEPT_MAX else np.empty((*x.shape[:-1], len(left)))
    if x.ndim == 1:
        np.multiply(x[left], x[right], made)
    else:
        start = 0
        for at in range(
            x.shape[1]
        ):  # a slice for each feature: fast, where taking each entry by its index is slow
            end = start + x.shape[1] - at
            np.multiply(x[:, at : at + 1], x[:, at:], made[:, start:end])
            start = end
    if made is out:
        return
    made[..., KEPT_MAX:] *= signs[KEPT_MAX:]
    out[...] = made[..., :KEPT_MAX]
    for start in range(KEPT_MAX, len(left), KEPT_MAX):
        part = made[..., start : start + KEPT_MAX]
        out[..., : part.shape[-1]] += part


@lru_cache(maxsize=CROSSED_MAX)
def _pairs(dimension: int) -> tuple[Indices, Indices, Array]:
    """The left and the right of every pair, (0, 0), (0, 1) … (1, 1) …, and its sign."""
    left, right = pairs_of(dimension)
    bits = np.random.PCG64(0).random_raw(len(left)) >> np.uint64(
        63
    )  # whose output numpy promises never to change
    return left, right, np.where(bits, 1.0, -1.0)


def product_name(entry: int, dimension: int) -> tuple[int, int] | str:
    """Which two features an entry is the product of, or a word if it is a sum of several.

    >>> product_name(1, 5), product_name(7, 64)
    ((0, 1), 'crosses 7')
    """
    left, right, _ = _pairs(dimension)
    if len(left) > KEPT_MAX:
        return f"crosses {entry}"
    return int(left[entry]), int(right[entry])
