"""Mistakes over rounds as a curve of at most 512 points, however long the stream.

The curve starts at (0, 0), has a point every `stride` rounds, and ends at the present. When it is full,
every second point goes and the stride doubles. Between points only the mistakes made there are kept: a byte
each while they fit.
"""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

STEPS_MAX = 510  # and the first point and the present make 512; even, so that steps fold in pairs


class Curve:
    """The decimated curve of cumulative mistakes. `due` is the round at which the next point is to be marked.

    >>> curve = Curve()
    >>> curve.mark(1), curve.mark(1)
    (None, None)
    >>> curve.report(revealed=3, mistakes=2)
    {'rounds': [0, 1, 2, 3], 'mistakes': [0, 1, 1, 2]}
    """

    __slots__ = ("due", "marked", "steps", "stride")

    def __init__(self) -> None:
        self.steps: bytearray | array[int] = bytearray()
        self.stride = 1
        self.due = 1
        self.marked = 0

    def mark(self, mistakes: int) -> None:
        """Set the point of round `due`, with the mistakes made until then."""
        steps = self.steps
        steps.append(mistakes - self.marked)
        self.marked = mistakes
        if len(steps) == STEPS_MAX:
            self.stride *= 2
            pairs = map(int.__add__, steps[::2], steps[1::2])
            self.steps = bytearray(pairs) if self.stride < 256 else array("I", pairs)
        self.due += self.stride

    def pass_by(self, revealed: int, mistakes: npt.NDArray[np.int64]) -> None:
        """Set the points due within reveals; `mistakes` made until each, the first being after `revealed`."""
        while (at := self.due - revealed - 1) < len(mistakes):
            self.mark(int(mistakes[at]))

    def report(self, revealed: int, mistakes: int) -> dict[str, list[int]]:
        """The points: rounds, and the mistakes made until then."""
        last = self.due - self.stride
        rounds = list(range(0, last + 1, self.stride))
        totals = list(accumulate(self.steps, initial=0))
        if revealed > last:
            rounds.append(revealed)
            totals.append(mistakes)
        return {"rounds": rounds, "mistakes": totals}

    def state(self) -> list[Any]:
        """Numbers and a list of numbers that `restore` turns back into this."""
        return [self.stride, self.due, self.marked, list(self.steps)]

    @classmethod
    def restore(cls, state: list[Any]) -> Curve:
        """What `state` was taken from."""
        curve = cls()
        curve.stride, curve.due, curve.marked, steps = state
        curve.steps = bytearray(steps) if curve.stride < 256 else array("I", steps)
        return curve
