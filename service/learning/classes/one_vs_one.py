"""Several classes, a row of weights for each pair of them: this one or that one."""

from typing import Any

import numpy as np
import numpy.typing as npt

from service.learning import saved
from service.learning.classes.one_vs_all import restore_rows, state_of_rows
from service.learning.learners.learner import Learner
from service.learning.vectors import Array, Indices, Vector


class OneVsOne:
    """The class with the most votes of all pairs; among equals the highest summed score, then the first.

    A pair gets its row when an example of one of its classes is revealed; until then it is a row
    of zeros, whose vote is a tie and goes to the class declared or seen first. k classes that have all been
    revealed make k (k - 1) / 2 rows, and a prediction asks them all.
    """

    __slots__ = ("_classes", "_learner", "_pairs", "_rows", "updates")

    TIE = 1
    """The first class of a pair is its +1, so that a tie is its vote."""

    def __init__(self, learner: Learner, classes: int) -> None:
        self._learner = learner
        self._classes = classes
        self._pairs: npt.NDArray[np.int64] = np.zeros((0, 2), dtype=np.int64)
        self._rows = _unpaired(classes)
        self.updates = 0

    @property
    def shape(self) -> tuple[int, int]:
        return self._classes, self._learner.planes.shape[2]

    def decide(self, z: Vector) -> tuple[int, float, float]:
        """The chosen class, the sum of its scores against all others, and its score against the closest of them."""
        if not self._classes:
            return -1, 0.0, 0.0
        scores = self._learner.scores(z)
        chosen, total = self._winner(scores)
        behind = np.delete(self._behind(chosen, scores), chosen)
        return chosen, total, float(behind.min()) if len(behind) else 0.0

    def behind(self, z: Vector) -> Array:
        """By how much the chosen class wins against each other; 0 against one that it loses to, or has not met."""
        if not self._classes:
            return np.zeros(0)
        scores = self._learner.scores(z)
        return self._behind(self._winner(scores)[0], scores)

    def _behind(self, chosen: int, scores: Array) -> Array:
        behind = np.zeros(self._classes)
        first, second = self._pairs.T
        behind[second[first == chosen]] = scores[first == chosen]
        behind[first[second == chosen]] = -scores[second == chosen]
        return np.maximum(behind, 0.0)

    def _winner(self, scores: Array) -> tuple[int, float]:
        """The class with the most votes, and the sum of its scores."""
        k = self._classes
        first, second = self._pairs.T
        votes = np.bincount(np.where(scores >= 0, first, second), minlength=k)
        votes += np.arange(k - 1, -1, -1) - np.bincount(first, minlength=k)  # of the pairs without a row
        sums = np.bincount(first, scores, minlength=k) - np.bincount(second, scores, minlength=k)
        best = np.flatnonzero(votes == votes.max())
        chosen = int(best[sums[best].argmax()])
        return chosen, float(sums[chosen])

    def learn(self, z: Vector, truth: int, served: int, weight: float = 1.0) -> bool:
        others = np.delete(np.arange(self._classes), truth)
        self._pair(truth, others[self._rows[truth, others] < 0])
        labels = np.where(truth < others, 1.0, -1.0)
        changed = bool(len(others)) and self._learner.learn(
            z, labels, self._rows[truth, others], weight=weight
        )
        self.updates += changed
        return changed

    def _pair(self, one: int, others: npt.NDArray[np.int64]) -> None:
        """Rows for these pairs, which have none yet."""
        if not len(others):
            return
        known = len(self._pairs)
        new = np.stack([np.minimum(one, others), np.maximum(one, others)], axis=1)
        self._pairs = np.concatenate([self._pairs, new])
        self._rows[one, others] = self._rows[others, one] = np.arange(known, len(self._pairs))
        self._learner.add(len(new))

    def grow(self, size: int) -> None:
        self._learner.grow(size)

    def unsettle(self, places: Indices) -> None:
        self._learner.unsettle(places)

    def add_class(self) -> None:
        rows = _unpaired(self._classes + 1)
        rows[:-1, :-1] = self._rows
        self._rows = rows
        self._classes += 1

    def weights_for(self, chosen: int) -> Array:
        weights = np.zeros(self._learner.planes.shape[2])
        for row, (first, second) in zip(self._learner.weights, self._pairs.tolist(), strict=True):
            if chosen == first:
                weights += row
            elif chosen == second:
                weights -= row
        return weights

    def state(self) -> dict[str, Any]:
        return {**state_of_rows(self._learner), "classes": self._classes, "pairs": self._pairs.tolist(),
                "updates": self.updates}  # fmt: skip

    def restore(self, state: Any, classes: int, size: int) -> None:
        known, rows, of_classes, pairs, updates = saved.fields(
            state, "size", "learners", "classes", "pairs", "updates"
        )
        self._classes = saved.whole(of_classes, "classes", classes, classes)
        self._pairs = _pairs_of(pairs, classes)
        restore_rows(self._learner, known, rows, len(self._pairs), size)
        self._rows = _unpaired(self._classes)
        first, second = self._pairs.T
        self._rows[first, second] = self._rows[second, first] = np.arange(len(self._pairs))
        self.updates = saved.whole(updates, "updates")


def _pairs_of(kept: Any, classes: int) -> npt.NDArray[np.int64]:
    """Pairs of different classes, the lower one first, each at most once."""
    most = classes * (classes - 1) // 2
    saved.check(type(kept) is list and len(kept) <= most, "pairs", f"must be a list of at most {most} pairs")
    for at, pair in enumerate(kept):
        known = saved.wholes(pair, f"pairs[{at}]", classes - 1, 2)
        saved.check(
            len(known) == 2 and known[0] < known[1],
            f"pairs[{at}]",
            "must be two classes, the lower one first",
        )
    pairs = np.array(kept, dtype=np.int64).reshape(-1, 2)
    saved.check(len(np.unique(pairs, axis=0)) == len(pairs), "pairs", "must differ from each other")
    return pairs


def _unpaired(classes: int) -> npt.NDArray[np.int64]:
    """Which row has the pair (i, j): none yet."""
    return np.full((classes, classes), -1, dtype=np.int64)
