"""The perceptron, by either of the two rules that the literature calls by this name."""

from math import sqrt
from typing import Any

import numpy as np

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


class Perceptron:
    """w += η_k y z, when the served label was wrong (`mistake`) or y (w·z) <= δ (`margin`).

    The two rules differ at ties even with δ = 0: a tie that was served right updates under `margin` only.
    """

    __slots__ = ("_delta", "_eta0", "_rule", "_schedule", "_tie", "_weights", "updates")

    def __init__(self, *, rule: str, delta: float, eta0: float, schedule: str, tie: int = 1) -> None:
        self._rule = rule
        self._delta = delta
        self._eta0 = eta0
        self._schedule = schedule
        self._tie = tie
        self._weights: Array = np.zeros(0)
        self.updates = 0

    @property
    def weights(self) -> Array:
        return self._weights

    def score(self, z: Vector) -> float:
        return z.dot(self._weights)

    def learn(self, z: Vector, y: int, served: int | None) -> bool:
        if not self._errs(z, y, served):
            return False
        self.updates += 1
        z.add_to(self._weights, learning_rate(self._schedule, self._eta0, self.updates) * y)
        return True

    def _errs(self, z: Vector, y: int, served: int | None) -> bool:
        if self._rule == "mistake" and served is not None:
            return served != y
        score = self.score(z)
        if self._rule == "margin":
            return y * score <= self._delta
        return (1 if score > 0 else -1 if score < 0 else self._tie) != y

    def grow(self, size: int) -> None:
        self._weights = np.concatenate([self._weights, np.zeros(size - len(self._weights))])

    def state(self) -> dict[str, Any]:
        return {"weights": self._weights, "updates": self.updates}

    def restore(self, state: dict[str, Any]) -> None:
        self._weights = state["weights"]
        self.updates = state["updates"]
