"""The probability that a served label is right, and how well such probabilities have fared.

Online Platt scaling: Gupta, Ramdas, ICML 2023. What a prediction is judged by is its lead: the gap between the best and
the second-best score, divided by itself plus the usual gap, so that it is between 0 and 1 whatever the scale of the
scores. p = σ(θ·u) with u = (2 lead, 1), and θ follows the log loss by Newton steps.

θ and the usual gap change with batches of reveals, which grow as the stream does: within one, the probabilities of many
rounds can be computed at once. What they have learned fades, so that they follow a stream that changes. The paper's
step (β = 0.1, from 0.01 times the identity) can be slow on streams of a few hundred rounds; `bench/calibration.py`
measures it and others, and docs/theory.md says what came of that.

The arithmetic over a block of rounds gives the same bits as one by one.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from math import frexp, log
from typing import Any, ClassVar

import numpy as np

from service.learning import saved
from service.learning.certainty.anytime import DIGITS
from service.learning.functions import logistic, logistic_of_all
from service.learning.statistics.cells import (
    COUNT_BITS,
    COUNT_MASK,
    add,
    add_counts,
    no_cells,
    restore_cells,
)
from service.learning.statistics.statistic import (
    BATCH_MAX,
    GROUP,
    Asked,
    Flags,
    RevealedBlock,
    batch_size,
    end_after,
    ratio,
)
from service.learning.vectors import Array

STEEPNESS = 2.0
SLOPE_GRID, GRADIENT_GRID = 1.5 * 2.0**32, 1.5 * 2.0**31
"""Added and taken off again, they round to multiples of 2^-20 and 2^-21. The sums over a batch of at most 1,024 such
numbers (slopes up to 2, gradients up to 1) and of their products need no more than 52 bits: they are exact, and so the
same in any order."""

GRIDS = np.array([[SLOPE_GRID], [GRADIENT_GRID]])


FEW = 16
"""So many rounds are faster without arrays."""

Sums = tuple[float, float, float, float, float]


def leads_of(gaps: Array, usual: float) -> Array:
    """How far ahead the best is by each of these gaps: as `Calibration.standing` says it of one."""
    if usual <= 0.0:
        return (gaps > 0.0).astype(np.float64)
    ahead = np.maximum(gaps, 0.0)
    return np.divide(ahead, ahead + usual, out=ahead)


def served_and_sums(
    gaps: Array, right: Flags, usual: float, slope: float, offset: float
) -> tuple[Array, Sums]:
    """The probabilities of some rounds of a batch, and what `gradient_sums` tells of them."""
    if len(gaps) <= FEW:
        return _of_few(gaps.tolist(), right.tolist(), usual, slope, offset)
    u = leads_of(gaps, usual)
    u *= STEEPNESS
    x = u * slope
    x += offset
    probabilities = logistic_of_all(x)
    return probabilities, gradient_sums(u, probabilities, right)


def _of_few(
    gaps: list[float], right: list[bool], usual: float, slope: float, offset: float
) -> tuple[Array, Sums]:
    probabilities = []
    g_slope = g_offset = h_slope = h_both = h_offset = 0.0
    for gap, is_right in zip(gaps, right, strict=True):
        u = STEEPNESS * (gap / (gap + usual)) if gap > 0.0 else 0.0
        probability = logistic(slope * u + offset)
        probabilities.append(probability)
        of_offset = probability - is_right
        of_slope = (of_offset * u + SLOPE_GRID) - SLOPE_GRID
        of_offset = (of_offset + GRADIENT_GRID) - GRADIENT_GRID
        g_slope += of_slope
        g_offset += of_offset
        h_slope += of_slope * of_slope
        h_both += of_slope * of_offset
        h_offset += of_offset * of_offset
    return np.array(probabilities), (g_slope, g_offset, h_slope, h_both, h_offset)


def gradient_sums(u: Array, probabilities: Array, right: Flags) -> Sums:
    """The sums over a batch of slopes, gradients, squares of slopes, products of both, and squares of gradients."""
    steps = np.empty((2, len(u)))
    slopes, gradients = steps
    np.subtract(probabilities, right, out=gradients)
    np.multiply(gradients, u, out=slopes)
    steps += GRIDS
    steps -= GRIDS
    (h_slope, h_both), (_, h_offset) = np.dot(steps, steps.T).tolist()
    g_slope, g_offset = np.add.reduce(steps, axis=1).tolist()
    return g_slope, g_offset, h_slope, h_both, h_offset


def sum_after(start: float, numbers: Array) -> float:
    """The sum of numbers one after the other, from `start` on. It takes the place of the numbers.

    >>> sum_after(1.0, np.array([2.0, 3.0]))
    6.0
    """
    numbers[0] += start
    return float(np.add.accumulate(numbers, out=numbers)[-1])


def group_products(so_far: float, first: int, size: int, numbers: Array) -> list[float]:
    """The products of groups of `size` numbers, each one after the other; of the last group it may be those so far.

    The first group has `first` numbers before these, whose product is `so_far`.

    >>> group_products(3.0, 1, 2, np.array([2.0, 5.0, 7.0, 4.0]))
    [6.0, 35.0, 4.0]
    """
    end = first + len(numbers)
    factors = np.ones(-(-end // size) * size)
    factors[first:end] = numbers
    factors[0] *= so_far  # 1 if a group begins here; else a 1 stands there
    return np.multiply.accumulate(factors.reshape(-1, size), axis=1)[:, -1].tolist()  # type: ignore[no-any-return]


BINS = 10
BETA = 0.15
FIRST_CURVATURE = 6.0
MEMORY = 12_288
"""Of A, each batch keeps all but its own share of so many reveals: with a shorter memory, streams that stay the same
lose more than 1% of log loss."""
SCALE_SHARE_MIN = 0.01
"""A reveal's share of the usual gap is never less than this, so that the usual gap follows growing weights."""
(SLOPE, OFFSET, A_SLOPE, A_BOTH, A_OFFSET, SCALE, SEEN, SERVED, BRIER, PRODUCT, EXPONENT, OF_GROUP,
 G_SLOPE, G_OFFSET, H_SLOPE, H_BOTH, H_OFFSET, GAPS) = range(18)  # fmt: skip
