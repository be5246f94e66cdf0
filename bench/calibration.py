"""How good the probabilities are: their log loss and Brier score on the shipped data sets, beside what hindsight gives.

    python -m bench.calibration

The six data sets of `bench.streams` under five learners, standardized and not: 60 streams. Each round is served and
learned by a model as the service has it. Its probabilities are compared, by log loss and Brier score, with

- a constant: the share of right labels of the whole stream, known afterwards;
- a logistic regression fitted afterwards on the gaps that were served, asked about the rounds that it was fitted on;
- other ways to do the same online: a step for each reveal instead of batches, the step of the paper's code, gaps
  divided by ‖w‖‖z‖ instead of the usual gap, and other constants.

Printed are a table in Markdown and what it comes to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import mean, median
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression

from bench.streams import Rounds, data_sets
from service.engine.models.model import Model
from service.events import ModelCreated, RoundLearned
from service.learning.functions import STEEPEST, logistic
from service.learning.statistics.calibration import BETA, FIRST_CURVATURE, SCALE_SHARE_MIN, START, STEEPNESS
from service.learning.statistics.statistic import batch_size
from service.web.routes.model_settings import ModelLimits, ModelSettings

LEARNERS = ("perceptron", "averaged", "pa1", "arow", "scw")
LIMITS = ModelLimits(1000, 1000, 512, 10**8)

Array = npt.NDArray[np.float64]


class Stream(NamedTuple):
    """What a model served in each round, and whether the label was right. The first round has no probability."""

    gaps: Array
    lengths: Array
    """‖w‖‖z‖, where ‖w‖ is that of the class with the largest."""
    probabilities: Array
    right: Array


def served(rounds: Rounds, learner: str, *, standardize: bool) -> Stream:
    """One pass: each example is predicted first and learned after."""
    classes = sorted({truth for _, truth in rounds})
    settings = ModelSettings.model_validate(
        {"labels": classes, "learner": {"algorithm": learner}, "features": {"standardize": standardize}}
    )
    model = Model(ModelCreated("calibration", 1, settings.complete(LIMITS)))
    model.fix_dimension(len(rounds[0][0]))
    rows = []
    for number, (x, truth) in enumerate(rounds):
        example = np.array(x)
        z = model.features.vector(example)
        chosen, _, certainty = model.serve(z)
        weights = max(float(np.linalg.norm(weights)) for _, weights in model.weights())
        probability = np.nan if certainty.probability is None else certainty.probability
        right = classes[chosen] == truth
        rows.append((certainty.gap, weights * float(np.linalg.norm(z.values)), probability, right))
        model.apply(RoundLearned("calibration", 2 + number, None, truth, example.tobytes()))
    return Stream(*np.array(rows, dtype=float).T)


def log_loss(probabilities: Array, right: Array) -> float:
    return float(-np.log(np.where(right[1:] > 0, probabilities[1:], 1 - probabilities[1:])).mean())


def brier(probabilities: Array, right: Array) -> float:
    return float(((probabilities[1:] - right[1:]) ** 2).mean())


def constant(stream: Stream) -> Array:
    """The share of right labels, which nobody knows before the end."""
    return np.full(len(stream.right), stream.right[1:].mean())


def in_hindsight(stream: Stream) -> Array:
    """A logistic regression on the gaps, fitted on all rounds and asked about the same rounds."""
    scaled = (stream.gaps / stream.gaps.mean())[:, np.newaxis]
    fitted = LogisticRegression(C=np.inf, max_iter=1000).fit(scaled[1:], stream.right[1:])
    return np.asarray(fitted.predict_proba(scaled)[:, 1].clip(logistic(-STEEPEST), logistic(STEEPEST)))


def leads(gaps: Array, size: Callable[[int], int]) -> Array:
    """Each gap divided by itself plus the usual gap of the rounds before, which changes with batches."""
    usual, found = 0.0, []
    for seen, gap in enumerate(gaps.tolist(), 1):
        found.append(gap / (gap + usual) if gap > 0 else 0.0)
        if not seen % size(seen):
            many = size(seen)
            share = min(1.0, max(SCALE_SHARE_MIN * many, many / seen))
            usual += share * (float(gaps[seen - many : seen].mean()) - usual)
    return np.array(found)


def platt(
    u: Array,
    right: Array,
    size: Callable[[int], int],
    *,
    beta: float = BETA,
    curvature: float = FIRST_CURVATURE,
    theta: tuple[float, float] = (START[0], START[1]),
) -> Array:
    """Online Platt scaling as the paper writes it, with a Newton step at the end of each batch."""
    now, matrix, probabilities = np.array(theta), curvature * np.eye(2), []
    gradients: list[Array] = []
    for seen, (feature, is_right) in enumerate(zip(u.tolist(), right.tolist(), strict=True), 1):
        p = logistic(float(now[0] * feature + now[1]))
        probabilities.append(p)
        gradients.append((p - is_right) * np.array([feature, 1.0]))
        if not seen % size(seen):
            batch = np.array(gradients)
            matrix = matrix + batch.T @ batch
            now = now - np.linalg.solve(matrix, batch.sum(axis=0)) / beta
            gradients = []
    return np.array(probabilities)


def one(seen: int) -> int:
    return 1


def by_length(stream: Stream) -> Array:
    """|s|/(‖w‖‖z‖): the cosine between the weights and the example."""
    return np.divide(stream.gaps, stream.lengths, out=np.zeros(len(stream.gaps)), where=stream.lengths > 0)


WAYS: dict[str, Callable[[Stream], Array]] = {
    "as served": lambda stream: stream.probabilities,
    "a constant": constant,
    "in hindsight": in_hindsight,
    "a step for each reveal": lambda stream: platt(STEEPNESS * leads(stream.gaps, one), stream.right, one),
    "the paper's step": lambda stream: platt(
        STEEPNESS * leads(stream.gaps, one), stream.right, one, beta=0.1, curvature=100.0
    ),
    "gaps by ‖w‖‖z‖": lambda stream: platt(STEEPNESS * by_length(stream), stream.right, one),
    "gaps by ‖w‖‖z‖, the paper's step": lambda stream: platt(
        by_length(stream), stream.right, one, beta=0.1, curvature=100.0
    ),
}

STEPS = [(b, c, s) for b in (0.1, 0.15, 0.3, 1.0) for c in (1.0, 6.0, 20.0, 100.0) for s in (1.0, 2.0, 4.0)]
"""β, with how many times the identity A begins, and by what leads are multiplied."""


def streams() -> Iterator[tuple[str, Stream]]:
    for name, rounds in data_sets():
        for learner in LEARNERS:
            for standardize in (True, False):
                how = "standardized" if standardize else "as they are"
                yield f"{name}, {learner}, {how}", served(rounds, learner, standardize=standardize)


def main() -> None:
    losses: dict[str, list[float]] = {way: [] for way in WAYS}
    by_step: dict[tuple[float, float, float], list[float]] = {step: [] for step in STEPS}
    briers: list[tuple[float, float]] = []
    print("| log loss | error % | " + " | ".join(WAYS) + " | Brier, as served | Brier, a constant |")
    print("|---|" + "---:|" * (len(WAYS) + 3))
    for name, stream in streams():
        for way, probabilities in WAYS.items():
            losses[way].append(log_loss(probabilities(stream), stream.right))
        briers.append((brier(stream.probabilities, stream.right), brier(constant(stream), stream.right)))
        cells = [f"{100 * (1 - stream.right.mean()):.1f}", *(f"{losses[way][-1]:.4f}" for way in WAYS)]
        print(f"| {name} | " + " | ".join(cells) + " | {:.4f} | {:.4f} |".format(*briers[-1]), flush=True)
        ahead = leads(stream.gaps, batch_size)
        for (beta, curvature, steepness), found in by_step.items():
            u = steepness * ahead
            found.append(
                log_loss(platt(u, stream.right, batch_size, beta=beta, curvature=curvature), stream.right)
            )
    print(f"\nOver {len(briers)} streams:\n")
    for way in WAYS:
        _compare(way, losses)
    print(
        f"- Brier score as served worse than that of a constant: {sum(mine > known for mine, known in briers)}"
    )
    print("\nMean log loss for β, times the identity, times the lead:\n")
    for step in sorted(STEPS, key=lambda step: mean(by_step[step])):
        print("- {:.2f}, {:.0f}, {:.0f}: ".format(*step) + f"{mean(by_step[step]):.4f}")


def _compare(way: str, losses: dict[str, list[float]]) -> None:
    mine, theirs, known = losses["as served"], losses[way], losses["a constant"]
    ratios = [one / other for one, other in zip(mine, theirs, strict=True)]
    print(
        f"- {way}: mean {mean(theirs):.4f}; worse than a constant in "
        f"{sum(one > other for one, other in zip(theirs, known, strict=True))}; as served divided by it: median "
        f"{median(ratios):.3f}, from {min(ratios):.3f} to {max(ratios):.3f}, above 1.1 in "
        f"{sum(ratio > 1.1 for ratio in ratios)}, below 1 in {sum(ratio < 1 for ratio in ratios)}"
    )


if __name__ == "__main__":
    main()
