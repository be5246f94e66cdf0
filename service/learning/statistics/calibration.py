"""The probability that a served label is right, and how well such probabilities have fared.

Online Platt scaling: Gupta, Ramdas, ICML 2023. What a prediction is judged by is its lead: the gap between the best and
the second-best score, divided by itself plus the usual gap, so that it is between 0 and 1 whatever the scale of the
scores. p = σ(θ·u) with u = (4 lead, 1), and θ follows the log loss by Newton steps.

θ and the usual gap change with batches of reveals, which grow as the stream does: within one, the probabilities of many
rounds can be computed at once. The paper's step (β = 0.1, from 0.01 times the identity) can be slow on streams of a
few hundred rounds; `bench/calibration.py` measures it and others, and docs/theory.md says what came of that.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from math import frexp, log
from typing import Any, ClassVar

import numpy as np

from service.learning import saved
from service.learning.certainty.anytime import DIGITS
from service.learning.certainty.logistic import logistic, logistic_of_all
from service.learning.statistics.cells import COUNT_BITS, COUNT_MASK, add, no_cells, restore_cells
from service.learning.statistics.rates import ratio
from service.learning.statistics.statistic import Asked, Flags, RevealedBlock
from service.learning.vectors import Array

BINS = 10
BETA = 0.3
FIRST_CURVATURE = 1 / 0.3
STEEPNESS = 4.0
SCALE_SHARE_MIN = 0.01
"""A reveal's share of the usual gap is never less than this, so that the usual gap follows growing weights."""
GROUP = 32
"""The probabilities of so many reveals are multiplied before the product is split into mantissa and exponent: no
probability is below 1e-7, so none of these products leaves the range of numbers."""

BATCH_MAX = 1024.0

(SLOPE, OFFSET, A_SLOPE, A_BOTH, A_OFFSET, SCALE, SEEN, SERVED, BRIER, PRODUCT, EXPONENT, OF_GROUP,
 G_SLOPE, G_OFFSET, H_SLOPE, H_BOTH, H_OFFSET, GAPS) = range(18)  # fmt: skip
"""The numbers of the state: θ; the matrix of its Newton steps; the usual gap; reveals seen, and those of them that were
served with a probability; their Brier sum; the product of the probabilities of what came true, as a mantissa and an
exponent of 2, and that of the reveals since the last multiple of GROUP; and the sums of this batch: gradients, their
products, and gaps."""

START = (1.0, -1.0, FIRST_CURVATURE, 0.0, FIRST_CURVATURE, *[0.0] * 4, 1.0, 0.0, 1.0, *[0.0] * 6)
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
    EXPONENT: (-float(saved.COUNT_MAX), 0.0),
}
"""What the numbers can be at most; the others have `saved.WEIGHT_MAX`."""
Standing = tuple[float, float, float | None]
"""How far ahead the class of a prediction was when it was served: how far its score was above the second-best, its
lead, and the chance that it is right, None before the first reveal."""

NO_SUMS = array("d", [0.0] * (GAPS + 1 - G_SLOPE))


def batch_size(seen: int) -> int:
    """How many reveals are in the batch of the reveal with this number: batches end at multiples of their size.

    >>> [batch_size(seen) for seen in (32, 33, 256, 257, 4096, 4097, 16_384, 16_385)]
    [1, 8, 8, 32, 32, 256, 256, 1024]
    """
    if seen <= 4096:
        return 1 if seen <= 32 else 8 if seen <= 256 else 32
    return 256 if seen <= 16_384 else 1024


def _end_after(seen: int) -> int:
    """The first reveal after this one that ends a group or a batch.

    >>> [_end_after(seen) for seen in (0, 1, 32, 39, 40, 256, 287, 5000)]
    [1, 2, 40, 40, 48, 288, 288, 5024]
    """
    size = min(GROUP, batch_size(seen + 1))
    return seen - seen % size + size


