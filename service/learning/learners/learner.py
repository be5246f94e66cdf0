"""What every algorithm promises: linear learners of two classes, as the rows of a matrix."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from service.learning.vectors import ALL, Array, Indices, Numbers, RowIndex, Vector


class Learner(Protocol):
    """Linear learners of the same settings, each of two classes, -1 and +1: one is a row of weights.

    Rows are given by their numbers, as a slice, or as the number of one, whose labels and scores are numbers, too.
    Whatever is done to several rows at once leaves each of them as it would be alone, to the bit. The state of a row is
    a function of the examples it has learned, in their order, and of nothing else. Scoring changes nothing. Nothing is
    ever infinite or not a number, as long as no feature is larger than `vectors.LARGEST`.

    A learner is made by `Algorithm.build` with its own parameters and with `tie`, which every builder is given whether
    the learner needs it or not: the label (-1 or +1) that a score of 0 stands for. It has no rows at first: see `add`.

    The laws in tests/learning/learners run over every algorithm listed in `algorithms.ALGORITHMS`.
    """

    updates: npt.NDArray[np.int64]
    """For each row how many examples have changed it."""

    @property
    def learns_in_blocks(self) -> bool:
        """Whether `scores` are the products of z with `weights`, and `change` looks at no columns but those of z.

        Only then are blocks of examples scored and learned by these columns of `planes`. The averaged perceptron, which
        predicts by a mean, says False, and so does a learner with a whole covariance.
        """
        ...

    @property
    def planes(self) -> Array:
        """All numbers that are kept for each weight of each row, the weights themselves first: planes × rows × size."""
        ...

    @property
    def weights(self) -> Array:
        """The weights that scores are made of: rows × size. Not to be written to."""
        ...

    def scores(self, z: Vector, rows: RowIndex = ALL) -> Numbers:
        """The scores of rows, from which a prediction is served: the sign is the label, 0 is a tie."""
        ...

    def may_change(self, scores: Numbers, labels: Numbers) -> Any:
        """Where an example with such scores and labels can change a row, by its current weights.

        Called with the scores of many examples at once; all that is not marked changes nothing.
        """
        ...

    def change(
        self,
        planes: Array,
        z: Vector,
        rows: RowIndex,
        scores: Numbers,
        labels: Numbers,
        weight: float = 1.0,
    ) -> bool:
        """Teach z to the rows for which `may_change` holds, given their scores and labels; True if any changed.

        `planes` are the learner's own, or a copy of those of their columns where z has values, and then z is dense.
        """
        ...

    def learn(
        self, z: Vector, labels: Numbers, rows: RowIndex = ALL, served: int | None = None, weight: float = 1.0
    ) -> bool:
        """Learn that z has these labels (-1 or +1) for these rows; True if any weights changed.

        Called once for every reveal. `served` is the label that the client was given by a single row, perhaps by older
        weights; None, as among several classes, asks each row to judge by its weights as they are. The example counts
        `weight` times, in the way that docs/models.md tells for each learner; 1 leaves no trace of it. Whether the
        weights change at all does not depend on it.
        """
        ...

    def add(self, count: int) -> None:
        """`count` more rows, which start from zero."""
        ...

    def grow(self, size: int) -> None:
        """Make room for `size` weights in each row, at least as many as before; new ones are zero."""
        ...

    def unsettle(self, places: Indices) -> None:
        """Forget how sure the weights at these places are, if that is known: their features began a new scale."""
        ...

    def start_from(self, weights: Array) -> None:
        """Go on from these rows, with nothing known of how they came about; `updates` counts on.

        Called after every pass of a batch fit.
        """
        ...

    def state(self, row: int) -> dict[str, Any]:
        """All of a row that `restore` needs: numbers, strings and arrays, none of them shared with the learner.

        Called for every snapshot and export. `weights` among them are those that `learn` changes.
        """
        ...

    def clear(self, count: int, size: int) -> None:
        """Become `count` rows of `size` weights that have learned nothing; what there was is dropped."""
        ...

    def restore(self, row: int, state: Any) -> None:
        """Let a row become what `state` was taken from, to the bit. The parameters are the same as then.

        `saved.BadState` unless a row of that size can have it: see `service/learning/saved.py`.
        """
        ...
