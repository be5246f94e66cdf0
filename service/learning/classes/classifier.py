"""What every strategy promises that makes a classifier of binary learners."""

from typing import Any, Protocol

import numpy as np

from service.learning.vectors import Array, Indices, Vector


def highest(scores: Array) -> tuple[int, float, float]:
    """The first class with the highest score, that score, and how far it is above the next; 0 if there is none.

    >>> highest(np.array([1.0, 3.0, 2.5])), highest(np.array([2.0]))
    ((1, 3.0, 0.5), (0, 2.0, 0.0))
    """
    chosen = int(scores.argmax())
    best = float(scores[chosen])
    if len(scores) == 1:
        return chosen, best, 0.0
    scores[chosen] = -np.inf
    return chosen, best, best - float(np.maximum.reduce(scores))


class Classifier(Protocol):
    """Puts vectors into classes, which are numbered in the order in which they were declared or seen.

    Like a learner's, its state is a function of what it has learned, in that order, to the bit. `strategies.build`
    makes one from a model's settings, for the classes known then; `grow` is called before anything else.
    """

    @property
    def updates(self) -> int:
        """How many examples have changed the weights of any of its learners. Fits count their updates by it."""
        ...

    @property
    def shape(self) -> tuple[int, int]:
        """How many classes it knows, and how many weights each learner has."""
        ...

    def decide(self, z: Vector) -> tuple[int, float, float]:
        """The class of z, the score it was chosen by, and the gap; changes nothing. -1 while no class is known.

        For two declared classes the score is that of the second, so its sign tells the class; else it is the score of
        the chosen class. The gap is how far the chosen class is ahead of the second-best: the least of `behind` for
        another class, 0 if there is none. Called for every prediction.
        """
        ...

    def behind(self, z: Vector) -> Array:
        """How far each class is behind the chosen one, at least 0, and 0 for that one itself; changes nothing.

        Called for every prediction of a model that serves sets.
        """
        ...

    def learn(self, z: Vector, truth: int, served: int, weight: float = 1.0) -> bool:
        """Learn that z belongs to class `truth`; True if weights changed. Called once for every reveal.

        `served` is the class that the client was given, perhaps by older weights; -1 if none was known. The example
        counts `weight` times. Blocks of rounds are learned by `runs.learn_rows`, which must leave the same state as
        deciding and learning one by one.
        """
        ...

    def grow(self, size: int) -> None:
        """Make room for `size` weights in every learner; called when the features have grown, never to shrink."""
        ...

    def unsettle(self, places: Indices) -> None:
        """Forget how sure the weights at these places are, whose features began a new scale."""
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

    def restore(self, state: Any, classes: int, size: int) -> None:
        """Become what `state` was taken from, to the bit.

        `saved.BadState` unless it is a state for so many classes and `size` weights of each learner.
        """
        ...
