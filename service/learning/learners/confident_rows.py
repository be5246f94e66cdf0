"""AROW and SCW over many rows, their variances a diagonal: to the same bit as row by row, without making new arrays.

What `Confident` does for one example takes longer to call than to compute. Here every step of a row is one call that
writes into an array that is there already.
"""

from math import sqrt

import numpy as np
import numpy.typing as npt

from service.learning.learners.confident import Confident
from service.learning.learners.covariance import KEPT_MIN
from service.learning.learners.forgetting_arow import ForgettingArow
from service.learning.learners.linear import MOVE_MAX
from service.learning.vectors import NEGLIGIBLE, Array, Vectors

Signs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def learn_confident(learner: Confident, vectors: Vectors, signs: Signs) -> tuple[Array, Flags]:
    """The score that each row was served by, before it was learned, and whether it changed the weights."""
    present = slice(len(learner.weights)) if vectors.indices is None else vectors.indices
    weights, variances = learner.weights[present], learner.variances[present]
    forgotten = _forgotten(learner, vectors.values)
    scores, updated = [], []
    direction, terms = np.empty(len(weights)), np.empty(len(weights))
    multiply, add, subtract, total = np.multiply, np.add, np.subtract, np.add.reduce
    idle_margin, step = learner.idle_margin, learner.step
    for at, (z, y) in enumerate(zip(vectors.values, signs.tolist(), strict=True)):
        multiply(weights, z, terms)
        score = float(total(terms))
        scores.append(score)
        if y * score >= idle_margin:
            updated.append(False)
            continue
        multiply(variances, z, direction)
        multiply(direction, z, terms)
        variance = float(total(terms))
        alpha, beta = step(y * score, variance, 1.0) if variance >= NEGLIGIBLE else (0.0, 0.0)
        moves = alpha > 0 and alpha * sqrt(variance) <= MOVE_MAX
        updated.append(moves)
        if not moves:
            continue
        multiply(direction, alpha * y, direction)
        add(weights, direction, weights)
        multiply(terms, beta, terms)
        subtract(1.0, terms, terms)
        np.maximum(terms, KEPT_MIN, out=terms)
        multiply(variances, terms, variances)
        if forgotten is not None:
            subtract(1.0, variances, terms)
            multiply(terms, forgotten if isinstance(forgotten, float) else forgotten[at], terms)
            add(variances, terms, variances)
    if vectors.indices is not None:
        learner.weights[present], learner.variances[present] = weights, variances
    learner.updates += sum(updated)
    return np.array(scores), np.array(updated)


def _forgotten(learner: Confident, rows: Array) -> Array | float | None:
    """The share that each row lets each variance forget; one number if it is the same for all, None if nothing is."""
    if not isinstance(learner, ForgettingArow):
        return None
    return learner.forget if rows.all() else learner.forget * (rows != 0)
