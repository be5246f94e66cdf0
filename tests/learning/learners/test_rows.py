"""Many rows that learn at once learn what each would learn alone, to the bit: a plain loop over the rows tells."""

from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as with_settings
from hypothesis import strategies as st

from service.learning.classes import strategies
from service.learning.classes.classifier import Classifier
from service.learning.classes.runs import learn_rows
from service.learning.functions import logistic, quantile
from service.learning.learners import algorithms
from service.learning.learners.linear import MOVE_MAX
from service.learning.learners.passive_aggressive import pa1_step, pa2_step, pa_step
from service.learning.learners.perceptron import learning_rate
from service.learning.learners.scw import scw1_step
from service.learning.saved import unpacked
from service.learning.vectors import Array, Vector, Vectors, dot
from tests.learning.rounds import LEARNERS

EPSILON = float(np.finfo(np.float64).eps)


class Row:
    """One row of weights, taught by one example after the other."""

    def __init__(self, learner: dict[str, Any], size: int, tie: int) -> None:
        self.learner, self.tie = learner, tie
        self.weights, self.lag, self.ones = np.zeros(size), np.zeros(size), np.ones(size)
        self.matrix = np.eye(size)
        self.updates = self.seen = 0

    def score(self, z: Vector) -> float:
        now = z.dot(self.weights)
        return now - z.dot(self.lag) / self.seen if self.seen else now

    def learn(self, z: Vector, y: int, weight: float) -> bool:
        at = slice(None) if z.indices is None else z.indices
        score = dot(self.weights[at], z.values)
        name = self.learner["algorithm"]
        if name in ("perceptron", "averaged"):
            changed = bool(z.values.any()) and self.perceptron(at, z.values, score, y, weight)
        elif name in ("pa", "pa1", "pa2"):
            changed = self.passive_aggressive(at, z.values, 1.0 - y * score, y, weight)
        elif name == "logistic":
            changed = bool(z.values.any()) and self.logistic(at, z.values, score, y, weight)
        else:
            changed = self.confident(at, z.values, y * score, y, weight)
        self.updates += changed
        self.seen += name == "averaged"
        return changed

    def perceptron(self, at: Any, x: Array, score: float, y: int, weight: float) -> bool:
        settings = self.learner
        if settings.get("rule") == "margin":
            wrong = y * score <= settings["delta"]
        else:
            wrong = (1 if score > 0 else -1 if score < 0 else self.tie) != y
        if wrong:
            rate = learning_rate(settings.get("schedule", "constant"), settings["eta0"], self.updates + 1)
            if "forget" in settings and x.any():
                self.weights *= self.updates / (self.updates + settings["forget"])
            self.weights[at] += weight * rate * y * x
            self.lag[at] += weight * rate * y * self.seen * x
        return wrong

    def passive_aggressive(self, at: Any, x: Array, loss: float, y: int, weight: float) -> bool:
        norm_sq = dot(x, x)
        if loss <= 0 or norm_sq < 1e-200:
            return False
        steps = {"pa": pa_step, "pa1": pa1_step, "pa2": pa2_step}
        parameters = {name: value for name, value in self.learner.items() if name == "C"}
        step = steps[self.learner["algorithm"]](loss, norm_sq, weight, **parameters)
        if weight > 1 and step * sqrt(norm_sq) > MOVE_MAX:
            return False
        self.weights[at] += y * step * x
        return True

    def logistic(self, at: Any, x: Array, score: float, y: int, weight: float) -> bool:
        if y * score > 16:
            return False
        steepness = weight * y * logistic(-y * score)
        self.ones[at] += steepness * steepness * (x * x)
        self.weights[at] += self.learner["eta0"] * steepness * x / np.sqrt(self.ones[at])
        return True

    def confident(self, at: Any, x: Array, margin: float, y: int, weight: float) -> bool:
        is_whole = self.learner["covariance"] == "full"
        if is_whole:
            direction = np.array([dot(row[at], x) for row in self.matrix])
            variance = dot(direction[at], x)
            reach = np.abs(direction).max()
        else:
            direction = self.ones[at] * x
            variance = dot(direction, x)
            reach = sqrt(variance)
        if variance < 1e-200:
            return False
        if self.learner["algorithm"] == "scw":
            phi = quantile(self.learner["eta"])
            if phi * sqrt(variance) - margin <= 0:
                return False
            alpha, beta = scw1_step(margin, variance, phi=phi, C=weight * self.learner["C"])
        else:
            if margin >= 1:
                return False
            beta = 1.0 / (variance + self.learner["r"] / weight)
            alpha = beta * (1.0 - margin)
        if alpha <= 0 or alpha * reach > MOVE_MAX:
            return False
        forget = self.learner.get("forget", 0.0)
        if is_whole:
            self.weights += alpha * y * direction
            self.matrix -= np.multiply.outer(beta * direction, direction)
            np.clip(self.matrix, -1.0, 1.0, out=self.matrix)
            if forget:
                self.matrix *= 1.0 - forget
                diagonal = np.arange(len(self.matrix))
                self.matrix[diagonal, diagonal] = np.minimum(self.matrix.diagonal() + forget, 1.0)
        else:
            self.weights[at] += alpha * y * direction
            variances = self.ones[at] * np.maximum(1.0 - beta * (direction * x), EPSILON)
            self.ones[at] = variances + (forget * (x != 0)) * (1.0 - variances) if forget else variances
        return True

    def state(self) -> dict[str, Any]:
        kept = {"weights": self.weights.tolist(), "updates": self.updates}
        name = self.learner["algorithm"]
        if name == "averaged":
            return {**kept, "lag": self.lag.tolist(), "seen": self.seen}
        if name == "logistic":
            return {**kept, "squares": self.ones.tolist()}
        if "covariance" not in self.learner:
            return kept
        is_whole = self.learner["covariance"] == "full"
        return {**kept, "covariance": (self.matrix if is_whole else self.ones).tolist()}


