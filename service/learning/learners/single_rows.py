"""Blocks of examples for a single row of weights, as of two classes: faster than what many rows take.

All leave the same bits as learning one example after the other.

The perceptron's update depends on nothing but whether it errs. So once it is known which examples it errs on, the
weights after each of them are sums, and all scores are computed together, with the additions in the same order as one
by one. Which examples it errs on is guessed by products that are faster but may differ in the last bits. The scores
then tell whether the guess was right: up to the first example where it was wrong the results stand, and the next guess
begins there.

AROW and SCW, their variances a diagonal, are learned without making new arrays. What `Confident` does for one example
takes longer to call than to compute. Here every step is one call that writes into an array that is there already. The
numbers that such a step takes are arrays, too: a call takes half as long again if it has to make one of a Python
number.
"""

from math import inf, sqrt

import numpy as np
import numpy.typing as npt

from service.learning.learners.arow import Arow
from service.learning.learners.covariance import KEPT_MIN, Confident
from service.learning.learners.linear import MOVE_MAX
from service.learning.learners.perceptron import Perceptron
from service.learning.vectors import NEGLIGIBLE, Array, Vectors

WINDOW_MIN, WINDOW_MAX = 16, 256
"""How many rows are guessed and computed at once: twice as many after each right guess, half after a wrong one."""

AHEAD_MIN, AHEAD_MAX = 16, 128
"""How many rows a guess scores at once with the same weights: twice as many each time, until one is an error."""

Signs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def learn_perceptron(learner: Perceptron, vectors: Vectors, signs: Signs) -> tuple[Array, Flags]:
    """The score that each row was served by, before it was learned, and whether it changed the weights."""
    values, indices = vectors.values, vectors.indices
    kept = learner.planes[0, 0]
    weights = kept if indices is None else kept[indices]
    scores = np.empty(len(signs))
    updated = np.empty(len(signs), dtype=np.bool_)
    start, window = 0, WINDOW_MAX
    while start < len(signs):
        rows, labels = values[start : start + window], signs[start : start + window]
        rates = learner.next_rates(len(rows))
        errors = _guess(learner, weights.copy(), rows, labels, rates)
        steps = rates[: len(errors)] * labels[errors]
        passed = np.add.accumulate(np.concatenate((weights[np.newaxis], steps[:, np.newaxis] * rows[errors])))
        guessed = np.zeros(len(rows), dtype=np.bool_)
        guessed[errors] = True
        before: Signs = np.cumsum(guessed) - guessed  # updates, for each row
        scored = np.add.reduce(passed[before] * rows, axis=1)
        errs = learner.may_change(scored, labels)
        unmoved = np.flatnonzero(scored == 0)
        errs[unmoved] &= rows[unmoved].any(axis=1)  # a row of zeros is no update
        wrong = np.flatnonzero(errs != guessed)
        done = int(wrong[0]) + 1 if len(wrong) else len(rows)
        scores[start : start + done] = scored[:done]
        updated[start : start + done] = errs[:done]
        last, count = done - 1, int(before[done - 1])
        weights = passed[count]
        if errs[last]:
            weights = weights + rates[count] * labels[last] * rows[last]
            count += 1
        learner.updates[0] += count
        start += done
        window = min(2 * window, WINDOW_MAX) if done == len(rows) else max(window // 2, WINDOW_MIN)
    kept[slice(None) if indices is None else indices] = weights
    return scores, updated


def _guess(learner: Perceptron, weights: Array, rows: Array, labels: Signs, rates: Array) -> list[int]:
    """The rows that it will err on, most probably; `weights` are changed on the way."""
    idle_margin = learner.idle_margin
    at_margin = {y: learner.may_change(float(idle_margin * y), float(y)) for y in (-1, 1)}
    signs, sizes = labels.tolist(), rates.tolist()
    errors: list[int] = []
    at, ahead = 0, AHEAD_MIN
    while at < len(signs):
        # So few scores are looked through faster one by one than as an array.
        for score in np.dot(rows[at : at + ahead], weights).tolist():
            y = signs[at]
            margin = score * y
            errs = margin < idle_margin or (margin == idle_margin and at_margin[y])
            if errs and (score or rows[at].any()):
                weights += (sizes[len(errors)] * y) * rows[at]
                errors.append(at)
                at, ahead = at + 1, AHEAD_MIN
                break
            at += 1
        else:
            ahead = min(2 * ahead, AHEAD_MAX)
    return errors


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
