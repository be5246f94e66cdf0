"""What every binary learner promises."""

from typing import Any, Protocol

from service.learning.vectors import Array, Vector


class Learner(Protocol):
    """A linear learner of two classes, -1 and +1.

    Its state is a function of the examples it has learned, in their order, and of nothing else: the same
    examples give the same weights to the bit. Scoring changes nothing. Nothing in it is ever infinite or
    not a number, as long as no feature is larger than `vectors.LARGEST`.

    A learner is made by `Algorithm.build` with its own parameters and with `tie`, which every builder is given whether
    the learner needs it or not: the label (-1 or +1) that a score of 0 stands for. A learner that judges by its own
    score, as in `learn` without `served`, must take it for that label. Then `grow` is called once before anything
    else, and again whenever the features have grown.

    The laws in tests/learning/learners run over every algorithm listed in `algorithms.ALGORITHMS`.
    """

    updates: int
    """How many examples have changed the weights. It is only ever counted up, by `learn`."""

    @property
    def idle_margin(self) -> float:
        """An example whose y (w·z) is above this changes nothing, not even a counter; infinite if there is none.

        It decides whether the fast paths are taken. Where it is finite, `classes/runs.py` scores many rows of a block
        at once and calls `learn` only for those at or below it, and `classes/bank.py` calls only those of its learners
        that an example can change. Too small a margin loses updates; infinity is always right, and slow. It may not
        change while the learner lives, and is the same for all learners with the same settings.
        """
        ...

    @property
    def served_by_weights(self) -> bool:
        """Whether `score` is the product of z with the very weights that `learn` changes and compares with.

        Only then may scores be computed for many learners or rows at once from their weights. The averaged perceptron,
        which predicts by a mean, says False.
        """
        ...

    def score(self, z: Vector) -> float:
        """The score that a prediction is served from: its sign is the label, 0 is a tie."""
        ...

    def learn(self, z: Vector, y: int, served: int | None, weight: float = 1.0) -> bool:
        """Learn that z has the label y (-1 or +1); True if the weights changed. Called once for every reveal.

        `served` is the label the client was given, which may be older than the weights; None, as among several
        classes, asks the learner to judge by the weights as they are. The example counts `weight` times, in the way
        that docs/models.md tells for each learner; 1 leaves no trace of it. Whether the weights change at all does
        not depend on it.
        """
        ...

    def grow(self, size: int, row: Array | None = None) -> None:
        """Make room for `size` weights, at least as many as before; new ones are zero.

        Called before vectors of that size are scored or learned. With a `row`, which is of that size and holds the
        weights already, they are kept there from now on: so a `Bank` has them all in one matrix.
        """
        ...

    @property
    def weights(self) -> Array:
        """The weights that scores are made of, for exports, explanations and the bound. Not to be written to."""
        ...

    def start_from(self, weights: Array) -> None:
        """Go on from these weights, with nothing known of how they came about; `updates` counts on.

        Called after every pass of a batch fit.
        """
        ...

    def state(self) -> dict[str, Any]:
        """All that `restore` needs: numbers, strings and arrays, none of them shared with the learner.

        Called for every snapshot and export. `weights` among them are those that `learn` changes.
        """
        ...

    def restore(self, state: Any, size: int) -> None:
        """Become what `state` was taken from, to the bit. The parameters are the same as then.

        `saved.BadState` unless a learner of `size` weights can have it: see `service/learning/saved.py`.
        """
        ...
