"""Several classes, one learner for each: this class or any other."""

from collections.abc import Callable
from typing import Any

import numpy as np

from service.learning import saved
from service.learning.classes.bank import Bank
from service.learning.classes.classifier import highest
from service.learning.learners.learner import Learner
from service.learning.vectors import Array, Vector


class OneVsAll:
    """The class whose learner gives the highest score; among equals, the one declared or seen first.

    Every learner is taught every example by its current weights: what was served is the verdict of all
    together and says nothing about one of them. A class that appears later starts from zero, knowing nothing
    of what came before it.
    """

    __slots__ = ("_bank", "updates")

    TIE = -1
    """A learner whose score is zero does not claim its class."""

    def __init__(self, make: Callable[[], Learner], classes: int) -> None:
        self._bank = Bank(make)
        self._bank.add(classes)
        self.updates = 0

    @property
    def shape(self) -> tuple[int, int]:
        return len(self._bank.learners), self._bank.size

    def decide(self, z: Vector) -> tuple[int, float, float]:
        if not self._bank.learners:
            return -1, 0.0, 0.0
        return highest(self._bank.scores(z))

    def behind(self, z: Vector) -> Array:
        scores = self._bank.scores(z)
        return np.maximum.reduce(scores, initial=-np.inf) - scores  # type: ignore[no-any-return]

    def learn(self, z: Vector, truth: int, served: int, weight: float = 1.0) -> bool:
        labels = np.full(len(self._bank.learners), -1.0)
        labels[truth] = 1.0
        changed = self._bank.learn(z, np.arange(len(labels)), labels, weight)
        self.updates += changed
        return changed

    def grow(self, size: int) -> None:
        self._bank.grow(size)

    def add_class(self) -> None:
        self._bank.add(1)

    def weights_for(self, chosen: int) -> Array:
        return self._bank.learners[chosen].weights if chosen >= 0 else np.zeros(self._bank.size)

    def rows(self) -> Array:
        """The weights of every class."""
        return np.array([learner.weights for learner in self._bank.learners])

    def start_from(self, rows: Array) -> None:
        self._bank.start_from(rows)

    def state(self) -> dict[str, Any]:
        return {**self._bank.state(), "updates": self.updates}

    def restore(self, state: Any, classes: int, size: int) -> None:
        known, learners, updates = saved.fields(state, "size", "learners", "updates")
        self._bank.restore(known, learners, classes, size)
        self.updates = saved.whole(updates, "updates")
