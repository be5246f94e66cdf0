"""Learning many examples one after the other, scoring many at a time.

Between two updates the weights do not change. So the next rows are scored together, and all of them up to the
first that may change something are done: exactly what deciding and learning one by one would do.
"""

from dataclasses import dataclass
from functools import partial
from math import inf

import numpy as np
import numpy.typing as npt

from service.learning.classes.binary import Binary
from service.learning.classes.classifier import Classifier
from service.learning.learners.confident import Confident
from service.learning.learners.confident_rows import learn_confident
from service.learning.learners.logistic import Logistic
from service.learning.learners.perceptron import Perceptron
from service.learning.learners.perceptron_rows import learn_perceptron
from service.learning.vectors import Array, Vectors

Classes = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

AHEAD_MIN, AHEAD_MAX = 16, 256
"""How many rows are scored at once: twice as many each time, until one may change the weights."""


@dataclass(frozen=True, slots=True)
class Learned:
    """For every row the class that was served, the score and the gap it was served by, and whether weights changed."""

    served: Classes
    scores: Array
    gaps: Array
    updated: Flags


def learn_rows(classifier: Classifier, vectors: Vectors, truths: Classes) -> Learned:
    """Decide on each row, then learn its class, before the next. Classes are known to the classifier."""
    if isinstance(classifier, Binary):
        learner = classifier.learner
        if isinstance(learner, Perceptron):
            scores, updated = learn_perceptron(learner, vectors, 2 * truths - 1, 2 * classifier.tie - 1)
            return Learned(_served(scores, classifier.tie), scores, np.abs(scores), updated)
        if isinstance(learner, Logistic) or (isinstance(learner, Confident) and learner.has_variances):
            rows = learner.learn_rows if isinstance(learner, Logistic) else partial(learn_confident, learner)
            scores, updated = rows(vectors, 2 * truths - 1)
            return Learned(_served(scores, classifier.tie), scores, np.abs(scores), updated)
        if learner.served_by_weights and learner.idle_margin < inf:
            return _learn_in_runs(classifier, vectors, truths)
    return _learn_one_by_one(classifier, vectors, truths)


def _learn_in_runs(classifier: Binary, vectors: Vectors, truths: Classes) -> Learned:
    learner, idle_margin = classifier.learner, classifier.learner.idle_margin
    count = len(truths)
    signs = 2 * truths - 1
    scores = np.empty(count)
    updated = np.zeros(count, dtype=np.bool_)
    start, ahead = 0, AHEAD_MIN
    while start < count:
        end = min(start + ahead, count)
        scored = vectors.dots(learner.weights, start, end)
        scores[start:end] = scored  # those after an update are scored again
        can_change = scored * signs[start:end] <= idle_margin
        first = int(can_change.argmax())
        if not can_change[first]:
            start, ahead = end, min(2 * ahead, AHEAD_MAX)
            continue
        at = start + first
        updated[at] = classifier.learn(
            vectors.row(at), int(truths[at]), classifier.chosen(float(scored[first]))
        )
        start, ahead = at + 1, AHEAD_MIN
    return Learned(_served(scores, classifier.tie), scores, np.abs(scores), updated)


def _served(scores: Array, tie: int) -> Classes:
    """The class that each score speaks for."""
    return np.where(scores > 0, 1, np.where(scores < 0, 0, tie))


def _learn_one_by_one(classifier: Classifier, vectors: Vectors, truths: Classes) -> Learned:
    served, scores, gaps, updated = [], [], [], []
    for at, truth in enumerate(truths.tolist()):
        z = vectors.row(at)
        chosen, score, gap = classifier.decide(z)
        served.append(chosen)
        scores.append(score)
        gaps.append(gap)
        updated.append(classifier.learn(z, truth, chosen))
    return Learned(np.array(served), np.array(scores), np.array(gaps), np.array(updated))
