"""Several classes in one matrix: the perceptron whose rows compete."""

from typing import Any

import numpy as np

from service.learning import saved
from service.learning.classes.classifier import highest
from service.learning.learners.perceptron import learning_rate
from service.learning.saved import packed
from service.learning.vectors import Array, Indices, Vector, room_for


class Multiclass:
    """The class with the highest score; when it was wrong, the true row gains η z and the wrong one loses it.

    Rule `mistake` corrects the class that was served. Rule `margin` corrects the strongest rival while it
    comes within δ of the true class. While no class was known when it was served, there is none to correct:
    the true row alone moves. Equal scores go to the class declared or seen first.
    """

    __slots__ = ("_classes", "_delta", "_eta0", "_room", "_rule", "_schedule", "_size", "updates")

    def __init__(self, classes: int, *, rule: str, delta: float, eta0: float, schedule: str) -> None:
        self._rule = rule
        self._delta = delta
        self._eta0 = eta0
        self._schedule = schedule
        self._classes = classes
        self._size = 0
        self._room: Array = np.zeros((classes, 0))
        self.updates = 0

    def rows(self) -> Array:
        return self._room[: self._classes, : self._size]

    @property
    def shape(self) -> tuple[int, int]:
        return self._classes, self._size

    def decide(self, z: Vector) -> tuple[int, float, float]:
        if not self._classes:
            return -1, 0.0, 0.0
        return highest(z.dots(self.rows()))

    def behind(self, z: Vector) -> Array:
        scores = z.dots(self.rows())
        return np.maximum.reduce(scores, initial=-np.inf) - scores  # type: ignore[no-any-return]

    def learn(self, z: Vector, truth: int, served: int, weight: float = 1.0) -> bool:
        wrong = served if self._rule == "mistake" else self._rival(z, truth)
        if wrong == truth or z.is_zero:
            return False
        self.updates += 1
        eta = weight * learning_rate(self._schedule, self._eta0, self.updates)
        z.add_to(self.rows()[truth], eta)
        if wrong >= 0:
            z.add_to(self.rows()[wrong], -eta)
        return True

    def _rival(self, z: Vector, truth: int) -> int:
        """The strongest other class if it comes within δ of the true one, else the true one."""
        scores = z.dots(self.rows())
        own = scores[truth]
        scores[truth] = -np.inf
        rival = int(scores.argmax())
        return rival if own - scores[rival] <= self._delta else truth

    def grow(self, size: int) -> None:
        self._size = size
        self._room = room_for(self._room, self._classes, size)

    def unsettle(self, places: Indices) -> None:
        """It is as sure of all weights."""

    def add_class(self) -> None:
        self._classes += 1
        self._room = room_for(self._room, self._classes, self._size)

    def weights_for(self, chosen: int) -> Array:
        return self.rows()[chosen] if chosen >= 0 else np.zeros(self._size)

    def start_from(self, rows: Array) -> None:
        self._room = np.array(rows)

    def state(self) -> dict[str, Any]:
        return {"weights": packed(self.rows()), "updates": self.updates}

    def restore(self, state: Any, classes: int, size: int) -> None:
        weights, updates = saved.fields(state, "weights", "updates")
        self._room = saved.array(weights, "weights", (classes, size))
        self._classes, self._size = classes, size
        self.updates = saved.whole(updates, "updates")
