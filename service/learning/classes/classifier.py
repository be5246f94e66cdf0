"""What every strategy promises that makes a classifier of binary learners."""

from typing import Any, Protocol

from service.learning.vectors import Array, Vector


class Classifier(Protocol):
    """Puts vectors into classes, which are numbered in the order in which they were declared or seen.

    Like a learner's, its state is a function of what it has learned, in that order, to the bit. `strategies.build`
    makes one from a model's settings, for the classes known then; `grow` is called before anything else.
    """

    @property
    def updates(self) -> int:
        """How many examples have changed the weights of any of its learners. Fits count their updates by it."""
        ...

    def decide(self, z: Vector) -> tuple[int, float]:
        """The class of z, and the score it was chosen by; changes nothing. -1 while no class is known.

        For two declared classes the score is that of the second, so its sign tells the class; else it is the score of
        the chosen class. Called for every prediction.
        """
        ...

    def learn(self, z: Vector, truth: int, served: int) -> bool:
        """Learn that z belongs to class `truth`; True if weights changed. Called once for every reveal.

        `served` is the class that the client was given, perhaps by older weights; -1 if none was known. Blocks of
        rounds are learned by `runs.learn_rows`, which must leave the same state as deciding and learning one by one.
        """
        ...

    def grow(self, size: int) -> None:
        """Make room for `size` weights in every learner; called when the features have grown, never to shrink."""
        ...

    def add_class(self) -> None:
        """One more class, which starts from zero; nothing else changes. Called when a new label is revealed."""
        ...

    def weights_for(self, chosen: int) -> Array:
        """The weights whose product with z is the score of the chosen class (for two: of the second)."""
        ...

    def state(self) -> dict[str, Any]:
        """All that `restore` needs: numbers, strings, lists and arrays, none of them shared with the classifier."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Become what `state` was taken from, to the bit, with as many classes as it had then."""
        ...
