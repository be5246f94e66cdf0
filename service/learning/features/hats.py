"""Hat functions: each feature told apart into overlapping ranges, so that a linear learner can bend along it.

A feature lies between two of `KNOTS` and is divided between their two hats: near a knot its hat is close to 1, halfway
to the next both are ½, and all others are 0. A weight for each hat makes any broken line over the feature, and all
features together an additive model: Hastie, Tibshirani: Generalized additive models, 1990. Boundaries along the axes,
such as trees find, are within reach of it.
"""

import numpy as np

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
