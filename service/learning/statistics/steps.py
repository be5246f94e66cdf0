"""A count of mistakes at at most 512 rounds, however many there are: what curves over rounds are made of.

There is a point every `stride` rounds. When there are too many, every second point goes and the stride doubles.
Between points only the mistakes made there are kept: a byte each while they fit.
"""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import Any

from service.learning import saved

STEPS_MAX = 510  # and the first point and the present make 512; even, so that steps fold in pairs
STEP_MAX = (1 << 32) - 1


class Steps:
    """The points of a curve of mistakes. `due` is the number of the round that gets the next point.

    >>> steps = Steps()
    >>> steps.add(mistakes=1), steps.add(mistakes=1)
    (False, False)
    >>> steps.points(rounds=3, mistakes=2)
    ([0, 1, 2, 3], [0, 1, 1, 2])
    """

    __slots__ = ("due", "marked", "steps", "stride")

    def __init__(self) -> None:
        self.steps: bytearray | array[int] = bytearray()
        self.stride = 1
        self.due = 1
        self.marked = 0

    def add(self, mistakes: int) -> bool:
        """Take in round number `due`, with the mistakes made until then; whether every second point went."""
        steps = self.steps
        steps.append(mistakes - self.marked)
        self.marked = mistakes
        is_full = len(steps) == STEPS_MAX
        if is_full:
            self.stride *= 2
            pairs = map(int.__add__, steps[::2], steps[1::2])
            self.steps = bytearray(pairs) if self.stride < 256 else array("I", pairs)
        self.due += self.stride
        return is_full

    @property
    def last(self) -> int:
        """The round of the newest point."""
        return self.due - self.stride

    def points(self, rounds: int, mistakes: int) -> tuple[list[int], list[int]]:
        """The rounds of all points and the mistakes made until each, the present included."""
        at, totals = list(range(0, self.last + 1, self.stride)), list(accumulate(self.steps, initial=0))
        if rounds > self.last:
            at.append(rounds)
            totals.append(mistakes)
        return at, totals

    def state(self) -> list[Any]:
        return [self.stride, self.due, self.marked, list(self.steps)]

    def take(self, state: list[Any]) -> None:
        """Become what the four values of `state` were taken from; `saved.BadState` if they cannot be of one."""
        stride, due, marked, kept = state
        self.stride = saved.whole(stride, "[0]", saved.ROUNDS_MAX, 1)
        saved.check(self.stride & (self.stride - 1) == 0, "[0]", "must be a power of two")
        steps = saved.wholes(kept, "[3]", min(self.stride, STEP_MAX), STEPS_MAX - 1)
        self.steps = bytearray(steps) if self.stride < 256 else array("I", steps)
        next_point = self.stride * (len(steps) + 1)
        self.due = saved.whole(due, "[1]", next_point, next_point)
        self.marked = saved.whole(marked, "[2]", total := sum(steps), total)

    def check_counts(self, rounds: int, mistakes: int) -> None:
        """`saved.BadState` unless these can be the points of so many rounds with so many mistakes."""
        is_next = self.last <= rounds < self.due
        saved.check(is_next, "[1]", "must be the next of all rounds to get a point")
        missing = mistakes - self.marked
        saved.check(0 <= missing <= rounds - self.last, "[2]", "must fit the count of mistakes")
