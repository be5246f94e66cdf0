"""The averaged perceptron: learns like a perceptron, predicts by the mean of all its weights so far."""

from typing import Any

import numpy as np

from service.learning import saved
from service.learning.learners.linear import Linear
from service.learning.learners.perceptron import sign
from service.learning.packing import packed
from service.learning.vectors import Array, Vector, room_for


class Averaged(Linear):
    """w += η y z when the current w is wrong; scores by the mean of w over all reveals.

    A change made at reveal t is missing from the t - 1 weight vectors before it. So the sum over n reveals
    is n w minus every change times its t - 1, and `lag` is the sum of the latter: a reveal costs what is
    present in z, and a reveal without a change costs nothing.
    """

    __slots__ = ("_eta0", "_lag", "_lag_room", "_seen", "_tie")

    served_by_weights = False

    def __init__(self, *, eta0: float, tie: int = 1) -> None:
        super().__init__()
        self._eta0 = eta0
        self._tie = tie
        self._lag_room: Array = np.zeros(0)
        self._lag: Array = self._lag_room
        self._seen = 0

    @property
    def weights(self) -> Array:
        return self._weights - self._lag / self._seen if self._seen else self._weights

    def score(self, z: Vector) -> float:
        now = z.dot(self._weights)
        return now - z.dot(self._lag) / self._seen if self._seen else now

    def learn(self, z: Vector, y: int, served: int | None, weight: float = 1.0) -> bool:
        """`served` is not asked: this learner corrects its current weights, which nobody was served by."""
        wrong = sign(z.dot(self._weights), self._tie) != y and not z.is_zero
        if wrong:
            self.updates += 1
            step = weight * self._eta0 * y
            z.add_to(self._weights, step)
            z.add_to(self._lag, step * self._seen)
        self._seen += 1
        return wrong

    def grow(self, size: int, row: Array | None = None) -> None:
        super().grow(size, row)
        self._lag_room = room_for(self._lag_room, size)
        self._lag = self._lag_room[:size]

    def start_from(self, weights: Array) -> None:
        super().start_from(weights)
        self._lag_room = self._lag = np.zeros(len(weights))
        self._seen = 0

    def state(self) -> dict[str, Any]:
        return {**super().state(), "lag": packed(self._lag), "seen": self._seen}

    def restore(self, state: Any, size: int) -> None:
        weights, updates, lag, seen = saved.fields(state, "weights", "updates", "lag", "seen")
        self._restore(weights, updates, size)
        self._lag_room = self._lag = saved.array(lag, "lag", (size,))
        self._seen = saved.whole(seen, "seen", saved.ROUNDS_MAX)