"""The numbers of the state: θ; the matrix of its Newton steps; the usual gap; reveals seen, and those of them that were
served with a probability; their Brier sum; the product of the probabilities of what came true, as a mantissa and an
exponent of 2, and that of the reveals since the last multiple of GROUP; and the sums of this batch: gradients, their
products, and gaps."""

START = (0.5, -0.5, FIRST_CURVATURE, 0.0, FIRST_CURVATURE, *[0.0] * 4, 1.0, 0.0, 1.0, *[0.0] * 6)
LIMITS = {
    **dict.fromkeys((SCALE, GAPS), (0.0, saved.SCORE_MAX)),
    **dict.fromkeys((SEEN, SERVED, BRIER), (0.0, float(saved.ROUNDS_MAX))),
    A_SLOPE: (FIRST_CURVATURE, FIRST_CURVATURE + STEEPNESS * STEEPNESS * saved.ROUNDS_MAX),
    A_BOTH: (-STEEPNESS * saved.ROUNDS_MAX, STEEPNESS * saved.ROUNDS_MAX),
    A_OFFSET: (FIRST_CURVATURE, FIRST_CURVATURE + saved.ROUNDS_MAX),
    G_SLOPE: (-STEEPNESS * BATCH_MAX, STEEPNESS * BATCH_MAX),
    G_OFFSET: (-BATCH_MAX, BATCH_MAX),
    H_SLOPE: (0.0, STEEPNESS * STEEPNESS * BATCH_MAX),
    H_BOTH: (-STEEPNESS * BATCH_MAX, STEEPNESS * BATCH_MAX),
    H_OFFSET: (0.0, BATCH_MAX),
    **dict.fromkeys((PRODUCT, OF_GROUP), (1e-300, 1.0)),
    EXPONENT: (-float(saved.COUNT_MAX), 1.0),  # 1 is ½ · 2¹, while no reveal had a probability
}
"""What the numbers can be at most; the others have `saved.WEIGHT_MAX`."""
Standing = tuple[float, float, float | None]
"""How far ahead the class of a prediction was when it was served: how far its score was above the second-best, its
lead, and the chance that it is right, None before the first reveal."""

