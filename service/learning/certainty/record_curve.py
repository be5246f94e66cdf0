"""The mistakes of one of several learners over the rounds of which it has said something, as a curve.

It goes wherever the learner's record goes: a promotion changes who serves, and who has said what stays as it was.
"""

from __future__ import annotations

from typing import Any

from service.learning import saved
from service.learning.statistics.steps import Steps


class RecordCurve(Steps):
    """At most 512 points. It begins with the record, or later if an older program, which kept none, has begun that.

    No times are kept: they would take four times as much memory as the points, and nobody draws them.
    """

    __slots__ = ("mistakes_before", "rounds_before")

    def __init__(self, rounds_before: int = 0, mistakes_before: int = 0) -> None:
        super().__init__()
        self.rounds_before = rounds_before
        """How many rounds the record had when the curve began; its own first point is there."""
        self.mistakes_before = mistakes_before

    def report(self, rounds: int, mistakes: int) -> dict[str, list[int]]:
        """Of a record that has so many rounds and mistakes by now."""
        before, mistakes_before = self.rounds_before, self.mistakes_before
        at, totals = self.points(rounds - before, mistakes - mistakes_before)
        return {
            "rounds": [each + before for each in at],
            "mistakes": [each + mistakes_before for each in totals],
        }

    def state(self) -> list[Any]:
        return [self.rounds_before, self.mistakes_before, super().state()]

    @classmethod
    def restore(cls, state: Any, rounds: int, mistakes: int) -> RecordCurve:
        """Of a record of so many rounds; `saved.BadState` if it cannot be one's."""
        before, mistakes_before, points = saved.items(state, 3)
        curve = cls(
            saved.whole(before, "[0]", rounds),
            saved.whole(mistakes_before, "[1]", min(before, mistakes)),
        )
        with saved.Within("[2]"):
            curve.take(saved.items(points, 4))
        return curve

    def check(self, rounds: int, mistakes: int) -> None:
        """`saved.BadState` unless it can be of a record of so many rounds and mistakes."""
        with saved.Within("[2]"):
            self.check_counts(rounds - self.rounds_before, mistakes - self.mistakes_before)


def with_curve_begun(record: Any) -> Any:
    """The state of a record as older programs have written it, with a curve that begins with the next reveal."""
    if type(record) is not list or len(record) != 3:
        return record
    return [*record, [record[0], record[1], Steps().state()]]
