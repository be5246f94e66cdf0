"""What the experts of a panel see beside the features: products of all pairs and squares, and hat functions.

The features stand in a ring. At each distance around it every feature has a partner: itself at 0, its neighbour at 1,
and so on to the other side. So all products are those of the features, in their order, with windows onto the ring.

Where there are more products than entries, each entry is the sum of several with signs that look random, so that what
does not belong together cancels out on average: a count sketch (Charikar, Chen, Farach-Colton, 2002). What is added up
has one feature in common, so that its partners are added and multiplied by it once.

Hat functions tell each feature apart into overlapping ranges, so that a linear learner can bend along it. A feature
lies between two of `KNOTS` and is divided between their two hats: near a knot its hat is close to 1, halfway to the
next both are ½, and all others are 0. A weight for each hat makes any broken line over the feature, and all features
together an additive model: Hastie, Tibshirani: Generalized additive models, 1990. Boundaries along the axes, such as
trees find, are within reach of it.
"""

from functools import lru_cache

import numpy as np

from service.learning.features.crosses import pair_count
from service.learning.vectors import Array

KNOTS = (-2.5, -1.5, -1.0, -0.67, -0.33, 0.0, 0.33, 0.67, 1.0, 1.5, 2.5)
"""In standard deviations: closest where most values are. What is beyond the ends counts as being there."""

HATS = len(KNOTS)
_STEEPNESS = 1.0 / np.diff(np.array(KNOTS))
_RISING = np.concatenate(([0.0], _STEEPNESS))[:, None]
_RISEN = np.concatenate(([1.0], -_STEEPNESS * np.array(KNOTS[:-1])))[:, None]
_FALLING = np.concatenate((-_STEEPNESS, [0.0]))[:, None]
_FALLEN = np.concatenate((_STEEPNESS * np.array(KNOTS[1:]), [1.0]))[:, None]
"""A hat is the lower one of a line that rises from the knot before and a line that falls to the knot after it."""


def hats(x: Array) -> Array:
    """The hats of standardized features: at the first knot for all of them, then at the second, and so on.

    Examples may also be the rows of a table; each becomes the same as alone, to the bit.

    >>> np.round(hats(np.array([0.0, 2.0, -9.0])), 9).reshape(HATS, 3)[[0, 5, 9, 10]].tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.5, 0.0]]
    """
    inside = np.minimum(np.maximum(x, KNOTS[0]), KNOTS[-1])[..., None, :]
    rising = inside * _RISING
    rising += _RISEN
    falling = inside * _FALLING
    falling += _FALLEN
    np.minimum(rising, falling, out=rising)
    np.maximum(rising, 0.0, out=rising)
    return rising.reshape(*x.shape[:-1], HATS * x.shape[-1])


CROSSED_MAX = 128
"""Of more features than this, which would be 8,256 products, there are none."""

KEPT_MAX = 1024

REACH = 5.0
"""Standardized features beyond this many deviations count as this many in products."""


def products_kept(dimension: int) -> int:
    """How many entries the products of so many features have.

    >>> [products_kept(dimension) for dimension in (2, 44, 45, 64, 129)]
    [3, 990, 990, 1024, 0]
    """
    if dimension > CROSSED_MAX:
        return 0
    return KEPT_MAX // dimension * dimension if _is_folded(dimension) else pair_count(dimension)


def _is_folded(dimension: int) -> bool:
    return pair_count(dimension) > KEPT_MAX


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
    dimension = x.shape[-1]
    distances, kept = _distances(dimension)
    entries = out[..., : kept * dimension].reshape(*x.shape[:-1], kept, dimension)
    ring = np.concatenate((x, x), axis=-1)
    entries[...] = _windows(ring, 0, kept)
    for start in range(kept, distances, kept):
        count = min(kept, distances - start)
        entries[..., :count, :] += _windows(ring * _signs(dimension)[start // kept], start, count)
    entries *= x[..., np.newaxis, :]
    half = dimension // 2
    if half < distances:
        return
    # Of an even number of features each has one right across the ring: half as many pairs as features.
    across = x[..., :half] * x[..., half:]
    if kept < distances:
        out[..., :half] += across * _signs(dimension)[0, :half]
    else:
        out[..., kept * dimension :] = across


def _distances(dimension: int) -> tuple[int, int]:
    """At how many distances there are as many pairs as features, and how many of them have entries of their own."""
    distances = (dimension + 1) // 2
    return distances, KEPT_MAX // dimension if _is_folded(dimension) else distances


def _windows(ring: Array, start: int, count: int) -> Array:
    """The partners of all features at so many distances from `start` on, without a copy."""
    *rows, length = ring.shape
    step = ring.itemsize
    return np.ndarray((*rows, count, length // 2), np.float64, ring, start * step, (*ring.strides, step))


@lru_cache(maxsize=CROSSED_MAX)
def _signs(dimension: int) -> Array:
    """A sign for every place of a ring, whose features stand in it twice: a row for each time that it is folded."""
    distances, kept = _distances(dimension)
    shape = 1 + (distances - 1) // kept, 2 * dimension
    raw = np.random.PCG64(0).random_raw(shape)  # which numpy promises never to change
    return np.where(raw >> np.uint64(63), 1.0, -1.0)


def product_name(entry: int, dimension: int) -> tuple[int, int] | str:
    """Which two features an entry is the product of, or a word if it is a sum of several.

    >>> product_name(1, 5), product_name(9, 5), product_name(7, 64)
    ((1, 1), (0, 4), 'crosses 7')
    """
    if _is_folded(dimension):
        return f"crosses {entry}"
    distance, first = divmod(entry, dimension)
    second = (first + distance) % dimension
    return min(first, second), max(first, second)