class OneAgainstAll:
    """A row for each class, decided and taught by a loop over the rows."""

    def __init__(self, learner: dict[str, Any], classes: int, size: int) -> None:
        self.rows = [Row(learner, size, tie=-1) for _ in range(classes)]

    def round(self, z: Vector, truth: int, weight: float = 1.0) -> tuple[int, float, float, bool]:
        scores = [row.score(z) for row in self.rows]
        best = max(scores)
        chosen = scores.index(best)
        others = scores[:chosen] + scores[chosen + 1 :]
        changed = [row.learn(z, 1 if at == truth else -1, weight) for at, row in enumerate(self.rows)]
        return chosen, best, best - max(others) if others else 0.0, any(changed)

    def state(self) -> list[dict[str, Any]]:
        return [row.state() for row in self.rows]


class Chance:
    """Examples of all sizes, some of them whole numbers and some zero."""

    def __init__(self, seed: int) -> None:
        self.draw = np.random.default_rng(seed)
        self.size = int(self.draw.choice([1, 3, 17, 200]))
        self.classes = int(self.draw.choice([1, 2, 4, 9]))
        self.scale = 10.0 ** self.draw.integers(-3, 3)

    def values(self, count: int) -> Array:
        values = self.draw.normal(size=count) * self.scale
        kind = self.draw.integers(8)
        return np.zeros(count) if kind == 0 else np.round(values) if kind < 3 else values

    def indices(self) -> Any:
        count = int(self.draw.integers(1, self.size + 1))
        return None if self.draw.random() < 0.5 else self.draw.permutation(self.size)[:count]

    def vectors(self, count: int) -> Vectors:
        indices = self.indices()
        width = self.size if indices is None else len(indices)
        return Vectors(np.stack([self.values(width) for _ in range(count)]), indices)


def state_of(classifier: Classifier) -> list[dict[str, Any]]:
    return [
        {name: value if isinstance(value, int) else unpacked(value).tolist() for name, value in kept.items()}
        for kept in classifier.state()["learners"]
    ]


def hexes(numbers: Any) -> list[str]:
    return [float(number).hex() for number in numbers]


@pytest.mark.parametrize("name", LEARNERS)
@with_settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_one_reveal_after_the_other(name: str, seed: int) -> None:
    chance, learner = Chance(seed), algorithms.complete(LEARNERS[name])
    plain = OneAgainstAll(learner, chance.classes, chance.size)
    classifier = strategies.build(learner, "one_vs_all", classes=chance.classes, tie=1)
    classifier.grow(chance.size)
    for _ in range(30):
        z = chance.vectors(1).row(0)
        truth, weight = int(chance.draw.integers(chance.classes)), float(chance.draw.choice([1.0, 0.5, 40.0]))
        chosen, score, gap = classifier.decide(z)
        changed = classifier.learn(z, truth, chosen, weight)
        expected = plain.round(z, truth, weight)
        assert (chosen, *hexes([score, gap]), changed) == (expected[0], *hexes(expected[1:3]), expected[3])
    assert str(state_of(classifier)) == str(plain.state())


@pytest.mark.parametrize("name", LEARNERS)
@with_settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_blocks(name: str, seed: int) -> None:
    chance, learner = Chance(seed), algorithms.complete(LEARNERS[name])
    plain = OneAgainstAll(learner, chance.classes, chance.size)
    classifier = strategies.build(learner, "one_vs_all", classes=chance.classes, tie=1)
    classifier.grow(chance.size)
    for count in (1, 40, 7):
        vectors, truths = chance.vectors(count), chance.draw.integers(chance.classes, size=count)
        learned = learn_rows(classifier, vectors, truths)
        expected = [plain.round(vectors.row(at), truth) for at, truth in enumerate(truths.tolist())]
        served, scores, gaps, updated = zip(*expected, strict=True)
        assert learned.served.tolist() == list(served)
        assert hexes(learned.scores) == hexes(scores)
        assert hexes(learned.gaps) == hexes(gaps)
        assert learned.updated.tolist() == list(updated)
    assert str(state_of(classifier)) == str(plain.state())
    assert classifier.updates <= sum(row.updates for row in plain.rows)
