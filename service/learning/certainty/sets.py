"""Sets of labels that hold the true one as often as asked, on any stream and however late labels come.

A class is ruled out if it is farther behind the best than a threshold q: a_y > q, where a_y is between 0 (the best) and
1. At each reveal q rises if the true label had been ruled out and falls a little if not: q += η (err - α), α = 1 -
coverage. That is the adaptive conformal inference of Gibbs and Candès (NeurIPS 2021) with a step that follows the
delay; docs/theory.md proves the distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from service.learning import saved
from service.learning.saved import Count, Part, Share
from service.learning.statistics.statistic import ratio
from service.learning.vectors import Array

STEP = 0.05
FIRST_THRESHOLD = 0.5
Threshold = Annotated[float, Meta(ge=-saved.COUNT_MAX, le=saved.COUNT_MAX)]


@dataclass(slots=True, eq=False, kw_only=True)
class Sets(Part):
    """The threshold of a model with a `coverage`, and what came of the sets that it served.

    Delays are counted in reveals. The step is `STEP`/√(D + 1), where D is the least 2^n - 1 that no delay so far has
    exceeded: it changes seldom, and each change begins another piece of the stream.

    >>> sets = Sets(wanted=0.9)
    >>> for number in range(1000):
    ...     sets.observe(sets.serve(np.array([0.0, 0.3])), truth=int(number % 5 == 0), classes=2, delay=0)
    >>> round(sets.report()["coverage"], 3), round(sets.report()["distance_max"], 4)
    (0.904, 0.0109)
    """

    IS_LIST = False
    SETTINGS = ("wanted",)

    covered: Count = 0
    delay_max: Count = 0
    first_threshold: Threshold = FIRST_THRESHOLD
    """The threshold at the beginning of this piece."""
    labels: Count = 0
    """How many labels there were in all the sets."""
    past_distance: Annotated[float, Meta(ge=0.0, le=saved.COUNT_MAX)] = 0.0
    """How far, at most, the sum of err - α over the earlier pieces is from 0."""
    rounds: Count = 0
    singles: Count = 0
    singles_wrong: Count = 0
    threshold: Threshold = FIRST_THRESHOLD
    wanted: Share = 0.0

    def __post_init__(self) -> None:
        for part, of in (("covered", "rounds"), ("singles", "rounds"), ("singles_wrong", "singles")):
            self.at_most(part, getattr(self, of))
        saved.check(not self.delay_max & (self.delay_max + 1), "delay_max", "must be a power of 2 less one")

    @property
    def step(self) -> float:
        return STEP / sqrt(self.delay_max + 1)

    def serve(self, distances: Array) -> list[int] | None:
        """The classes that are not ruled out; None if nothing is, not even a label that has not been seen yet.

        `distances` are between 0, for the best class, and 1. The list is empty while more labels were in their sets
        than asked for: then even the best class is ruled out for a round.
        """
        if self.threshold >= 1.0:
            return None
        return np.flatnonzero(distances <= self.threshold).tolist()

    def observe(self, served: list[int] | None, *, truth: int, classes: int, delay: int) -> None:
        """Take in a reveal: what `serve` had served, `delay` reveals ago, and the true one of the `classes` known."""
        size = classes if served is None else len(served)
        if delay > self.delay_max:
            self._begin_piece((1 << delay.bit_length()) - 1)
        covered = served is None or truth in served
        self.threshold += self.step * (self.wanted - covered)  # err - α is 1 - covered - (1 - wanted)
        self.rounds += 1
        self.covered += covered
        self.labels += size
        if size == 1:
            self.singles += 1
            self.singles_wrong += not covered

    def _begin_piece(self, delay_max: int) -> None:
        self.past_distance += abs(self.threshold - self.first_threshold) / self.step
        self.first_threshold = self.threshold
        self.delay_max = delay_max

    @property
    def distance_max(self) -> float:
        """How far the share of sets without the true label can be from 1 - `wanted`; docs/theory.md has the proof."""
        step, first = self.step, self.first_threshold
        overshoot = step * (self.delay_max + 1)
        up = max(1.0, first) + overshoot * self.wanted - first
        down = first - min(0.0, first) + overshoot * (1.0 - self.wanted)
        return min(1.0, (self.past_distance + max(up, down) / step) / self.rounds)

    def report(self) -> dict[str, Any]:
        return {
            "wanted": self.wanted,
            "rounds": self.rounds,
            "coverage": ratio(self.covered, self.rounds),
            "distance_max": self.distance_max if self.rounds else None,
            "mean_size": ratio(self.labels, self.rounds),
            "single_rate": ratio(self.singles, self.rounds),
            "single_error_rate": ratio(self.singles_wrong, self.singles),
        }

    def check(self, revealed: int, classes: int) -> None:
        """`saved.BadState` unless it can be of a model with so many reveals and classes."""
        self.at_most("rounds", revealed)
        self.at_most("labels", self.rounds * classes)
        # By the theorem q leaves [0, 1] by less than η (D + 1) in a piece, and D at least doubles from one to the next.
        farthest = 1.0 + 4.0 * self.step * (self.delay_max + 1)
        for name in ("threshold", "first_threshold"):
            saved.check(abs(getattr(self, name)) <= farthest, name, f"must be at most {farthest}")
