"""The weights of a panel's experts: those that err lose weight, and none is ever lost for good.

Freund, Schapire: A decision-theoretic generalization of on-line learning, JCSS 55, 1997; the share that is divided
evenly is that of Herbster, Warmuth: Tracking the best expert, Machine Learning 32, 1998. Weights are moved only by
rounds in which some experts erred and others did not: the rest say nothing about who is better. docs/theory.md proves
the bound, with late labels.

Who leads over time is kept as at most 64 points, however long the stream. A point is set every `stride` rounds; it
holds the expert that weighs most and the mistakes of each expert until then. When there is no more room, every second
point goes and the stride doubles.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import log, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from service.learning import saved
from service.learning.vectors import Array

POINTS_MAX = 64  # even, so that every second one can go


class Leaders:
    """The points so far. `due` is the number of the reveal that sets the next one.

    >>> leaders = Leaders(experts=2)
    >>> for number in range(1, 131):
    ...     if number == leaders.due:
    ...         leaders.observe(leader=int(number > 100), mistakes=[number // 2, number // 3])
    >>> report = leaders.report(["a", "b"])
    >>> report["rounds"][:3], report["leaders"][-1], report["mistakes"][0][:3]
    ([4, 8, 12], 'b', [2, 4, 6])
    """

    __slots__ = ("_experts", "_points", "due", "stride")

    def __init__(self, experts: int) -> None:
        self._experts = experts
        self._points = array("Q")  # for each point its leader, then the mistakes of all experts
        self.stride = 1
        self.due = 1

    def observe(self, leader: int, mistakes: Sequence[int]) -> None:
        """Set the point of reveal number `due`."""
        width = 1 + self._experts
        self._points.append(leader)
        self._points.extend(mistakes)
        if len(self._points) == POINTS_MAX * width:
            self.stride *= 2
            kept = array("Q")
            for start in range(width, len(self._points), 2 * width):
                kept += self._points[start : start + width]
            self._points = kept
        self.due += self.stride

    def report(self, names: Sequence[str]) -> dict[str, Any]:
        width = 1 + self._experts
        rows = [self._points[start : start + width] for start in range(0, len(self._points), width)]
        return {
            "rounds": [self.stride * (at + 1) for at in range(len(rows))],
            "leaders": [names[row[0]] for row in rows],
            "mistakes": [[row[1 + expert] for row in rows] for expert in range(self._experts)],
        }

    def state(self) -> list[Any]:
        return [self.stride, self._points.tolist()]

    def restore(self, state: Any, rounds: int, mistakes: Sequence[int]) -> None:
        """Become what `state` was taken from; `saved.BadState` unless it can be of so many rounds and mistakes."""
        stride, points = saved.items(state, 2)
        self.stride = saved.whole(stride, "[0]", saved.ROUNDS_MAX, 1)
        saved.check(not stride & (stride - 1), "[0]", "must be a power of 2")
        width = 1 + self._experts
        saved.wholes(points, "[1]", saved.ROUNDS_MAX, POINTS_MAX * width)
        count = rounds // stride
        saved.check(
            len(points) == count * width and count < POINTS_MAX and (stride == 1 or count >= POINTS_MAX // 2),
            "[1]",
            f"must be {count} points of {width} numbers",
        )
        before: Sequence[int] = [0] * self._experts
        for at in range(count):
            leader, *made = points[at * width : (at + 1) * width]
            saved.check(leader < self._experts, f"[1][{at * width}]", "must be an expert")
            is_later = all(map(_is_step, before, made, [stride] * self._experts))
            saved.check(is_later, f"[1][{at * width + 1}]", "must not be fewer mistakes, or more than rounds")
            before = made
        saved.check(all(map(int.__le__, before, mistakes)), "[1]", "must be at most all mistakes")
        self._points = array("Q", points)
        self.due = stride * (count + 1)


def _is_step(before: int, after: int, rounds: int) -> bool:
    return 0 <= after - before <= rounds


Classes = npt.NDArray[np.int64]

ROUNDED = 1e-9
"""What rounding may have made of the sum of the weights."""


class Hedge:
    """Weights that add up to 1, and what is counted for the bound.

    >>> hedge = Hedge(3, kept=0.5, share=0.0)
    >>> hedge.observe([1, 0, 0], truth=1, erred_weight=2 / 3, mistake=True, delay=0)
    >>> hedge.weights
    [0.5, 0.25, 0.25]
    """

    __slots__ = (
        "_even",
        "_kept",
        "_rules",
        "_share",
        "all_erred",
        "delays",
        "disagreements",
        "erred_weight",
        "late",
        "leaders",
        "mistakes",
        "rounds",
        "vote_mistakes",
        "weights",
    )

    def __init__(self, experts: int, *, kept: float, share: float, rules: int = 1) -> None:
        """By rules 3 each disagreement costs what those revealed since its prediction can have moved, by older rules
        what all reveals since then could have moved."""
        self._rules = rules
        self._kept = kept
        self._share = share
        self._even = share / experts
        self.weights = [1.0 / experts] * experts
        self.mistakes = [0] * experts
        """Of each expert, by what it had said when the prediction was served."""
        self.rounds = 0
        self.disagreements = 0
        """Rounds in which some experts erred and others did not."""
        self.all_erred = 0
        """Rounds in which all of them erred."""
        self.vote_mistakes = 0
        self.erred_weight = 0.0
        """What the experts that erred had weighed when the prediction was served, added up over the rounds."""
        self.delays = 0
        """The reveals that came between a prediction and its own, added up over the disagreements; not by rules 3."""
        self.late = 0.0
        """How far late labels can have moved the weight that erred, added up over the disagreements; by rules 3."""
        self.leaders = Leaders(experts)

    def observe(
        self,
        said: Sequence[int],
        truth: int,
        erred_weight: float,
        mistake: bool,
        delay: int,
        seen: int | None = None,
    ) -> None:
        """Take in a reveal: which class each expert had said, and the true one; `mistake` is that of the vote.

        `erred_weight` is what those who erred had weighed when the prediction was served, `delay` reveals and since
        `seen` disagreements ago; None if that is not known, and a rollback may have led back to before them.
        """
        self.rounds += 1
        right = said.count(truth)
        if right != len(said):
            self.erred_weight += erred_weight
            if mistake:
                self.vote_mistakes += 1
            mistakes = self.mistakes
            for at, label in enumerate(said):
                if label != truth:
                    mistakes[at] += 1
            if right:
                if self._rules < 3:
                    self.delays += delay
                else:
                    between = delay if seen is None else self.disagreements - seen
                    self.late += min(1.0, self._moved * (between if between >= 0 else delay))
                self.disagreements += 1
                self._move([1.0 if label == truth else self._kept for label in said])
            else:
                self.all_erred += 1
        if self.rounds == self.leaders.due:
            self.leaders.observe(self.leader, self.mistakes)

    def observe_rows(self, said: Classes, truths: Classes) -> Array:
        """Take in whole rounds, a row each of which class each expert said: the weights that each was served by.

        The same to the bit as one by one, but that the caller adds up `vote_mistakes`.
        """
        erred = said != truths[:, np.newaxis]
        wrong = np.add.reduce(erred, axis=1, dtype=np.int64)
        moving = (wrong > 0) & (wrong < len(self.weights))
        passed = [self.weights]
        for kept in np.where(erred[moving], self._kept, 1.0).tolist():
            self._move(kept)
            passed.append(self.weights)
        steps = np.cumsum(moving)
        weights: Array = np.array(passed)[steps - moving]
        erred_weights = np.zeros(len(said))
        for at, votes in enumerate(votes_of_rows(said, weights).T):
            is_first = (said[:, :at] != said[:, at : at + 1]).all(axis=1)
            erred_weights += votes * (erred[:, at] & is_first)
        self.erred_weight = float(np.add.accumulate(np.append(self.erred_weight, erred_weights))[-1])
        self.disagreements += len(passed) - 1
        self.all_erred += int(np.count_nonzero(wrong == len(self.weights)))
        mistakes = np.array(self.mistakes) + np.cumsum(erred, axis=0)
        while (at := self.leaders.due - self.rounds - 1) < len(erred):
            self.leaders.observe(leader_of(passed[steps[at]]), mistakes[at].tolist())
        self.mistakes = mistakes[-1].tolist()
        self.rounds += len(erred)
        return weights

    def _move(self, kept: Sequence[float]) -> None:
        """Let each expert keep this share of its weight, and make all add up to 1 again."""
        weights = [weight * share for weight, share in zip(self.weights, kept, strict=True)]
        total = 0.0
        for weight in weights:  # not `sum`, which Python 3.12 adds otherwise
            total += weight
        scale, even = (1.0 - self._share) / total, self._even
        self.weights = [scale * weight + even for weight in weights]

    @property
    def leader(self) -> int:
        """The expert that weighs most, the first among equals."""
        return leader_of(self.weights)

    @property
    def best_mistakes(self) -> int:
        """L*: the mistakes of the expert that made the fewest."""
        return min(self.mistakes)

    @property
    def regret_bound(self) -> float:
        """`erred_weight` is at most this above `best_mistakes`, on any stream; the smaller of two bounds.

        >>> hedge = Hedge(4, kept=0.5, share=0.0)
        >>> hedge.regret_bound  # the experts have not disagreed yet
        0
        """
        eta = -log(self._kept)
        price = log(len(self.weights)) - self.disagreements * log(1.0 - self._share)
        late = (eta / 4 + self._share) * self.delays + self.late
        by_range = price / eta + eta * self.disagreements / 8
        best = self.best_mistakes - self.all_erred
        by_best = (eta * best + price) / (1.0 - self._kept) - best
        return min(min(by_range, by_best) + late, self.disagreements - best)

    @property
    def _moved(self) -> float:
        """How far a disagreement can move a mean of numbers from 0 to 1: tanh(η/4) + α."""
        root = sqrt(self._kept)
        return (1.0 - root) / (1.0 + root) + self._share

    @property
    def mistake_bound(self) -> float:
        """The vote errs at most so often: only where an expert errs, and but for where all do only where half do."""
        most = 2.0 * (self.best_mistakes + self.regret_bound) - self.all_erred
        return min(most, float(self.disagreements + self.all_erred))

    def report(self, names: Sequence[str]) -> dict[str, Any]:
        """What `/stats` says of the experts with these names."""
        best, bound = self.best_mistakes, self.regret_bound
        panel = zip(names, self.mistakes, self.weights, strict=True)
        return {
            "panel": [
                {"name": name, "mistakes": mistakes, "weight": weight} for name, mistakes, weight in panel
            ],
            "leader": names[self.leader],
            "rounds": self.rounds,
            "disagreements": self.disagreements,
            "mistakes": self.vote_mistakes,
            "erred_weight": self.erred_weight,
            "regret": self.erred_weight - best,
            "regret_bound": bound,
            "mistake_bound": self.mistake_bound,
            "history": self.leaders.report(names),
        }

    COUNTS = ("rounds", "disagreements", "all_erred", "vote_mistakes")

    def state(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in self.COUNTS},
            **({"delays": self.delays} if self._rules < 3 else {"late": self.late}),
            "erred_weight": self.erred_weight,
            "weights": list(self.weights),
            "mistakes": list(self.mistakes),
            "leaders": self.leaders.state(),
        }

    def restore(self, state: Any) -> None:
        """Become what `state` was taken from; `saved.BadState` unless as many experts can have it."""
        name_of_late = "delays" if self._rules < 3 else "late"
        *counts, late, erred_weight, weights, mistakes, leaders = saved.fields(
            state, *self.COUNTS, name_of_late, "erred_weight", "weights", "mistakes", "leaders"
        )
        for name, count in zip(self.COUNTS, counts, strict=True):
            setattr(self, name, saved.whole(count, name, saved.ROUNDS_MAX))
        if self._rules < 3:
            self.delays = saved.whole(late, "delays")
        else:
            self.late = saved.real(late, "late", 0.0, float(self.disagreements))
        erring = self.disagreements + self.all_erred
        saved.check(erring <= self.rounds, "rounds", f"must be at least {erring}")
        self.erred_weight = saved.real(erred_weight, "erred_weight", 0.0, erring * (1.0 + ROUNDED))
        saved.check(self.vote_mistakes <= erring, "vote_mistakes", f"must be at most {erring}")
        for name, values in (("weights", weights), ("mistakes", mistakes)):
            saved.within(name, saved.items, values, len(self.weights))
        self.weights = [saved.real(w, f"weights[{at}]", self._least, 1.0) for at, w in enumerate(weights)]
        saved.check(abs(sum(self.weights) - 1.0) <= ROUNDED, "weights", "must add up to 1")
        self.mistakes = [
            saved.whole(m, f"mistakes[{at}]", erring, self.all_erred) for at, m in enumerate(mistakes)
        ]
        saved.within("leaders", self.leaders.restore, leaders, self.rounds, self.mistakes)

    @property
    def _least(self) -> float:
        """No weight is less: each step gives every expert its part of the share."""
        return self._even * (1.0 - ROUNDED)


def leader_of(weights: Sequence[float]) -> int:
    return weights.index(max(weights))


def votes_of_rows(said: Classes, weights: Array) -> Array:
    """Of each row and expert the weight for the class that it said: of all who said it, in their order.

    >>> votes_of_rows(np.array([[2, 0, 2]]), np.array([[0.5, 0.25, 0.125]])).tolist()
    [[0.625, 0.25, 0.625]]
    """
    return np.stack([in_order(weights * (said == one[:, np.newaxis])) for one in said.T], axis=1)


def in_order(rows: Array) -> Array:
    """The sum of each row, added from left to right."""
    total = np.zeros(len(rows))
    for column in rows.T:
        total += column
    return total