NO_SUMS = array("d", [0.0] * (GAPS + 1 - G_SLOPE))


class Calibration:
    """Turns leads into probabilities, learns from reveals how, and counts what came of those that were served.

    >>> calibration = Calibration()
    >>> calibration.standing(1.0)
    (1.0, 1.0, None)
    >>> for gap, right in [(1.0, True), (0.1, False), (2.0, True), (0.2, False)] * 20:
    ...     calibration.observe(*calibration.standing(gap), right)
    >>> [round(calibration.standing(gap)[2], 2) for gap in (0.1, 2.0)]
    [0.07, 0.97]
    """

    __slots__ = ("_cells", "_due", "_numbers", "forgets")

    DEFINITIONS: ClassVar[Mapping[str, str]] = {
        "calibration.rounds": "The reveals whose label was served with a `probability`.",
        "calibration.bins": "Those by the probability that was served, in ten bins of a tenth each: how many there are "
        "and the share of them whose label was right. It is within its bin if the probabilities can be trusted.",
        "calibration.brier": "The mean of (p - r)², where p is the probability that was served and r is 1 if the label "
        "was right, else 0. Always serving the share of right labels would give that share times one minus it.",
        "calibration.log_loss": "The mean of -ln p where the label was right, and of -ln(1 - p) where it was not.",
    }

    def __init__(self, *, forgets: bool = True) -> None:
        self.forgets = forgets
        """Whether it follows streams that change. By rules 1 the steps of θ only ever become smaller."""
        self._numbers: array[float] | None = None  # made with the first reveal: many models are young
        self._cells: array[int] = no_cells()
        self._due = 1
        """With which reveal the current group or batch ends, whichever ends first."""

    def standing(self, gap: float) -> Standing:
        """That of a prediction with this gap between its best scores, now.

        The lead says how far the best class is ahead: 0 for a tie, one half for the usual gap, and never more than 1.
        """
        n = self._numbers
        if n is None:
            return gap, 1.0 if gap > 0.0 else 0.0, None
        lead = gap / (gap + n[SCALE]) if gap > 0.0 else 0.0
        return gap, lead, logistic(n[SLOPE] * (STEEPNESS * lead) + n[OFFSET])

    def leads(self, behind: Array) -> Array:
        """The leads of several gaps: how far each class is behind the best."""
        return leads_of(behind, self.usual_gap)

    @property
    def usual_gap(self) -> float:
        """The mean gap of the reveals, later ones weighing more; 0 before the first."""
        return self._numbers[SCALE] if self._numbers else 0.0

    def observe(
        self, gap: float, lead: float, probability: float | None, right: bool, is_late: bool = True
    ) -> None:
        """Take in a reveal: what its prediction was served with, and whether the label was right.

        Unless it `is_late`, its probability is what would be served now.
        """
        n = self._numbers
        if n is None:
            n = self._numbers = array("d", START)
        u = STEEPNESS * lead
        now = logistic(n[SLOPE] * u + n[OFFSET]) if is_late or probability is None else probability
        if probability is not None:
            distance = probability - right
            n[SERVED] += 1.0
            n[BRIER] += distance * distance
            n[OF_GROUP] *= probability if right else 1.0 - probability
            add(self._cells, 2 * int(probability * BINS) + right)
        gradient = now - right
        slope = (gradient * u + SLOPE_GRID) - SLOPE_GRID
        gradient = (gradient + GRADIENT_GRID) - GRADIENT_GRID
        n[G_SLOPE] += slope
        n[G_OFFSET] += gradient
        n[H_SLOPE] += slope * slope
        n[H_BOTH] += slope * gradient
        n[H_OFFSET] += gradient * gradient
        n[GAPS] += gap
        n[SEEN] = seen = n[SEEN] + 1.0
        if seen >= self._due:
            self._complete(n, int(seen))

    def observe_rows(self, block: RevealedBlock) -> None:
        right = ~block.mistaken
        served: list[Array] = []
        """The probabilities of rounds that are learned and not yet counted."""
        done = 0
        while done < len(right):
            n = self._numbers
            seen = int(n[SEEN]) if n is not None else 0
            size = batch_size(seen + 1)
            many = min(size - seen % size, len(right) - done)
            gaps = block.gaps[done : done + many]
            if n is None or many < 8:  # few are faster one by one
                block.probabilities.extend(self._count(served, right[:done]))
                served = []
                for gap, is_right in zip(gaps.tolist(), right[done : done + many].tolist(), strict=True):
                    standing = self.standing(gap)
                    block.probabilities.append(standing[2])
                    self.observe(*standing, is_right, is_late=False)
            else:
                served.append(self._learn_batch(n, gaps, right[done : done + many]))
            done += many
        block.probabilities.extend(self._count(served, right))

    def _learn_batch(self, n: array[float], gaps: Array, right: Flags) -> Array:
        """Learn from rounds of the same batch; the probabilities that they were served, which are yet to be counted."""
        probabilities, sums = served_and_sums(gaps, right, n[SCALE], n[SLOPE], n[OFFSET])
        for at, more in enumerate(sums, G_SLOPE):
            n[at] += more
        n[GAPS] = sum_after(n[GAPS], gaps.copy())
        n[SEEN] += len(gaps)
        seen = int(n[SEEN])
        size = batch_size(seen)
        if not seen % size:
            self._step(n, seen, size)
        return probabilities

    def _count(self, served: list[Array], right: Flags) -> list[float | None]:
        """Count what came of the probabilities of the last rounds that were learned; `right` ends with theirs."""
        n = self._numbers
        if n is None or not served:
            return []
        probabilities = np.concatenate(served) if len(served) > 1 else served[0]
        right = right[-len(probabilities) :]
        distances = probabilities - right
        n[SERVED] += len(right)
        n[BRIER] = sum_after(n[BRIER], distances * distances)
        kinds = (probabilities * BINS).astype(np.int64)
        kinds *= 2
        kinds += right
        add_counts(self._cells, np.bincount(kinds).tolist())
        seen = int(n[SEEN])
        came_true = np.abs(~right - probabilities)
        products = group_products(n[OF_GROUP], (seen - len(right)) % GROUP, GROUP, came_true)
        of_group = products.pop() if seen % GROUP else 1.0
        for product in products:
            self._end_group(n, product)
        n[OF_GROUP] = of_group
        self._due = end_after(seen)
        return probabilities.tolist()  # type: ignore[no-any-return]

    def _complete(self, n: array[float], seen: int) -> None:
        """End the group, the batch or both that are complete with this reveal."""
        if not seen % GROUP:
            self._end_group(n, n[OF_GROUP])
        size = batch_size(seen)
        if not seen % size:
            self._step(n, seen, size)
        self._due = end_after(seen)

    def _end_group(self, n: array[float], product: float) -> None:
        n[PRODUCT], exponent = frexp(n[PRODUCT] * product)
        n[EXPONENT] += exponent
        n[OF_GROUP] = 1.0

    def _step(self, n: array[float], seen: int, size: int) -> None:
        """End a batch: one Newton step of θ by its gradients, and its gaps become part of the usual gap."""
        if self.forgets:
            kept = 1.0 - size / MEMORY
            for at in (A_SLOPE, A_BOTH, A_OFFSET):
                n[at] = START[at] + kept * (n[at] - START[at])
        for of_matrix, of_batch in ((A_SLOPE, H_SLOPE), (A_BOTH, H_BOTH), (A_OFFSET, H_OFFSET)):
            n[of_matrix] += n[of_batch]
        # A is its start plus sums of squares: its determinant is at least the second of these two. Rounding may make
        # the first less, and even 0, in a long stream whose leads are all alike.
        determinant = max(
            n[A_SLOPE] * n[A_OFFSET] - n[A_BOTH] * n[A_BOTH],
            FIRST_CURVATURE * (n[A_SLOPE] + n[A_OFFSET] - FIRST_CURVATURE),
        )
        n[SLOPE] -= (n[A_OFFSET] * n[G_SLOPE] - n[A_BOTH] * n[G_OFFSET]) / determinant / BETA
        n[OFFSET] -= (n[A_SLOPE] * n[G_OFFSET] - n[A_BOTH] * n[G_SLOPE]) / determinant / BETA
        if self.forgets and n[SLOPE] < 0.0:  # a larger gap never makes a label less likely
            n[OFFSET] += n[A_BOTH] / n[A_OFFSET] * n[SLOPE]
            n[SLOPE] = 0.0
        share = min(1.0, max(SCALE_SHARE_MIN * size, size / seen))
        n[SCALE] += share * (n[GAPS] / size - n[SCALE])
        n[G_SLOPE:] = NO_SUMS

    def report(self, asked: Asked) -> dict[str, Any]:
        counts = [[0, 0] for _ in range(BINS)]
        for cell in self._cells:
            kind = cell >> COUNT_BITS
            counts[kind >> 1][kind & 1] = cell & COUNT_MASK
        bins = [
            {"low": at / BINS, "high": (at + 1) / BINS, "rounds": sum(pair), "right_rate": ratio(pair[1], sum(pair))}
            for at, pair in enumerate(counts)
        ]  # fmt: skip
        n = self._numbers
        if n is None or not n[SERVED]:
            return {"calibration": {"rounds": 0, "bins": bins, "brier": None, "log_loss": None}}
        loss = -(log(n[PRODUCT]) + log(n[OF_GROUP]) + n[EXPONENT] * log(2)) / n[SERVED]
        brier, rounds = n[BRIER] / n[SERVED], int(n[SERVED])
        return {
            "calibration": {"rounds": rounds, "bins": bins, "brier": brier, "log_loss": round(loss, DIGITS)}
        }

    def state(self) -> list[Any]:
        return [self._numbers.tolist() if self._numbers else [], self._cells.tolist()]

    @classmethod
    def restore(cls, state: list[Any], *, forgets: bool = True) -> Calibration:
        calibration = cls(forgets=forgets)
        numbers, cells = saved.items(state, 2)
        saved.check(type(numbers) is list, "[0]", "must be a list")
        if numbers:
            for at, number in enumerate(saved.items(numbers, len(START))):
                saved.real(number, f"[0][{at}]", *LIMITS.get(at, (-saved.WEIGHT_MAX, saved.WEIGHT_MAX)))
            calibration._numbers = array("d", numbers)
            calibration._due = end_after(int(numbers[SEEN]))
        calibration._cells = restore_cells(cells, "[1]", 2 * BINS, 2 * BINS)
        return calibration

    def check(self, counted: Asked) -> None:
        n = self._numbers or START
        saved.check(n[SEEN] <= counted.revealed, f"[0][{SEEN}]", f"must be at most {counted.revealed}")
        served = sum([cell & COUNT_MASK for cell in self._cells])
        saved.check(n[SERVED] == served, f"[0][{SERVED}]", f"must be {served}")
        saved.check(n[BRIER] <= served, f"[0][{BRIER}]", f"must be at most {served}")
