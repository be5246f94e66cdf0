"""Which class was served for which: the confusion matrix, what follows from it, and two trivial baselines.

A class's own pair counts its reveals (its support), the other pairs the mistakes; what was right is the rest.
Pairs of the first 8 classes lie in a flat array that grows by appending (`near`), other pairs in cells (`far`,
see `cells`). Once there are 4,096 of these, a new kind of mistake is counted by its two classes apart. So
supports, precisions and recalls are exact for any number of classes, and up to 50 so is the whole matrix. With k
classes all this is at most 8 bytes times 64 + 4,096 + 3k: 57 KB at 1,000 classes.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from service.learning import saved
from service.learning.statistics.cells import (
    COUNT_BITS,
    COUNT_MASK,
    KIND_BITS,
    add,
    no_cells,
    restore_cells,
)
from service.learning.statistics.statistic import Asked, Flags, RevealedBlock, ratio

NEAR_CLASSES = 8
CELLS_MAX = 4096
MATRIX_CLASSES_MAX = 50
LARGEST_MAX = 100

# A far cell's kind is its row, the true class, and its column, the served one. Column `NONE` of a row counts its
# mistakes that stand in no column: nothing could be served, or the pair has no cell; row `NONE` has the latter by
# what was served.
ROW_BITS = 12
COLUMN_MASK = (1 << ROW_BITS) - 1
CLASSES_MAX = NONE = COLUMN_MASK


def near_index(truth: int, served: int) -> int:
    """Where a pair is counted: pairs are numbered by their larger class, so that a new class moves none.

    >>> [[near_index(truth, served) for served in range(3)] for truth in range(3)]
    [[0, 1, 4], [3, 2, 5], [8, 7, 6]]
    """
    return served * served + truth if served > truth else truth * truth + 2 * truth - served


NEAR_PAIRS = sorted(
    ((truth, served) for truth in range(NEAR_CLASSES) for served in range(NEAR_CLASSES)),
    key=lambda pair: near_index(*pair),
)


def kappa(right: int, right_by_chance: float, rounds: int) -> float | None:
    """How much of what chance gets wrong is got right: 1 at best, None where chance gets nothing wrong.

    >>> kappa(3, 2, 4), kappa(4, 4, 4)
    (0.5, None)
    """
    return ratio(right - right_by_chance, rounds - right_by_chance)


class Confusion:
    """The confusion matrix of a stream whose classes may grow, and the baselines that a model should beat.

    The baselines are MOA's: `majority` answers with the commonest class so far, this reveal's included, the
    lowest on a tie; `no change` answers with the class that had been revealed last at the prediction, at first class 0.

    >>> confusion = Confusion()
    >>> for truth, served in [(0, 0), (1, 0), (1, 1), (1, -1)]:
    ...     confusion.observe(truth, served)
    >>> confusion.report(Asked(now_us=0, classes=2, revealed=4, mistakes=2))["confusion"]
    {'matrix': [[1, 0], [1, 1]]}
    """

    __slots__ = ("far", "last", "majority", "majority_right", "majority_support", "near", "no_change_right")

    DEFINITIONS: ClassVar[Mapping[str, str]] = {
        "confusion.matrix": "How often each class (row) was served as each class (column). A reveal for which no label "
        "could be served yet stands in no column.",
        "confusion.largest": "Beyond 50 classes, where the matrix is `null`: the 100 commonest confusions as `true` "
        "and `served`, both labels, and `count`. Only the first 4,096 different confusions are counted.",
        "support": "Reveals of this class.",
        "precision": "Of the reveals for which this class was served, the part of which it was the truth.",
        "recall": "Of the reveals of this class, the part for which it was served.",
        "f1": "2 × right / (support + served), the harmonic mean of precision and recall; 0 if the class came but was "
        "never got right.",
        "majority_error_rate": "The error of answering with the commonest class so far, this reveal's label already "
        "counted, the earlier class on a tie.",
        "no_change_error_rate": "The error of answering with the label that had been revealed last when the prediction "
        "was served (the first class at first).",
        "kappa": "(p − q) / (1 − q), where q = Σ over classes of support × served / n²: the accuracy of answering by "
        "chance with the same frequencies.",
        "kappa_m": "(p − q) / (1 − q), where q is the accuracy of the majority baseline.",
        "kappa_t": "(p − q) / (1 − q), where q is the accuracy of the no-change baseline.",
    }

    def __init__(self) -> None:
        self.near: array[int] = array("q")
        self.far: array[int] | None = None
        self.last = 0
        self.no_change_right = 0
        self.majority = 0
        self.majority_support = 0
        self.majority_right = 0

    def observe(self, truth: int, served: int, no_change: int | None = None) -> None:
        """Count one reveal; `served` is -1 where no label could be. `no_change` is what that baseline answers, None for
        the class revealed last.

        Nobody gets more than `CLASSES_MAX` classes, but labels that are new at the same moment may get a few
        past it. An event that is in the journal must be counted, so those go with the last class.
        """
        if truth >= CLASSES_MAX or served >= CLASSES_MAX:
            truth, served = min(truth, CLASSES_MAX - 1), min(served, CLASSES_MAX - 1)
        near = truth < NEAR_CLASSES
        support = self._add_near(truth * truth + truth) if near else self._add_far(truth, truth)
        if served != truth:
            self._observe_wrong(truth, served)
        if truth == (self.last if no_change is None else no_change):
            self.no_change_right += 1
        self.last = truth
        leading = self.majority_support
        if truth == self.majority or support > leading or (support == leading and truth < self.majority):
            self.majority = truth
            self.majority_support = support
            self.majority_right += 1

    def observe_rows(self, block: RevealedBlock) -> None:
        truths, served = block.truths, block.served
        # No class but 0 and 1 was ever revealed or served, nor is one in this block.
        knows_two = self.far is None and len(self.near) <= 4
        if knows_two and truths.max() <= 1 and served.min() >= 0 and served.max() <= 1:
            self._observe_two(truths.astype(np.bool_), block.mistaken)
        else:
            for truth, answer in zip(truths.tolist(), served.tolist(), strict=True):
                self.observe(truth, answer)

    def _observe_two(self, truths: Flags, mistakes: Flags) -> None:
        """Count reveals of the classes 0 and 1 that were served one or the other, in their order."""
        count = len(truths)
        ones = np.cumsum(truths)
        zeros = np.arange(1, count + 1) - ones
        supports = self._support(0), self._support(1)
        # Class 1 leads where it has more, class 0 on a tie.
        leads = (ones + supports[1]) > (zeros + supports[0])
        self.majority_right += int(np.count_nonzero(leads == truths))
        before = np.concatenate(([self.last == 1], truths[:-1]))
        self.no_change_right += int(np.count_nonzero(before == truths))
        self.last = int(truths[-1])
        wrong = np.count_nonzero(mistakes)
        wrong_ones = np.count_nonzero(mistakes & truths)
        for truth, support, missed in ((0, zeros[-1], wrong - wrong_ones), (1, ones[-1], wrong_ones)):
            if support:
                self._add_near(truth * truth + truth, int(support))
            if missed:
                self._add_near(near_index(truth, 1 - truth), int(missed))
        self.majority = int(leads[-1])
        self.majority_support = self._support(self.majority)

    def _support(self, truth: int) -> int:
        at = truth * truth + truth
        return self.near[at] if at < len(self.near) else 0

    def _observe_wrong(self, truth: int, served: int) -> None:
        if served < 0:
            self._add_far(truth, NONE)
        elif truth < NEAR_CLASSES and served < NEAR_CLASSES:
            self._add_near(near_index(truth, served))
        elif not self._add_far(truth, served, CELLS_MAX):
            self._add_far(truth, NONE)
            self._add_far(NONE, served)

    def _add_near(self, at: int, more: int = 1) -> int:
        near = self.near
        if at >= len(near):
            near.extend([0] * (at + 1 - len(near)))
        near[at] = count = near[at] + more
        return count

    def _add_far(self, row: int, column: int, cells_max: int = 1 << KIND_BITS) -> int:
        if self.far is None:
            self.far = no_cells()
        return add(self.far, row << ROW_BITS | column, cells_max)

    def _counts(self) -> Iterator[tuple[int, int, int]]:
        """Each count that is kept: row, column, count."""
        for (row, column), count in zip(NEAR_PAIRS, self.near, strict=False):
            yield row, column, count
        for cell in self.far or ():
            kind = cell >> COUNT_BITS
            yield kind >> ROW_BITS, kind & COLUMN_MASK, cell & COUNT_MASK

    def report(self, asked: Asked) -> dict[str, Any]:
        """`confusion`, `classes` and `baselines`. Beyond 50 classes there is `largest` instead of the matrix."""
        classes = asked.classes
        supports, right, answers = [0] * classes, [0] * classes, [0] * classes
        wrong: list[tuple[int, int, int]] = []
        for row, column, count in self._counts():
            if row == column:
                supports[row] = count
                right[row] += count
                continue
            if row != NONE:
                right[row] -= count
            if column != NONE:
                answers[column] += count
            if count and NONE not in (row, column):
                wrong.append((-count, row, column))
        answers = [wrongly + rightly for wrongly, rightly in zip(answers, right, strict=True)]
        matrix = None
        if classes <= MATRIX_CLASSES_MAX:
            matrix = [[0] * classes for _ in range(classes)]
            for truth, hits in enumerate(right):
                matrix[truth][truth] = hits
            for count, truth, served in wrong:
                matrix[truth][served] = -count
        confusion: dict[str, Any] = {"matrix": matrix}
        if matrix is None:
            confusion["largest"] = [
                {"true": truth, "served": served, "count": -count}
                for count, truth, served in sorted(wrong)[:LARGEST_MAX]
            ]
        each = [
            {
                "support": support,
                "precision": ratio(hits, answered),
                "recall": ratio(hits, support),
                "f1": ratio(2 * hits, support + answered),
            }
            for support, answered, hits in zip(supports, answers, right, strict=True)
        ]
        baselines = self._baselines(supports, answers, right)
        return {"confusion": confusion, "classes": each, "baselines": baselines}

    def _baselines(self, supports: list[int], answers: list[int], right: list[int]) -> dict[str, Any]:
        rounds, hits = sum(supports), sum(right)
        by_chance = sum([a * b for a, b in zip(supports, answers, strict=True)])
        return {
            "majority_error_rate": ratio(rounds - self.majority_right, rounds),
            "no_change_error_rate": ratio(rounds - self.no_change_right, rounds),
            # Over rounds^2, so that counts stay integers to the last division, however long the stream.
            "kappa": kappa(hits * rounds, by_chance, rounds * rounds),
            "kappa_m": kappa(hits, self.majority_right, rounds),
            "kappa_t": kappa(hits, self.no_change_right, rounds),
        }

    def state(self) -> list[Any]:
        scalars = (self.last, self.no_change_right, self.majority, self.majority_support, self.majority_right)
        return [*scalars, self.near.tolist(), self.far.tolist() if self.far else []]

    @classmethod
    def restore(cls, state: list[Any]) -> Confusion:
        confusion = cls()
        *scalars, near, far = saved.items(state, 7)
        for at, count in enumerate(scalars):
            saved.whole(count, f"[{at}]", saved.ROUNDS_MAX)
        confusion.last, confusion.no_change_right = scalars[:2]
        confusion.majority, confusion.majority_support, confusion.majority_right = scalars[2:]
        confusion.near.extend(saved.wholes(near, "[5]", saved.ROUNDS_MAX, NEAR_CLASSES**2))
        cells = restore_cells(far, "[6]", 1 << KIND_BITS, CELLS_MAX + 3 * (CLASSES_MAX + 1))
        confusion.far = cells or None
        return confusion

    def check(self, counted: Asked) -> None:
        classes = min(counted.classes, CLASSES_MAX)
        supports, missed, uncounted = [0] * classes, [0] * classes, 0
        saved.check(len(self.near) <= classes * classes, "[5]", "has an unknown class")
        for row, column, count in self._counts():
            place = "[5]" if not count or row < NEAR_CLASSES > column else "[6]"
            known = [each < classes or each == NONE for each in (row, column)]
            saved.check(
                not count or (all(known) and not row == column == NONE), place, "has an unknown class"
            )
            if row == column and count:
                supports[row] += count
            elif row == NONE:
                uncounted += count
            elif count:
                missed[row] += count
        saved.check(sum(supports) == counted.revealed, "[5]", f"must count {counted.revealed} rounds")
        saved.check(
            sum(missed) == counted.mistakes or (sum(missed) < counted.mistakes and counted.classes > classes),
            "[5]",
            f"must count {counted.mistakes} mistakes",
        )
        fits = all(wrong <= support for wrong, support in zip(missed, supports, strict=True))
        saved.check(fits, "[5]", "must not have more mistakes than rounds of a class")
        saved.check(uncounted <= counted.mistakes, "[6]", "must not have more mistakes than there were")
        saved.check(self.last < max(classes, 1), "[0]", "must be a class")
        commonest = max(range(classes), key=supports.__getitem__, default=0)
        saved.check(self.majority == commonest, "[2]", "must be the commonest class")
        support = supports[commonest] if classes else 0
        saved.check(self.majority_support == support, "[3]", "must be how often the commonest class came")
        for place, right in (("[1]", self.no_change_right), ("[4]", self.majority_right)):
            saved.check(right <= counted.revealed, place, "must not be more than all rounds")
