"""Passive-aggressive learners: the smallest change that gives an example the margin 1, or part of it.

Crammer, Dekel, Keshet, Shalev-Shwartz, Singer: Online passive-aggressive algorithms, JMLR 7, 2006.
The bias constant is an entry of z like any other, so it counts in ‖z‖².
"""

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np

from service.learning.learners.linear import MOVE_MAX, Linear, some
from service.learning.vectors import NEGLIGIBLE, Array, Numbers, RowIndex, Vector


def pa_step(loss: Numbers, norm_sq: float, weight: float = 1.0) -> Numbers:
    """The step that removes the whole loss, `weight` times.

    >>> pa_step(1.0, 4.0)
    0.25
    """
    return weight * (loss / norm_sq)


def pa1_step(loss: Numbers, norm_sq: float, weight: float = 1.0, *, C: float) -> Numbers:
    """The step that removes the loss, at most C for a weight of 1.

    >>> pa1_step(1.0, 4.0, C=0.1), pa1_step(1.0, 4.0, 2.0, C=0.1)
    (0.1, 0.2)
    """
    step = loss / norm_sq
    return min(weight * C, step) if isinstance(step, float) else np.minimum(weight * C, step)


def pa2_step(loss: Numbers, norm_sq: float, weight: float = 1.0, *, C: float) -> Numbers:
    """The step that removes the loss in part, the less the smaller C and the weight are.

    >>> pa2_step(1.0, 4.0, C=0.125)
    0.125
    """
    softness = weight * C
    return (
        loss / (norm_sq + 0.5 / softness) if softness else 0.0 * loss
    )  # which the smallest weights make of it


class PassiveAggressive(Linear):
    """w += τ y z while the loss max(0, 1 - y w·z) is above 0; the zero vector teaches nothing.

    Even without a C the weights cannot run away: the whole step leaves the part of w across z as it is and
    sets the part along z to 1/‖z‖, so that ‖w‖² grows by at most 1/‖z‖². With weights above 2 PA goes beyond that and
    can run away: a step longer than `MOVE_MAX` is not taken.
    """

    __slots__ = ("_step",)

    def __init__(self, step: Callable[[Numbers, float, float], Numbers]) -> None:
        super().__init__()
        self._step = step

    def may_change(self, scores: Numbers, labels: Numbers) -> Any:
        return labels * scores < 1.0

    def change(
        self, planes: Array, z: Vector, rows: RowIndex, scores: Numbers, labels: Numbers, weight: float = 1.0
    ) -> bool:
        norm_sq = z.norm_sq()
        if norm_sq < NEGLIGIBLE:
            return False
        steps = self._step(1.0 - labels * scores, norm_sq, weight)
        if weight > 1.0:
            moves = np.flatnonzero(steps * sqrt(norm_sq) <= MOVE_MAX)
            if not len(moves):
                return False
            if not isinstance(rows, int):
                rows, steps, labels = some(moves, rows, steps, labels)
        self.updates[rows] += 1
        z.add_to_rows(planes[0], rows, labels * steps)
        return True
