"""The perceptron, by either of the two rules that the literature calls by this name."""

from math import sqrt

import numpy as np
import numpy.typing as npt

from service.learning.learners.linear import Linear
from service.learning.vectors import Array, Vector


def learning_rate(schedule: str, eta0: float, k: int) -> float:
    """The learning rate of the k-th update, counted from 1.

    >>> [learning_rate(s, 1.0, 4) for s in ("constant", "inverse", "inverse_sqrt")]
    [1.0, 0.25, 0.5]
    """
    if schedule == "inverse":
        return eta0 / k
    if schedule == "inverse_sqrt":
        return eta0 / sqrt(k)
    return eta0


def sign(score: float, tie: int) -> int:
    """The label of a score; a score of zero gets `tie`.

    >>> [sign(score, -1) for score in (0.5, 0.0, -0.5)]
    [1, -1, -1]
    """
    return 1 if score > 0 else -1 if score < 0 else tie


class Perceptron(Linear):
    """w += η_k y z, when the served label was wrong (`mistake`) or y (w·z) <= δ (`margin`).

    The two rules differ at ties even with δ = 0: a tie that was served right updates under `margin` only.
    """

    __slots__ = ("_eta0", "_rule", "_schedule", "_tie", "idle_margin")

    def __init__(self, *, rule: str, delta: float, eta0: float, schedule: str, tie: int = 1) -> None:
        super().__init__()
        self._rule = rule
        self._eta0 = eta0
        self._schedule = schedule
        self._tie = tie
        self.idle_margin = delta if rule == "margin" else 0.0

    def learn(self, z: Vector, y: int, served: int | None, weight: float = 1.0) -> bool:
        if not self._errs(z, y, served) or z.is_zero:
            return False
        self.updates += 1
        z.add_to(self._weights, weight * learning_rate(self._schedule, self._eta0, self.updates) * y)
        return True

    def _errs(self, z: Vector, y: int, served: int | None) -> bool:
        if self._rule == "margin":
            return y * self.score(z) <= self.idle_margin
        return (sign(self.score(z), self._tie) if served is None else served) != y

    def next_rates(self, count: int) -> Array:
        """The learning rates of the next updates."""
        if self._schedule == "constant":
            return np.full(count, self._eta0)
        first = self.updates + 1
        return np.array([learning_rate(self._schedule, self._eta0, first + k) for k in range(count)])

    def errs(self, scores: Array, labels: npt.NDArray[np.int64], tie: int) -> npt.NDArray[np.bool_]:
        """On which rows, served by these scores of the weights before it, it updates unless they are zero."""
        if self._rule == "margin":
            return np.less_equal(scores * labels, self.idle_margin)
        return np.not_equal(np.where(scores > 0, 1, np.where(scores < 0, -1, tie)), labels)

    def errs_at_margin(self, y: int, tie: int) -> bool:
        """The same for a y (w·z) that is the `idle_margin` itself."""
        return self._rule == "margin" or tie != y
