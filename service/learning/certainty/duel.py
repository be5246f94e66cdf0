"""Two learners on the same reveals: who was right where the other was not, and what follows from that.

The curve of a learner's mistakes, over the rounds of which it has said something, goes wherever its record goes: a
promotion changes who serves, and who has said what stays as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from service.learning import saved
from service.learning.certainty.anytime import confidence_of, evidence, interval, interval_of_share, is_enough
from service.learning.saved import Part, Rounds, Weight
from service.learning.statistics.curve import Steps
from service.learning.statistics.statistic import ratio


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
        saved.within("[2]", curve.take, points)
        return curve

    def check(self, rounds: int, mistakes: int) -> None:
        """`saved.BadState` unless it can be of a record of so many rounds and mistakes."""
        saved.within("[2]", self.check_counts, rounds - self.rounds_before, mistakes - self.mistakes_before)


def with_curve_begun(record: Any) -> Any:
    """The state of a record as older programs have written it, with a curve that begins with the next reveal."""
    if type(record) is not list or len(record) != 3:
        return record
    return [*record, [record[0], record[1], Steps().state()]]


class Record:
    """What a learner has said, whether it was served or not: rounds, mistakes, their curve, and an interval of its
    error.

    >>> record = Record()
    >>> for number in range(1000):
    ...     record.observe(number % 10 == 0)
    >>> {name: round(value, 3) for name, value in record.report(0.95)["error_rate_interval"].items()}
    {'low': 0.07, 'high': 0.136, 'confidence': 0.95, 'rounds': 1000}
    """

    __slots__ = ("curve", "mistakes", "rounds")

    def __init__(self) -> None:
        self.rounds = 0
        self.mistakes = 0
        self.curve = RecordCurve()

    def observe(self, mistake: bool) -> None:
        self.rounds = rounds = self.rounds + 1
        if mistake:
            self.mistakes += 1
        curve = self.curve
        if rounds - curve.rounds_before == curve.due:
            curve.add(self.mistakes - curve.mistakes_before)

    def report(self, confidence: float) -> dict[str, Any]:
        found = None
        if self.rounds:
            found = interval_of_share(self.mistakes, self.rounds, confidence)._asdict()
            found |= {"confidence": confidence, "rounds": self.rounds}
        return {
            "rounds": self.rounds,
            "mistakes": self.mistakes,
            "error_rate": ratio(self.mistakes, self.rounds),
            "error_rate_interval": found,
        }

    def curve_report(self) -> dict[str, list[int]]:
        """The mistakes until each of some rounds, at most 512 of them."""
        return self.curve.report(self.rounds, self.mistakes)

    def state(self) -> list[Any]:
        return [self.rounds, self.mistakes, self.curve.state()]

    @classmethod
    def restore(cls, state: Any) -> Record:
        record = cls()
        rounds, mistakes, curve = saved.items(state, 3)
        record.rounds = saved.whole(rounds, "[0]", saved.ROUNDS_MAX)
        record.mistakes = saved.whole(mistakes, "[1]", record.rounds)
        record.curve = saved.within("[2]", RecordCurve.restore, curve, record.rounds, record.mistakes)
        return record

    def check(self) -> None:
        """`saved.BadState` unless its parts can be of the same rounds. For one that was restored."""
        saved.within("[2]", self.curve.check, self.rounds, self.mistakes)


@dataclass(slots=True, eq=False)
class Duel(Part):
    """A challenger against the champion, over the rounds of which both have said something.

    >>> duel = Duel()
    >>> for number in range(1000):
    ...     _ = duel.observe(mistaken=number % 10 == 0, champion_mistaken=number % 4 == 0)
    >>> found = duel.report(0.95, factor=1)
    >>> found["won"], found["lost"], found["difference"], round(found["difference_interval"]["high"], 3)
    (200, 50, -0.15, -0.072)
    """

    rounds: Rounds = 0
    won: Rounds = 0
    """Rounds in which only the challenger was right."""
    lost: Rounds = 0
    """Rounds in which only the champion was."""
    variance: Weight = 0.0
    """Σ (d - d̄)², d the challenger's mistake less the champion's, d̄ its mean before each round, 0 at first."""

    def __post_init__(self) -> None:
        self.at_most("won", self.rounds)
        self.at_most("lost", self.rounds - self.won)
        self.at_most("variance", 4.0 * self.rounds)

    def observe(self, mistaken: bool, champion_mistaken: bool) -> bool:
        """Take in a round; whether the challenger won it, without which its evidence does not grow."""
        rounds = self.rounds
        difference = mistaken - champion_mistaken
        if rounds:
            distance = difference - (self.lost - self.won) / rounds
            self.variance += distance * distance
        else:
            self.variance = float(difference * difference)
        self.rounds = rounds + 1
        if difference > 0:
            self.lost += 1
        elif difference:
            self.won += 1
        return difference < 0

    def is_decided(self, rounds_min: int, factor: int, confidence: float) -> bool:
        """Whether the challenger is better, by so many rounds at least and by enough evidence; see `is_enough`."""
        return self.rounds >= rounds_min and is_enough(self.won, self.lost, factor, confidence)

    def report(self, confidence: float, factor: int) -> dict[str, Any]:
        """See `confidence_of`."""
        found, more = None, self.lost - self.won
        if self.rounds:
            found = interval(more, self.rounds, self.variance, confidence, scale=2.0, low=-1.0)._asdict()
            found |= {"confidence": confidence, "rounds": self.rounds}
        grown = evidence(self.won, self.lost)
        return {
            "won": self.won,
            "lost": self.lost,
            "difference": ratio(more, self.rounds),
            "difference_interval": found,
            "evidence": grown,
            "confidence": confidence_of(grown, factor),
        }
