"""What every binary learner promises."""

from typing import Any, Protocol

from service.learning.vectors import Array, Vector


class Learner(Protocol):
    """A linear learner of two classes, -1 and +1.

    Its state is a function of the examples it has learned, in their order, and of nothing else: the same
    examples give the same weights to the bit. Scoring changes nothing. Nothing in it is ever infinite or
    not a number, as long as no feature is larger than `vectors.LARGEST`.
    """

    updates: int

    @property
    def idle_margin(self) -> float:
        """An example whose y (w·z) is above this changes nothing; infinite if none can be named."""
        ...

    @property
    def served_by_weights(self) -> bool:
        """Whether scores are made of the same weights that learning changes."""
        ...

    def score(self, z: Vector) -> float:
        """The score that a prediction is served from: its sign is the label."""
        ...

    def learn(self, z: Vector, y: int, served: int | None) -> bool:
        """Learn that z has the label y (-1 or +1); True if the weights changed.

        `served` is the label the client was given, which may be older than the weights; None asks the
        learner to judge by the weights as they are.
        """
        ...

    def grow(self, size: int, row: Array | None = None) -> None:
        """Make room for `size` weights; new ones are zero, none is ever dropped.

        With a `row`, which holds the weights already, they are kept there from now on.
        """
        ...

    @property
    def weights(self) -> Array:
        """The weights that scores are made of."""
        ...

    def start_from(self, weights: Array) -> None:
        """Go on from these weights, with nothing known of how they came about; `updates` counts on."""
        ...

    def state(self) -> dict[str, Any]:
        """All that `restore` needs: numbers, strings and arrays, none of them shared with the learner."""
        ...

    def restore(self, state: dict[str, Any]) -> None: ...
