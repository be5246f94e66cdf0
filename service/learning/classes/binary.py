"""Two classes: the first label is -1, the second +1."""

from typing import Any

import numpy as np

from service.learning.learners.learner import Learner
from service.learning.vectors import Array, Vector


class Binary:
    """One learner that decides between two classes."""

    __slots__ = ("learner", "tie")

    def __init__(self, learner: Learner, tie: int) -> None:
        self.learner = learner
        self.tie = tie

    @property
    def updates(self) -> int:
        return self.learner.updates

    @property
    def shape(self) -> tuple[int, int]:
        return 2, len(self.learner.weights)

    def decide(self, z: Vector) -> tuple[int, float, float]:
        """The class (0 or 1) that z is put into, the score of class 1, and its magnitude as the gap."""
        score = self.learner.score(z)
        return self.chosen(score), score, abs(score)

    def behind(self, z: Vector) -> Array:
        chosen, _, gap = self.decide(z)
        return np.array([gap, 0.0] if chosen else [0.0, gap])

    def chosen(self, score: float) -> int:
        """The class that a score of class 1 speaks for."""
        return 1 if score > 0 else 0 if score < 0 else self.tie

    def learn(self, z: Vector, truth: int, served: int, weight: float = 1.0) -> bool:
        """Learn that z belongs to the class `truth`; True if the weights changed."""
        return self.learner.learn(z, 2 * truth - 1, 2 * served - 1, weight)

    def grow(self, size: int) -> None:
        self.learner.grow(size)

    def add_class(self) -> None:
        raise ValueError("a binary classifier has two classes")

    def weights_for(self, chosen: int) -> Array:
        return self.learner.weights

    def rows(self) -> Array:
        return self.learner.weights[np.newaxis]

    def start_from(self, rows: Array) -> None:
        self.learner.start_from(rows[0])

    def state(self) -> dict[str, Any]:
        return self.learner.state()

    def restore(self, state: Any, classes: int, size: int) -> None:
        self.learner.restore(state, size)
