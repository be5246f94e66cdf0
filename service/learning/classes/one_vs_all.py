"""A row of weights for each class, this class or any other; for two declared classes one row."""

from typing import Any

import numpy as np

from service.learning import saved
from service.learning.classes.classifier import highest
from service.learning.learners.learner import Learner
from service.learning.vectors import Array, Indices, Vector


class Binary:
    """One row that decides between two classes: the first label is -1, the second +1."""

    __slots__ = ("learner", "tie")

    def __init__(self, learner: Learner, tie: int) -> None:
        self.learner = learner
        self.learner.add(1)
        self.tie = tie

    @property
    def updates(self) -> int:
        return int(self.learner.updates[0])

    @property
    def shape(self) -> tuple[int, int]:
        return 2, self.learner.planes.shape[2]

    def decide(self, z: Vector) -> tuple[int, float, float]:
        """The class (0 or 1) that z is put into, the score of class 1, and its magnitude as the gap."""
        score: float = self.learner.scores(z, 0)
        return 1 if score > 0 else 0 if score < 0 else self.tie, score, abs(score)

    def behind(self, z: Vector) -> Array:
        chosen, _, gap = self.decide(z)
        return np.array([gap, 0.0] if chosen else [0.0, gap])

    def learn(self, z: Vector, truth: int, served: int, weight: float = 1.0) -> bool:
        """Learn that z belongs to the class `truth`; True if the weights changed."""
        return self.learner.learn(z, 2.0 * truth - 1.0, 0, 2 * served - 1, weight)

    def grow(self, size: int) -> None:
        self.learner.grow(size)

    def unsettle(self, places: Indices) -> None:
        self.learner.unsettle(places)

    def add_class(self) -> None:
        raise ValueError("a binary classifier has two classes")

    def weights_for(self, chosen: int) -> Array:
        return self.learner.weights[0]  # type: ignore[no-any-return]

    def rows(self) -> Array:
        return self.learner.weights

    def start_from(self, rows: Array) -> None:
        self.learner.start_from(rows)

    def state(self) -> dict[str, Any]:
        return self.learner.state(0)

    def restore(self, state: Any, classes: int, size: int) -> None:
        self.learner.clear(1, size)
        self.learner.restore(0, state)


class OneVsAll:
    """The class whose row gives the highest score; among equals, the one declared or seen first.

    Every row is taught every example by its current weights: what was served is the verdict of all
    together and says nothing about one of them. A class that appears later starts from zero, knowing nothing
    of what came before it.
    """

    __slots__ = ("learner", "updates")

    TIE = -1
    """A row whose score is zero does not claim its class."""

    def __init__(self, learner: Learner, classes: int) -> None:
        self.learner = learner
        self.learner.add(classes)
        self.updates = 0

    @property
    def shape(self) -> tuple[int, int]:
        _, classes, size = self.learner.planes.shape
        return classes, size

    def decide(self, z: Vector) -> tuple[int, float, float]:
        scores = self.learner.scores(z)
        return highest(scores) if len(scores) else (-1, 0.0, 0.0)

    def behind(self, z: Vector) -> Array:
        scores = self.learner.scores(z)
        return np.maximum.reduce(scores, initial=-np.inf) - scores  # type: ignore[no-any-return]

    def learn(self, z: Vector, truth: int, served: int, weight: float = 1.0) -> bool:
        labels = np.full(len(self.learner.updates), -1.0)
        labels[truth] = 1.0
        changed = self.learner.learn(z, labels, weight=weight)
        self.updates += changed
        return changed

    def grow(self, size: int) -> None:
        self.learner.grow(size)

    def unsettle(self, places: Indices) -> None:
        self.learner.unsettle(places)

    def add_class(self) -> None:
        self.learner.add(1)

    def weights_for(self, chosen: int) -> Array:
        if chosen < 0:
            return np.zeros(self.learner.planes.shape[2])
        return self.learner.weights[chosen]  # type: ignore[no-any-return]

    def rows(self) -> Array:
        """The weights of every class."""
        return self.learner.weights.copy()

    def start_from(self, rows: Array) -> None:
        self.learner.start_from(rows)

    def state(self) -> dict[str, Any]:
        return {**state_of_rows(self.learner), "updates": self.updates}

    def restore(self, state: Any, classes: int, size: int) -> None:
        known, rows, updates = saved.fields(state, "size", "learners", "updates")
        restore_rows(self.learner, known, rows, classes, size)
        self.updates = saved.whole(updates, "updates")


def state_of_rows(learner: Learner) -> dict[str, Any]:
    _, count, size = learner.planes.shape
    return {"size": size, "learners": [learner.state(row) for row in range(count)]}


def restore_rows(learner: Learner, known: Any, rows: Any, count: int, size: int) -> None:
    """From the two fields of `state_of_rows`; to so many rows with so many weights each."""
    saved.whole(known, "size", size, size)
    saved.check(type(rows) is list and len(rows) == count, "learners", f"must be a list of {count}")
    learner.clear(count, size)
    for row, state in enumerate(rows):
        saved.within(f"learners[{row}]", learner.restore, row, state)
