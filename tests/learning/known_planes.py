"""Streams whose separating plane is known, and a perceptron of a few lines to run on them, its labels late."""

import numpy as np


def reveal_order(rounds, late, rng):
    """For each moment, which prediction's label is revealed after that moment's prediction is made."""
    lateness = rng.integers(0, 400, rounds) if late == "random" else np.full(rounds, late)
    moments = [[] for _ in range(rounds + 1000)]
    for number in rng.permutation(rounds) if late == "random" else range(rounds):
        moments[number + lateness[number]].append(number)
    return moments


def perceptron(xs, ys, bound, *, c=None, eta=1.0, late=0, tie=1, seed=0, check=None, weights=None):
    """The mistake-driven perceptron, its labels late and of these weights, if not 1 each; returns what it learned."""
    zs = xs if c is None else np.column_stack([xs, np.full(len(xs), c)])
    w, updates, served, seen_at = np.zeros(zs.shape[1]), 0, {}, {}
    weighed, weighed_at = 0.0, {}
    for moment, revealed in enumerate(reveal_order(len(xs), late, np.random.default_rng(seed))):
        if moment < len(xs):
            score = float(np.add.reduce(w * zs[moment]))
            served[moment] = 1 if score > 0 else -1 if score < 0 else tie
            seen_at[moment], weighed_at[moment] = updates, weighed
        for number in revealed:
            y = int(ys[number])
            mistake = served[number] != y
            stale = updates - seen_at[number]
            score = float(np.add.reduce(w * zs[number]))
            how = {"updated": mistake, "score": score, "stale_updates": stale}
            weight = 1.0
            if weights is not None:
                weight = float(weights[number])
                how |= {"weight": weight, "stale_weight": weighed - weighed_at[number]}
            if mistake:
                w = w + weight * eta * y * zs[number]
                updates += 1
                weighed += weight
            bound.observe(xs[number], y, **how)
            if check is not None and number % 97 == 0:
                check(w)
    return w


def separable(rng, rounds, dimension, radius, offset, gap, hard):
    """Examples in a ball with the plane u·x + b = 0 through it, none nearer to it than a gap; and the plane.

    `hard` ones all lie at the gap, so that the perceptron errs on them for long.
    """
    u = rng.normal(size=dimension)
    u /= np.linalg.norm(u)
    b = offset * radius
    xs = rng.normal(size=(rounds, dimension))
    xs *= (radius * rng.random(rounds) ** 0.5 / np.linalg.norm(xs, axis=1))[:, None]
    ys = np.where(rng.random(rounds) < 0.5, 1, -1)
    distance = gap * radius * (np.ones(rounds) if hard else 1 + rng.exponential(size=rounds))
    xs += ((ys * distance) - (xs @ u + b))[:, None] * u
    return xs, ys, u, b
