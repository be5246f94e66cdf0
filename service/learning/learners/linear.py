"""The weights of a linear learner: they start at zero, grow, give scores, and are kept and restored."""

from math import inf
from typing import Any

import numpy as np

from service.learning import saved
from service.learning.packing import packed
from service.learning.vectors import Array, Vector, room_for

MOVE_MAX = 1e150
"""A step that would move a weight farther than this is not taken, so that weights stay finite."""


class Linear:
    """What the learners share; each adds how it learns."""

    __slots__ = ("_room", "_weights", "updates")

    idle_margin: float = inf
    served_by_weights: bool = True

    def __init__(self) -> None:
        self._room: Array = np.zeros(0)
        self._weights: Array = self._room
        self.updates = 0

    @property
    def weights(self) -> Array:
        return self._weights

    def score(self, z: Vector) -> float:
        return z.dot(self._weights)

    def grow(self, size: int, row: Array | None = None) -> None:
        if row is None:
            self._room = room_for(self._room, size)
            row = self._room[:size]
        else:
            self._room = row  # what was restored is kept in the row from now on, and not twice
        self._weights = row

    def start_from(self, weights: Array) -> None:
        self._room = self._weights = np.array(weights)

    def state(self) -> dict[str, Any]:
        return {"weights": packed(self._weights), "updates": self.updates}

    def restore(self, state: Any, size: int) -> None:
        weights, updates = saved.fields(state, "weights", "updates")
        self._restore(weights, updates, size)

    def _restore(self, weights: Any, updates: Any, size: int) -> None:
        self._room = self._weights = saved.array(weights, "weights", (size,))
        self.updates = saved.whole(updates, "updates")
