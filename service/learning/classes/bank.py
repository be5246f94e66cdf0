"""Many learners of one algorithm over the same vectors: the rows of one matrix, scored at once."""

from collections.abc import Callable
from math import isinf
from typing import Any

import numpy as np

from service.learning import saved
from service.learning.learners.learner import Learner
from service.learning.packing import unpacked
from service.learning.vectors import Array, Indices, Vector, room_for


class Bank:
    """Learners that keep their weights in the rows of a matrix which grows both ways.

    A thousand scores are then one product, and of a thousand learners only those are called that an example
    can change: those whose y (w·z) is not above their `idle_margin`.
    """

    __slots__ = ("_make", "_room", "learners", "size")

    def __init__(self, make: Callable[[], Learner]) -> None:
        self._make = make
        self._room: Array = np.zeros((0, 0))
        self.size = 0
        self.learners: list[Learner] = []

    def scores(self, z: Vector) -> Array:
        """The score of every learner."""
        if self.learners and self.learners[0].served_by_weights:
            return z.dots(self._room[: len(self.learners), : self.size])
        return np.array([learner.score(z) for learner in self.learners])

    def learn(self, z: Vector, rows: Indices, labels: Array, weight: float = 1.0) -> bool:
        """Teach z to the learners at `rows`, each with its own label, -1 or +1; True if any changed."""
        if not len(rows):
            return False
        idle = self.learners[0].idle_margin
        if not isinf(idle):
            can_change = labels * z.dots(self._room[:, : self.size], rows) <= idle
            rows, labels = rows[can_change], labels[can_change]
        changed = False
        for row, label in zip(rows.tolist(), labels.tolist(), strict=True):
            changed |= self.learners[row].learn(z, int(label), None, weight)
        return changed

    def add(self, count: int) -> None:
        """`count` more learners, which start from zero."""
        known = len(self.learners)
        self.learners.extend(self._make() for _ in range(count))
        self._place_weights(known)

    def grow(self, size: int) -> None:
        if size != self.size:
            self.size = size
            self._place_weights(0)

    def _place_weights(self, first: int) -> None:
        """Make the matrix large enough, and give the learners from `first` on their rows of it."""
        room = room_for(self._room, len(self.learners), self.size)
        if room is not self._room:  # every row has moved
            self._room, first = room, 0
        for row in range(first, len(self.learners)):
            self.learners[row].grow(self.size, room[row, : self.size])

    def start_from(self, rows: Array) -> None:
        """Go on from these weights, each learner from its row."""
        self._room = np.array(rows)
        for learner, row in zip(self.learners, self._room, strict=True):
            learner.start_from(row)
        self._place_weights(0)

    def state(self) -> dict[str, Any]:
        return {"size": self.size, "learners": [learner.state() for learner in self.learners]}

    def restore(self, known: Any, learners: Any, count: int, size: int) -> None:
        """From the two fields of `state`; of so many learners with so many weights each."""
        self.size = saved.whole(known, "size", size, size)
        saved.check(
            type(learners) is list and len(learners) == count, "learners", f"must be a list of {count}"
        )
        self.learners = [self._make() for _ in learners]
        self._room = np.zeros((count, size))
        for at, (learner, kept) in enumerate(zip(self.learners, learners, strict=True)):
            with saved.Within(f"learners[{at}]"):
                learner.restore(kept, size)
            self._room[at] = unpacked(kept["weights"])
        self._place_weights(0)
