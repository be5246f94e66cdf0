"""The perceptron, by either of the two rules that the literature calls by this name, and the averaged one."""

from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from service.learning import saved
from service.learning.learners.linear import Linear, Plane
from service.learning.vectors import ALL, Array, Numbers, RowIndex, Vector, column


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


def is_wrong(scores: Numbers, labels: Numbers, tie: int) -> Any:
    """Where a score speaks for another label; a score of zero for `tie`.

    >>> is_wrong(np.array([0.5, 0.0, -0.5]), np.array([1, 1, 1]), tie=-1).tolist()
    [False, True, True]
    """
    return (scores >= 0 if tie == 1 else scores > 0) != (labels > 0)


class Perceptron(Linear):
    """w += η_k y z, when the served label was wrong (`mistake`) or y (w·z) <= δ (`margin`).

    The two rules differ at ties even with δ = 0: a tie that was served right updates under `margin` only. With λ > 0,
    `forget`, the k-th update first lets the weights shrink to (k - 1)/(k - 1 + λ) of what they were, all of them: the
    shifting perceptron of Cavallanti, Cesa-Bianchi, Gentile, Machine Learning 69, 2007, with another λ.
    """

    __slots__ = ("_delta", "_eta0", "_forget", "_rule", "_schedule", "_tie", "learns_in_blocks")

    def __init__(
        self, *, rule: str, delta: float, eta0: float, schedule: str, forget: float = 0.0, tie: int = 1
    ) -> None:
        super().__init__()
        self._forget = forget
        self.learns_in_blocks = not forget
        self._rule = rule
        self._delta = delta
        self._eta0 = eta0
        self._schedule = schedule
        self._tie = tie

    def may_change(self, scores: Numbers, labels: Numbers) -> Any:
        if self._rule == "margin":
            return labels * scores <= self._delta
        return is_wrong(scores, labels, self._tie)

    def learn(
        self,
        z: Vector,
        labels: Numbers,
        rows: RowIndex = ALL,
        served: int | None = None,
        weight: float = 1.0,
    ) -> bool:
        if served is None or self._rule == "margin":
            return super().learn(z, labels, rows, None, weight)
        return served != labels and self.change(self.planes, z, rows, labels, labels, weight)

    def change(
        self, planes: Array, z: Vector, rows: RowIndex, scores: Numbers, labels: Numbers, weight: float = 1.0
    ) -> bool:
        if z.is_zero:
            return False
        if self._forget:
            before = self.updates[rows]
            planes[0][rows] *= column(before / (before + self._forget))
        self.updates[rows] += 1
        z.add_to_rows(planes[0], rows, weight * self._rates(self.updates[rows]) * labels)
        return True

    @property
    def idle_margin(self) -> float:
        """Above this y (w·z) nothing changes, and below it everything does."""
        return self._delta if self._rule == "margin" else 0.0

    def next_rates(self, count: int) -> Array:
        """The learning rates of the next updates of a single row."""
        return np.broadcast_to(self._rates(self.updates[0] + np.arange(1, count + 1)), count)

    def _rates(self, updates: Numbers) -> Numbers:
        """`learning_rate` of these updates."""
        if self._schedule == "constant":
            return self._eta0
        return self._eta0 / (updates if self._schedule == "inverse" else np.sqrt(updates))


class Averaged(Linear):
    """w += η y z when the current w is wrong; scores by the mean of w over all reveals.

    A change made at reveal t is missing from the t - 1 weight vectors before it. So the sum over n reveals
    is n w minus every change times its t - 1, and `lag` is the sum of the latter: a reveal costs what is
    present in z, and a reveal without a change costs nothing.
    """

    __slots__ = ("_eta0", "_seen", "_tie")

    learns_in_blocks = False

    def __init__(self, *, eta0: float, tie: int = 1) -> None:
        super().__init__(Plane("lag"))
        self._eta0 = eta0
        self._tie = tie
        self._seen: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    @property
    def weights(self) -> Array:
        now, lag = self.planes
        seen = self._seen[:, np.newaxis]
        return now - np.divide(lag, seen, out=np.zeros(lag.shape), where=seen > 0)  # type: ignore[no-any-return]

    def scores(self, z: Vector, rows: RowIndex = ALL) -> Numbers:
        now, lag, seen = z.dots(self.planes[0], rows), z.dots(self.planes[1], rows), self._seen[rows]
        if isinstance(rows, int):
            return now - lag / int(seen) if seen else now
        return now - np.divide(lag, seen, out=np.zeros(len(lag)), where=seen > 0)

    def may_change(self, scores: Numbers, labels: Numbers) -> Any:
        return is_wrong(scores, labels, self._tie)

    def learn(
        self,
        z: Vector,
        labels: Numbers,
        rows: RowIndex = ALL,
        served: int | None = None,
        weight: float = 1.0,
    ) -> bool:
        """`served` is not asked: this learner corrects its current weights, which served no prediction."""
        changed = super().learn(z, labels, rows, None, weight)
        self._seen[rows] += 1
        return changed

    def change(
        self, planes: Array, z: Vector, rows: RowIndex, scores: Numbers, labels: Numbers, weight: float = 1.0
    ) -> bool:
        if z.is_zero:
            return False
        self.updates[rows] += 1
        steps = weight * self._eta0 * labels
        z.add_to_rows(planes[0], rows, steps)
        z.add_to_rows(planes[1], rows, steps * self._seen[rows])
        return True

    def add(self, count: int) -> None:
        super().add(count)
        self._seen = np.concatenate((self._seen, np.zeros(count, dtype=np.int64)))

    def clear(self, count: int, size: int) -> None:
        super().clear(count, size)
        self._seen = np.zeros(count, dtype=np.int64)

    def state(self, row: int) -> dict[str, Any]:
        return {**super().state(row), "seen": int(self._seen[row])}

    def restore(self, row: int, state: Any) -> None:
        *kept, seen = saved.fields(state, "weights", "updates", "lag", "seen")
        self._restore(row, *kept)
        self._seen[row] = saved.whole(seen, "seen", saved.ROUNDS_MAX)
