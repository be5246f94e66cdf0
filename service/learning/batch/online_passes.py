"""Passes of a model's own learner over a set of examples, one after the other as in the stream."""

from collections.abc import Callable, Sequence
from math import inf

import numpy as np

from service.learning.batch.perceptron import Classes, length
from service.learning.classes.classifier import Classifier
from service.learning.classes.one_vs_all import Binary
from service.learning.vectors import Array, Vector

_EXAMPLES_A_LOOK = 1024  # how many examples between two questions whether to go on


class OnlinePasses:
    """Each example is predicted, then learned. Errors are the mistakes of the last pass, if it was whole.

    The criterion is the sum of -y w·z over those mistakes, each by the weights that made it; it is known
    for two classes only. With a generator every pass has an order of its own.
    """

    __slots__ = ("_classifier", "_measures", "_order", "_truths", "_updates_before", "_updates_max",
                 "_vectors", "criterion", "errors")  # fmt: skip

    def __init__(
        self,
        classifier: Classifier,
        vectors: Sequence[Vector],
        truths: Classes,
        *,
        order: "np.random.Generator | None",
        updates_max: int,
        measures: bool,
    ) -> None:
        self._classifier = classifier
        self._vectors = vectors
        self._truths = truths.tolist()
        self._order = order
        self._updates_before = classifier.updates
        self._updates_max = updates_max
        self._measures = measures
        self.errors: int | None = None
        self.criterion: float | None = None

    @property
    def updates(self) -> int:
        return self._classifier.updates - self._updates_before

    def run(self, is_wanted: Callable[[int], bool]) -> tuple[float, float]:
        """One pass; how far it moved the weights (infinite if not measured), and how long they are now."""
        updates_before = self.updates
        before = self._weights() if self._measures else None
        self.errors, errors, criterion = None, 0, 0.0
        count = len(self._vectors)
        order = range(count) if self._order is None else self._order.permutation(count).tolist()
        for done, i in enumerate(order):
            if self.updates >= self._updates_max:
                break
            if done % _EXAMPLES_A_LOOK == 0 and not is_wanted(done):
                break
            served, score, _ = self._classifier.decide(self._vectors[i])
            if served != self._truths[i]:
                errors += 1
                criterion += abs(score)
            self._classifier.learn(self._vectors[i], self._truths[i], served)
        else:
            self.errors = errors
        self.criterion = criterion if isinstance(self._classifier, Binary) else None
        if self.updates == updates_before:
            return 0.0, 0.0
        if before is None:
            return inf, 0.0
        after = self._weights()
        return length(after - before), length(after)

    def _weights(self) -> Array:
        if isinstance(self._classifier, Binary):
            return self._classifier.rows().copy()
        return np.array([self._classifier.weights_for(truth) for truth in sorted(set(self._truths))])
