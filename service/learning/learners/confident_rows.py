"""AROW and SCW over many rows, their variances a diagonal: to the same bit as row by row, without making new arrays.

What `Confident` does for one example takes longer to call than to compute. Here every step of a row is one call that
writes into an array that is there already. The numbers that such a step takes are arrays, too: a call takes half as
long again if it has to make one of a Python number.
"""

from math import inf, sqrt

import numpy as np
import numpy.typing as npt

from service.learning.learners.arow import Arow
from service.learning.learners.confident import KEPT_MIN, Confident
from service.learning.learners.linear import MOVE_MAX
from service.learning.vectors import NEGLIGIBLE, Array, Vectors

Signs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

ONE = np.array(1.0)

SURELY_KEPT = 0.999
"""Where no more than this of a variance goes, rounding cannot leave less than `KEPT_MIN` of it."""


def learn_confident(learner: Confident, vectors: Vectors, signs: Signs) -> tuple[Array, Flags]:
    """The score that each row was served by, before it was learned, and whether it changed the weights."""
    present = slice(None) if vectors.indices is None else vectors.indices
    weights, variances = learner.planes[0, 0, present], learner.planes[1, 0, present]
    forgotten = _forgotten(learner, vectors.values)
    scores, updated = [], []
    both = np.empty((2, len(weights)))
    weighed, terms = both
    direction = np.empty(len(weights))
    step_of_weights, step_of_variances = np.empty(()), np.empty(())
    multiply, add, subtract, total = np.multiply, np.add, np.subtract, np.add.reduce
    step, idle_margin = learner.step, 1.0 if isinstance(learner, Arow) else inf
    always_varies = idle_margin == inf
    for at, (z, y) in enumerate(zip(vectors.values, signs.tolist(), strict=True)):
        multiply(weights, z, weighed)
        if always_varies:
            multiply(variances, z, direction)
            multiply(direction, z, terms)
            score, variance = total(both, 1).tolist()
            scores.append(score)
        else:
            score = float(total(weighed))
            scores.append(score)
            if y * score >= idle_margin:
                updated.append(False)
                continue
            multiply(variances, z, direction)
            multiply(direction, z, terms)
            variance = float(total(terms))
        taken = step(y * score, variance, 1.0) if variance >= NEGLIGIBLE else None
        if taken is None or taken[0] * sqrt(variance) > MOVE_MAX:
            updated.append(False)
            continue
        updated.append(True)
        alpha, beta = taken
        step_of_weights.fill(alpha * y)
        multiply(direction, step_of_weights, direction)
        add(weights, direction, weights)
        step_of_variances.fill(beta)
        multiply(terms, step_of_variances, terms)
        subtract(ONE, terms, terms)
        if beta * variance > SURELY_KEPT:
            np.maximum(terms, KEPT_MIN, out=terms)
        multiply(variances, terms, variances)
        if forgotten is not None:
            subtract(ONE, variances, terms)
            multiply(terms, forgotten[at], terms)
            add(variances, terms, variances)
    if vectors.indices is not None:
        learner.planes[0, 0, present], learner.planes[1, 0, present] = weights, variances
    learner.updates[0] += sum(updated)
    return np.array(scores), np.array(updated)


def _forgotten(learner: Confident, rows: Array) -> Array | None:
    """The share that each row lets each variance forget; one number a row if none of them is 0, None if nothing is."""
    share = learner.forgotten
    if not share:
        return None
    return np.full((len(rows), 1), share) if rows.all() else share * (rows != 0)
