"""Learning many examples one after the other, scoring many at a time.

Between two updates the weights do not change. So the next examples are scored together, and all of them up to the
first that may change something are done: exactly what deciding and learning one by one would do.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from service.learning.classes.classifier import Classifier
from service.learning.classes.one_vs_all import Binary, OneVsAll
from service.learning.learners.covariance import Confident
from service.learning.learners.learner import Learner
from service.learning.learners.linear import some
from service.learning.learners.logistic import Logistic
from service.learning.learners.perceptron import Perceptron
from service.learning.learners.single_rows import learn_confident, learn_perceptron
from service.learning.vectors import ALL, Array, Vector, Vectors

Classes = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

AHEAD_MAX = 256
"""So many examples are scored at once: twice as many each time, until one may change the weights."""

PRODUCTS_MIN, PRODUCTS_MAX = 1 << 9, 1 << 15
"""So many products are made of them: fewer take no less time, and more do not fit into the processor's cache."""


@dataclass(frozen=True, slots=True)
class Learned:
    """For every row the class that was served, the score and the gap it was served by, and whether weights changed."""

    served: Classes
    scores: Array
    gaps: Array
    updated: Flags
    behind: Array = field(default_factory=lambda: np.zeros((0, 0)))
    """Under `one_vs_all` how far each class was behind the one that was served."""


def learn_rows(classifier: Classifier, vectors: Vectors, truths: Classes) -> Learned:
    """Decide on each example, then learn its class, before the next. Classes are known to the classifier."""
    if isinstance(classifier, Binary):
        return _learn_two(classifier, vectors, truths)
    if isinstance(classifier, OneVsAll) and classifier.learner.learns_in_blocks:
        return _learn_several(classifier, vectors, truths)
    return _learn_one_by_one(classifier, vectors, truths)


def _learn_two(classifier: Binary, vectors: Vectors, truths: Classes) -> Learned:
    learner, signs = classifier.learner, 2 * truths - 1
    if not learner.learns_in_blocks:
        return _learn_one_by_one(classifier, vectors, truths)
    if isinstance(learner, Perceptron):
        scores, updated = learn_perceptron(learner, vectors, signs)
    elif isinstance(learner, Logistic):
        scores, updated = learner.learn_rows(vectors, signs)
    elif isinstance(learner, Confident):
        scores, updated = learn_confident(learner, vectors, signs)
    else:
        all_scores, updated = _learn_in_runs(learner, vectors, signs[:, np.newaxis].astype(np.float64))
        scores = all_scores[:, 0]
    served = np.where(scores > 0, 1, np.where(scores < 0, 0, classifier.tie))
    return Learned(served, scores, np.abs(scores), updated)


def _learn_several(classifier: OneVsAll, vectors: Vectors, truths: Classes) -> Learned:
    every = np.arange(len(truths))
    labels = np.full((len(truths), classifier.shape[0]), -1.0)
    labels[every, truths] = 1.0
    scores, updated = _learn_in_runs(classifier.learner, vectors, labels)
    classifier.updates += int(np.count_nonzero(updated))
    served = scores.argmax(axis=1)
    best = scores[every, served]
    behind = best[:, np.newaxis] - scores
    if scores.shape[1] == 1:
        return Learned(served, best, np.zeros(len(best)), updated, behind)
    scores[every, served] = -np.inf
    return Learned(served, best, best - np.maximum.reduce(scores, axis=1), updated, behind)


def _learn_in_runs(learner: Learner, vectors: Vectors, labels: Array) -> tuple[Array, Flags]:
    """The scores that each example was served by, before it was learned, and whether it changed any weights.

    How many examples are scored ahead follows from how many the last update was ahead.
    """
    count, rows = labels.shape
    planes = learner.planes if vectors.indices is None else learner.planes[:, :, vectors.indices]
    size = max(1, planes[0].size)
    ahead_min, ahead_max = (min(AHEAD_MAX, max(1, most // size)) for most in (PRODUCTS_MIN, PRODUCTS_MAX))
    scores = np.empty(labels.shape)
    updated = np.zeros(count, dtype=np.bool_)
    start, ahead = 0, ahead_min
    while start < count:
        end = min(start + ahead, count)
        products = np.multiply(vectors.values[start:end, np.newaxis], planes[0], order="C")
        scored = np.add.reduce(
            products, axis=2, out=scores[start:end]
        )  # those after an update are scored again
        may_change = learner.may_change(scored, labels[start:end])
        places = may_change.ravel().nonzero()[0]
        if not len(places):
            start, ahead = end, min(2 * ahead, ahead_max)
            continue
        run = int(places[0]) // rows
        at, z = start + run, Vector(vectors.values[start + run])
        if rows == 1:
            updated[at] = learner.change(planes, z, 0, scores.item(at), labels.item(at))
        else:
            taught = may_change[run].nonzero()[0]
            updated[at] = learner.change(planes, z, *some(taught, ALL, scores[at], labels[at]))
        start, ahead = at + 1, min(max(ahead_min, run), ahead_max)
    if vectors.indices is not None:
        learner.planes[:, :, vectors.indices] = planes
    return scores, updated


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
