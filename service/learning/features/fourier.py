"""Random Fourier features: a curved boundary from linear learners.

Rahimi, Recht: Random features for large-scale kernel machines, NIPS 2007. The inner product of two such
vectors comes near exp(-γ ‖x - x'‖²), the nearer the more features there are.
"""

from typing import Any

import numpy as np

from service.learning import saved
from service.learning.learners.normal import quantile
from service.learning.vectors import Array, Vector

_TURN = 2.0 * 3.141592653589793


def _sine_series(terms: int) -> list[float]:
    """The coefficients of sin(2π q) at q, q³, q⁵ …; by products, since powers are the math library's."""
    series = [_TURN]
    for k in range(1, terms):
        series.append(-series[-1] * _TURN * _TURN / (2 * k * (2 * k + 1)))
    return series


_SINE = _sine_series(8)


def cosine_of_turns(turns: Array) -> Array:
    """cos(2π t) to 1e-11, from sums and products only.

    numpy's own cosine takes its last bits from the processor's; this one is the same everywhere.

    >>> np.round(cosine_of_turns(np.array([0.0, 0.125, 0.25, 0.5, 1.0])), 9).tolist()
    [1.0, 0.707106781, 0.0, -1.0, 1.0]
    """
    quarter = 0.25 - np.abs(turns - np.rint(turns))  # cos(2π t) = sin(2π (1/4 - t))
    square = quarter * quarter
    total = np.full(len(turns), _SINE[-1])
    for coefficient in reversed(_SINE[:-1]):
        total *= square
        total += coefficient
    total *= quarter
    return total


class Fourier:
    """√(2/D) cos(Wx + b): W normal with the variance 2γ, b uniform over a turn, both from the seed.

    γ None is 1/dimension. Of standardized features the squared distance of two examples is about twice the dimension,
    so that it takes near ones together and tells far ones apart.

    The draws come from the raw output of PCG64, which numpy promises never to change; its own normal
    distribution it may change.
    """

    __slots__ = ("_features", "_gamma", "_phases", "_projection", "_seed")

    def __init__(self, *, features: int, gamma: float | None, seed: int) -> None:
        self._features = features
        self._gamma = gamma
        self._seed = seed
        self._projection: Array | None = None
        self._phases: Array = np.zeros(0)

    def apply(self, x: Vector) -> Vector:
        if self._projection is None:
            self._draw(len(x.values))
        assert self._projection is not None
        turns = np.add.reduce(self._projection * x.values, axis=1) + self._phases
        return Vector(np.sqrt(2.0 / self._features) * cosine_of_turns(turns))

    def _draw(self, dimension: int) -> None:
        """W and b in turns. They follow from the settings and the dimension, so no state keeps them."""
        raw = np.random.PCG64(self._seed).random_raw(self._features * (dimension + 1))
        uniform = ((raw >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
        self._phases = uniform[: self._features]
        normal = np.array([quantile(p) for p in uniform[self._features :].tolist()])
        gamma = 1.0 / dimension if self._gamma is None else self._gamma
        scale = np.sqrt(2.0 * gamma) / _TURN
        self._projection = scale * normal.reshape(self._features, dimension)

    def absorb(self, x: Vector) -> None:
        pass

    def size(self, size: int) -> int:
        return self._features

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Any, size: int) -> None:
        saved.fields(state)
