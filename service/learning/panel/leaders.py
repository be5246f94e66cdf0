"""Who leads over time: at most 64 points, however long the stream.

A point is set every `stride` rounds; it holds the expert that weighs most and the mistakes of each expert until then.
When there is no more room, every second point goes and the stride doubles.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from service.learning import saved

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