class Calibration:
    """Turns leads into probabilities, learns from reveals how, and counts what came of those that were served.

    >>> calibration = Calibration()
    >>> calibration.standing(1.0)
    (1.0, 1.0, None)
    >>> for gap, right in [(1.0, True), (0.1, False), (2.0, True), (0.2, False)] * 20:
    ...     calibration.observe(*calibration.standing(gap), right)
    >>> [round(calibration.standing(gap)[2], 2) for gap in (0.1, 2.0)]
    [0.04, 0.99]
    """

    __slots__ = ("_cells", "_due", "_numbers")

    DEFINITIONS: ClassVar[Mapping[str, str]] = {
        "calibration.rounds": "The reveals whose label was served with a `probability`.",
        "calibration.bins": "Those by the probability that was served, in ten bins of a tenth each: how many there are "
        "and the share of them whose label was right. It is within its bin if the probabilities can be trusted.",
        "calibration.brier": "The mean of (p - r)², where p is the probability that was served and r is 1 if the label "
        "was right, else 0. Always serving the share of right labels would give that share times one minus it.",
        "calibration.log_loss": "The mean of -ln p where the label was right, and of -ln(1 - p) where it was not.",
    }

    def __init__(self) -> None:
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
        return np.divide(behind, behind + self.usual_gap, out=np.zeros(len(behind)), where=behind > 0.0)

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
        slope = gradient * u
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
        done = 0
        while done < len(right):
            n = self._numbers
            seen = int(n[SEEN]) if n is not None else 0
            size = batch_size(seen + 1)
            many = min(size - seen % size, len(right) - done)
            gaps = block.gaps[done : done + many]
            if n is None or many < 8:  # few are faster one by one
                for gap, is_right in zip(gaps.tolist(), right[done : done + many].tolist(), strict=True):
                    standing = self.standing(gap)
                    block.probabilities.append(standing[2])
                    self.observe(*standing, is_right, is_late=False)
            else:
                block.probabilities.extend(self._observe_batch(n, gaps, right[done : done + many]))
            done += many

    def _observe_batch(self, n: array[float], gaps: Array, right: Flags) -> list[float | None]:
        """Take in rounds of the same batch, to the same bit as one by one; the probabilities that they were served."""
        u = STEEPNESS * self.leads(gaps)
        probabilities = logistic_of_all(n[SLOPE] * u + n[OFFSET])
        gradients = probabilities - right
        slopes = gradients * u
        squares = gradients * gradients
        terms = np.empty((len(gaps) + 1, 7))
        terms[0] = (n[BRIER], *n[G_SLOPE:])
        for at, column in enumerate(
            (squares, slopes, gradients, slopes * slopes, slopes * gradients, squares, gaps)
        ):
            terms[1:, at] = column
        n[BRIER], *sums = np.add.accumulate(terms, axis=0)[-1].tolist()
        n[G_SLOPE:] = array("d", sums)
        n[SERVED] += len(gaps)
        kinds = np.bincount(2 * (probabilities * BINS).astype(np.int64) + right)
        for kind in np.flatnonzero(kinds).tolist():
            add(self._cells, kind, count=int(kinds[kind]))
        self._multiply(n, np.where(right, probabilities, 1.0 - probabilities))
        return probabilities.tolist()  # type: ignore[no-any-return]

    def _multiply(self, n: array[float], true: Array) -> None:
        """Count reveals by the probabilities of what came true: a column for each group, all multiplied at once."""
        first = int(n[SEEN]) % GROUP
        groups = (first + len(true) + GROUP - 1) // GROUP
        columns = np.ones(groups * GROUP)
        columns[first : first + len(true)] = true
        columns[0] *= n[OF_GROUP]  # 1 if a group begins here, else the product so far and a 1
        products = np.multiply.accumulate(columns.reshape(groups, GROUP), axis=1)[:, -1].tolist()
        left = len(true)
        for product in products:
            n[OF_GROUP] = product
            rounds = min(GROUP - first, left)
            n[SEEN] += rounds
            if n[SEEN] >= self._due:
                self._complete(n, int(n[SEEN]))
            left, first = left - rounds, 0

    def _complete(self, n: array[float], seen: int) -> None:
        """End the group, the batch or both that are complete with this reveal."""
        if not seen % GROUP:
            n[PRODUCT], exponent = frexp(n[PRODUCT] * n[OF_GROUP])
            n[EXPONENT] += exponent
            n[OF_GROUP] = 1.0
        size = batch_size(seen)
        if not seen % size:
            self._step(n, seen, size)
        self._due = _end_after(seen)

    def _step(self, n: array[float], seen: int, size: int) -> None:
        """End a batch: one Newton step of θ by its gradients, and its gaps become part of the usual gap."""
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
        return {
            "calibration": {
                "rounds": int(n[SERVED]),
                "bins": bins,
                "brier": n[BRIER] / n[SERVED],
                "log_loss": round(loss, DIGITS),
            }
        }

    def state(self) -> list[Any]:
        return [self._numbers.tolist() if self._numbers else [], self._cells.tolist()]

    @classmethod
    def restore(cls, state: list[Any]) -> Calibration:
        calibration = cls()
        numbers, cells = saved.items(state, 2)
        saved.check(type(numbers) is list, "[0]", "must be a list")
        if numbers:
            for at, number in enumerate(saved.items(numbers, len(START))):
                saved.real(number, f"[0][{at}]", *LIMITS.get(at, (-saved.WEIGHT_MAX, saved.WEIGHT_MAX)))
            calibration._numbers = array("d", numbers)
            calibration._due = _end_after(int(numbers[SEEN]))
        calibration._cells = restore_cells(cells, "[1]", 2 * BINS, 2 * BINS)
        return calibration

    def check(self, counted: Asked) -> None:
        n = self._numbers or START
        saved.check(n[SEEN] <= counted.revealed, f"[0][{SEEN}]", f"must be at most {counted.revealed}")
        served = sum([cell & COUNT_MASK for cell in self._cells])
        saved.check(n[SERVED] == served, f"[0][{SERVED}]", f"must be {served}")
        saved.check(n[BRIER] <= served, f"[0][{BRIER}]", f"must be at most {served}")
