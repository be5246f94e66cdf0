"""The batch perceptron: every pass adds η(k) times the sum of all that is misclassified now.

With several classes under `one_vs_all` each class is such a perceptron of its own. Under `multiclass` a
misclassified example adds itself to the true row and takes itself from the row that won. `one_vs_one` would
train each pair on another part of the examples; its learners are fitted by `online` passes instead.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from service.learning.classes.classifier import Classifier
from service.learning.classes.multiclass import Multiclass
from service.learning.classes.one_vs_all import Binary, OneVsAll
from service.learning.learners.perceptron import learning_rate
from service.learning.parameters import BadParameter
from service.learning.vectors import Array, Indices, Vector, dot

_ROWS_AT_ONCE = 4096  # so that the products in between stay small


class VectorTable:
    """Examples as one array, or as one of their entries where they are sparse.

    >>> table = VectorTable([Vector(np.array([1.0, 2.0])), Vector(np.array([3.0]), np.array([1]))])
    >>> table.scores(np.array([1.0, 10.0])).tolist(), table.weighted_sum(np.array([1.0, -1.0]), 2).tolist()
    ([21.0, 30.0], [1.0, -1.0])
    """

    __slots__ = ("_count", "_places", "_values")

    def __init__(self, vectors: Sequence[Vector]) -> None:
        self._count = len(vectors)
        self._places: tuple[Indices, Indices] | None = None  # of each entry: its example, its index
        if all(z.indices is None for z in vectors):
            self._values: Array = np.stack([z.values for z in vectors])
            return
        self._values = np.concatenate([z.values for z in vectors])
        self._places = (
            np.repeat(np.arange(len(vectors)), [len(z.values) for z in vectors]),
            np.concatenate([np.arange(len(z.values)) if z.indices is None else z.indices for z in vectors]),
        )

    def scores(self, weights: Array) -> Array:
        """w·z of every example."""
        if self._places is not None:
            rows, columns = self._places
            return _sum_by(rows, self._values * weights[columns], self._count)
        return np.concatenate([
            np.add.reduce(self._values[at : at + _ROWS_AT_ONCE] * weights, axis=1)
            for at in range(0, self._count, _ROWS_AT_ONCE)
        ])  # fmt: skip

    def weighted_sum(self, factors: Array, size: int) -> Array:
        """Σ factor · z over all examples."""
        if self._places is not None:
            rows, columns = self._places
            return _sum_by(columns, self._values * factors[rows], size)
        total = np.zeros(size)
        asked = np.flatnonzero(factors)
        for at in range(0, len(asked), _ROWS_AT_ONCE):
            some = asked[at : at + _ROWS_AT_ONCE]
            total += np.add.reduce(self._values[some] * factors[some, np.newaxis], axis=0)
        return total


def _sum_by(places: Indices, values: Array, size: int) -> Array:
    """The sum of the values at each place, added in their order."""
    return np.asarray(np.bincount(places, values, minlength=size), dtype=np.float64)


Classes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What some weights make of the examples."""

    errors: int  # examples whose decision is wrong
    criterion: float  # J_p, the sum of -y w·z over the misclassified
    pull: Array  # the sum of y z over the misclassified, a row for each row of weights


def judge_binary(table: VectorTable, truths: Classes, rows: Array, tie: int) -> Verdict:
    scores = table.scores(rows[0])
    chosen = np.where(scores > 0, 1, np.where(scores < 0, 0, tie))
    wrong = np.where(chosen != truths, 2.0 * truths - 1.0, 0.0)
    pull = table.weighted_sum(wrong, rows.shape[1])
    return Verdict(int(np.count_nonzero(wrong)), _criterion(wrong, scores), pull[np.newaxis])


def judge_one_vs_all(table: VectorTable, truths: Classes, rows: Array) -> Verdict:
    best = np.full(len(truths), -np.inf)
    chosen = np.zeros(len(truths), dtype=np.int64)
    criterion, pull = 0.0, np.zeros_like(rows)
    for row, weights in enumerate(rows):
        scores = table.scores(weights)
        better = scores > best
        best[better], chosen[better] = scores[better], row
        wrong = np.where((scores > 0) != (truths == row), np.where(truths == row, 1.0, -1.0), 0.0)
        criterion += _criterion(wrong, scores)
        pull[row] = table.weighted_sum(wrong, rows.shape[1])
    return Verdict(int(np.count_nonzero(chosen != truths)), criterion, pull)


def judge_multiclass(table: VectorTable, truths: Classes, rows: Array) -> Verdict:
    best = np.full(len(truths), -np.inf)
    own = np.zeros(len(truths))
    chosen = np.zeros(len(truths), dtype=np.int64)
    for row, weights in enumerate(rows):
        scores = table.scores(weights)
        better = scores > best
        best[better], chosen[better] = scores[better], row
        own[truths == row] = scores[truths == row]
    wrong = chosen != truths
    pull = np.stack([
        table.weighted_sum((wrong & (truths == row)) - 1.0 * (wrong & (chosen == row)), rows.shape[1])
        for row in range(len(rows))
    ])  # fmt: skip
    return Verdict(int(np.count_nonzero(wrong)), float(np.add.reduce((best - own)[wrong])), pull)


def _criterion(wrong: Array, scores: Array) -> float:
    return 0.0 - dot(wrong, scores)  # not -0.0 where nothing is wrong


class BatchPasses:
    """Passes of the batch perceptron, which start from a classifier's weights and are written back to it."""

    __slots__ = ("_classifier", "_eta0", "_rows", "_schedule", "_table", "_truths", "_verdict", "updates")

    def __init__(
        self,
        classifier: Classifier,
        vectors: Sequence[Vector],
        truths: Classes,
        *,
        eta0: float,
        schedule: str,
    ) -> None:
        if not isinstance(classifier, Binary | OneVsAll | Multiclass):
            raise BadParameter("algorithm", "batch does not train one_vs_one; take online")
        self._classifier = classifier
        self._table = VectorTable(vectors)
        self._truths = truths
        self._eta0 = eta0
        self._schedule = schedule
        self._rows = classifier.rows()
        self.updates = 0
        self._verdict = self._judge()

    @property
    def errors(self) -> int:
        return self._verdict.errors

    @property
    def criterion(self) -> float:
        return self._verdict.criterion

    def _judge(self) -> Verdict:
        if isinstance(self._classifier, Binary):
            return judge_binary(self._table, self._truths, self._rows, self._classifier.tie)
        judge = judge_one_vs_all if isinstance(self._classifier, OneVsAll) else judge_multiclass
        return judge(self._table, self._truths, self._rows)

    def run(self, is_wanted: Callable[[int], bool]) -> tuple[float, float]:
        """One pass; how far it moved the weights, and how long they are now."""
        self.updates += 1
        step = learning_rate(self._schedule, self._eta0, self.updates) * self._verdict.pull
        self._rows = self._rows + step
        self._classifier.start_from(self._rows)
        self._verdict = self._judge()
        return length(step), length(self._rows)


def length(rows: Array) -> float:
    """
    >>> length(np.array([[3.0, 0.0], [0.0, 4.0]]))
    5.0
    """
    return float(np.sqrt(np.add.reduce(rows * rows, axis=None)))
