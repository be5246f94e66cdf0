"""What every binary learner promises."""

from typing import Any, Protocol

from service.learning.vectors import Array, Vector


class Learner(Protocol):
    """A linear learner of two classes, -1 and +1.

    Its state is a function of the examples it has learned, in their order, and of nothing else: the same
    examples give the same weights to the bit. Scoring changes nothing.
    """

    updates: int

    def score(self, z: Vector) -> float:
        """The score that a prediction is served from: its sign is the label."""
        ...

    def learn(self, z: Vector, y: int, served: int | None) -> bool:
        """Learn that z has the label y (-1 or +1); True if the weights changed.

        `served` is the label the client was given, which may be older than the weights; None asks the
        learner to judge by the weights as they are.
        """
        ...

    def grow(self, size: int) -> None:
        """Make room for `size` weights; new ones are zero, none is ever dropped."""
        ...

    @property
    def weights(self) -> Array:
        """The weights that scores are made of."""
        ...

    def state(self) -> dict[str, Any]:
        """All that `restore` needs: numbers, strings and arrays."""
        ...

    def restore(self, state: dict[str, Any]) -> None: ...
