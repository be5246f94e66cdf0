"""A model's challengers and its champion: who said what, who learns from it, who serves, and past promotions.

The champion's features, classifier and calibration are the model's own. What is here is the rest: its challengers, and
what compares them. All of it is part of the fold over the model's events.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from service.engine.models.challenger import Challenger, Learned, WarmLearner, learn_own, observe_calibration
from service.engine.models.serving import Seen, Served, served_by, words_of
from service.engine.models.sizes import OWN, is_crossed, why_not
from service.engine.names import is_name
from service.events import Certainty, ChallengerAdded, Lineup, Word
from service.learning import saved
from service.learning.certainty.duel import Duel, Record
from service.learning.features.crosses import CROSSED_MAX
from service.learning.saved import Count, Part
from service.learning.vectors import Vector

if TYPE_CHECKING:
    from service.engine.models.state import ModelState


PROMOTIONS_KEPT = 16
"""So many are remembered; the audit trail has them all."""


@dataclass(slots=True)
class Promotion(Part):
    """That a challenger and a champion changed places, after so many reveals."""

    round: Count
    challenger: str
    former: str
    by_evidence: bool

    def __post_init__(self) -> None:
        saved.check(is_name(self.challenger) and is_name(self.former), "", "must be of names")


def restored(kept: Any, promotions: int) -> list[Promotion]:
    """The last of so many promotions, from a saved state; `saved.BadState` if they cannot be."""
    most = min(promotions, PROMOTIONS_KEPT)
    is_short = type(kept) is list and len(kept) <= most
    saved.check(is_short, "last_promotions", f"must be a list of at most {most}")
    return [saved.within(f"last_promotions[{at}]", Promotion.restore, each) for at, each in enumerate(kept)]


FIRST_CHAMPION = "original"
"""The name of the learner that a model was made with."""
NO_CHALLENGERS: dict[str, Any] = {"champion": FIRST_CHAMPION, "challengers": {}, "promote": None}
"""The settings of a model whose first challenger comes later. One that never had any has none of these settings."""


class Contest:
    """The challengers of a model by name, in the order in which they were added."""

    def __init__(self, rules: int) -> None:
        self.challengers: dict[str, Challenger] = {}
        self.number = 0
        """The champion's; that of the learner that the model was made with is 0."""
        self.numbers = 0
        """How many learners have had one, beside that."""
        self.record = Record()
        """What came of what the champion has said, also while it was a challenger."""
        self.since_round = 0
        """With how many reveals it became the champion."""
        self.entered = 0
        """How many challengers it has met, those that were removed too."""
        self.comparisons = 0 if rules >= 2 else None
        """How many comparisons have begun in the model's life, each of which took the next number; None by rules 1."""
        self.promotions = 0
        self.last_promotions: list[Promotion] = []
        self._is_due = False
        """Whether a challenger has won the round that is being learned: no other round makes evidence grow."""

    @classmethod
    def begin(cls, model: ModelState, before: Contest | None) -> Contest:
        """All learners at their start, as the settings have them; `before` is the contest of before a reset."""
        contest = cls(model.settings["rules"])
        if before is not None:
            contest.number, contest.numbers = before.number, before.numbers
            contest.promotions = before.promotions
            if before.comparisons is not None:
                contest.comparisons = before.comparisons
        for name, own in model.settings["challengers"].items():
            number = contest._next_number() if before is None else before.challengers[name].number
            contest._put(model, name, number, own)
        contest.entered = len(contest.challengers)
        return contest

    def _next_number(self) -> int:
        self.numbers += 1
        return self.numbers

    def _put(self, model: ModelState, name: str, number: int, own: dict[str, Any]) -> Challenger:
        dimension = model.features.dimension
        challenger = Challenger.cold(number, own, model.settings, model.labels, dimension)
        challenger.share(model.features, model.settings)
        self.challengers[name] = challenger
        self._compare(challenger, model.updated_at)
        return challenger

    def _compare(self, challenger: Challenger, at: int) -> None:
        """Begin to compare a challenger with the champion."""
        challenger.duel = Duel()
        if self.comparisons is not None:
            self.comparisons += 1
            challenger.comparison, challenger.compared_since = self.comparisons, at

    def number_comparisons(self) -> None:
        """Number comparisons from now on. Those under way go on, as the last that the champion had."""
        if self.comparisons is None:
            self.comparisons = self.entered
            for number, challenger in enumerate(reversed(self.challengers.values())):
                challenger.comparison = self.entered - number

    def compare_again(self, comparisons: int, at: int) -> None:
        """Begin all comparisons anew after a rollback; so many had begun before it."""
        self.comparisons = max(comparisons, self.comparisons or 0)
        for challenger in self.challengers.values():
            self._compare(challenger, at)

    def _factor(self, challenger: Challenger) -> int:
        """What the evidence for a challenger has to come to, times α: K(K + 1) for the K-th comparison."""
        return challenger.comparison * (challenger.comparison + 1) or self.entered

    def add(self, model: ModelState, event: ChallengerAdded) -> None:
        """Add a challenger, if it still fits: what was so when it was asked for may have changed."""
        name, own = event.challenger, event.settings
        if name in self.challengers or name == model.settings["champion"] or self._why_not(model, name, own):
            return
        learner = None if event.warm is None else WarmLearner.read(event.state)
        if learner is not None and not learner.is_of(model):
            return
        model.settings = {**model.settings, "challengers": {**model.settings["challengers"], name: own}}
        challenger = self._put(model, name, self._next_number(), own)
        if learner is not None and event.warm is not None:
            challenger.warm_up(learner, event.warm, model)
        self.entered += 1

    def _why_not(self, model: ModelState, name: str, own: dict[str, Any]) -> tuple[str, str] | None:
        classes = len(model.labels.values)
        return why_not(model.settings, name, own, dimension=model.features.dimension, classes=classes)

    def remove(self, model: ModelState, name: str) -> None:
        if self.challengers.pop(name, None) is not None:
            left = {each: own for each, own in model.settings["challengers"].items() if each != name}
            model.settings = {**model.settings, "challengers": left}

    def fix_dimension(self, model: ModelState) -> None:
        """Take the dimension of the first example; a challenger added meanwhile that is too small for it is removed."""
        joined, self.challengers = self.challengers, {}
        model.settings = {**model.settings, "challengers": {}}
        for name, challenger in joined.items():
            if self._why_not(model, name, challenger.settings) is None:
                challenger.features.dimension = model.features.dimension
                challenger.classifier.grow(challenger.features.size())
                self.challengers[name] = challenger
                challengers = {**model.settings["challengers"], name: challenger.settings}
                model.settings = {**model.settings, "challengers": challengers}

    def check_example(self, sent: Any) -> None:
        """BadFeatures if the champion takes an example that is too long for a challenger."""
        for challenger in self.challengers.values():
            if challenger.features.dimension is None or is_crossed(challenger.settings):
                challenger.features.read(sent)

    def takes(self, length: int) -> bool:
        """Whether examples of so many numbers, or names, are not too long for the challengers."""
        crossed = any(is_crossed(challenger.settings) for challenger in self.challengers.values())
        return not crossed or length <= CROSSED_MAX

    @property
    def extent(self) -> tuple[int, ...]:
        """Which challengers there are, and how many weights each has."""
        those = self.challengers.values()
        return tuple(each for one in those for each in (one.number, one.features.size()))

    def add_class(self) -> None:
        for challenger in self.challengers.values():
            challenger.classifier.add_class()

    def shadowed(self, model: ModelState, example: Any, z: Vector, served: Served) -> Served:
        """A prediction of the champion with what the challengers say of it."""
        chosen, score, c = served
        words = [challenger.say(example, z) for challenger in self.challengers.values()]
        lineup = Lineup(model.settings["champion"], self.number, words)
        certainty = Certainty(  # `msgspec.structs.replace` takes four times as long
            c.gap, c.lead, c.probability, c.update_weight, c.set, c.ask_probability, c.said, c.votes, lineup,
            c.last_class, c.disagreements,
        )  # fmt: skip
        return chosen, score, certainty

    def learn(
        self,
        model: ModelState,
        example: Any,
        z: Vector,
        truth: int,
        served: int,
        at: int,
        seen: Seen,
        weight: float,
    ) -> Learned:
        """Let all learners learn a reveal, each by what it had said itself, and compare what they had said."""
        words = words_of(seen, served)
        is_late = seen.at != at
        own = words.get(self.number)
        has_served = served_by(seen.certainty) == self.number
        word = own
        if own is None and has_served and model.panel is None:  # before a reset: as without challengers
            word = Word(self.number, served, 0.0, 0.0, None)
        updated = learn_own(model.classifier, model.panel, z, truth, word, weight, seen.delay)
        mistaken = own is not None and own.chosen != truth
        for challenger in self.challengers.values():
            word = words.get(challenger.number)
            challenger.learn(example, z, truth, word, weight, seen.delay)
            if word is not None:
                erred = challenger.observe(word, truth, is_late=is_late)
                is_compared = own is not None and seen.at >= challenger.compared_since
                if is_compared and challenger.duel.observe(erred, mistaken):
                    self._is_due = True
        if own is not None:
            self.record.observe(mistaken)
            if not has_served:
                observe_calibration(model.statistics.calibration, own, mistaken, is_late)
        certainty = seen.certainty
        if not has_served or certainty is None or served < 0:
            return Learned(updated, None)
        return Learned(updated, (certainty.gap, certainty.lead, certainty.probability))

    def settle(self, model: ModelState) -> None:
        """Promote a challenger, if the settings ask for it and its evidence is enough; the one furthest ahead."""
        rule = model.settings["promote"]
        if rule is None or not self._is_due:
            return
        self._is_due = False
        decided = [
            (challenger.duel.won - challenger.duel.lost, name)
            for name, challenger in self.challengers.items()
            if challenger.duel.is_decided(rule["rounds_min"], self._factor(challenger), rule["confidence"])
        ]
        if decided:
            most = max(lead for lead, _ in decided)
            self.promote(model, next(name for lead, name in decided if lead == most), by_evidence=True)

    def promote(self, model: ModelState, name: str, *, by_evidence: bool = False) -> bool:
        """Let a challenger and the champion change places; whether there is such a challenger."""
        chosen = self.challengers.get(name)
        if chosen is None:
            return False
        former = model.settings["champion"]
        own = {each: model.settings[each] for each in OWN}
        demoted = Challenger(
            self.number, own, model.features, model.classifier, model.statistics.calibration, self.record
        )
        self.challengers = {
            former if each == name else each: demoted if each == name else challenger
            for each, challenger in self.challengers.items()
        }
        model.settings = {
            **model.settings,
            **chosen.settings,
            "champion": name,
            "challengers": {each: challenger.settings for each, challenger in self.challengers.items()},
        }
        model.features, model.classifier, model.panel = chosen.features, chosen.classifier, chosen.panel
        model.statistics.calibration = chosen.calibration
        model.bound = None
        model.origin = "promoted"
        if model.asking is not None:
            model.asking.eta = model.settings["learner"].get("eta0", 1.0)
        self.number, self.record = chosen.number, chosen.record
        self.since_round, self.entered = model.revealed, len(self.challengers)
        for challenger in self.challengers.values():
            challenger.share(model.features, model.settings)
            self._compare(challenger, model.updated_at)
        self.promotions += 1
        done = Promotion(model.revealed, name, former, by_evidence)
        self.last_promotions = [*self.last_promotions, done][-PROMOTIONS_KEPT:]
        return True

    def report(self, model: ModelState) -> dict[str, Any]:
        confidence, rule = model.settings["confidence"], model.settings["promote"]
        line = []
        for name, challenger in self.challengers.items():
            factor = self._factor(challenger)
            needed = None if rule is None else round(factor / (1.0 - rule["confidence"]), 9)
            line.append({"name": name, **challenger.report(confidence, factor), "evidence_needed": needed})
        name = model.settings["champion"]
        return {
            "champion": {"name": name, "since_round": self.since_round, **self.record.report(confidence)},
            "line": line,
            "entered": self.entered,
            "evidence_needed": min((each["evidence_needed"] for each in line), default=None)
            if rule
            else None,
            "promotions": self.promotions,
            "last_promotions": [asdict(done) for done in self.last_promotions],
        }

    def curves(self, model: ModelState) -> list[dict[str, Any]]:
        """The mistakes of each learner over the rounds of which it has said something, the champion's first."""
        records = {model.settings["champion"]: self.record}
        records |= {name: challenger.record for name, challenger in self.challengers.items()}
        return [
            {"name": name, "since_round": model.revealed - record.rounds, **record.curve_report()}
            for name, record in records.items()
        ]

    def state(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "numbers": self.numbers,
            "record": self.record.state(),
            "since_round": self.since_round,
            "entered": self.entered,
            "comparisons": self.comparisons,
            "promotions": self.promotions,
            "last_promotions": [done.state() for done in self.last_promotions],
            "challengers": {name: challenger.state() for name, challenger in self.challengers.items()},
        }

    def restore(self, state: Any, model: ModelState) -> None:
        """Become what `state` was taken from, with the same settings; `saved.BadState` if it cannot be one's state."""
        number, numbers, record, since_round, entered, comparisons, promotions, last, challengers = saved.fields(
            state, "number", "numbers", "record", "since_round", "entered", "comparisons", "promotions",
            "last_promotions", "challengers",
        )  # fmt: skip
        self.numbers = saved.whole(numbers, "numbers")
        self.number = saved.whole(number, "number", self.numbers)
        self.record = saved.within("record", Record.restore, record)
        self.since_round = saved.whole(since_round, "since_round")
        self.promotions = saved.whole(promotions, "promotions")
        self.entered = saved.whole(entered, "entered", least=len(self.challengers))
        self.last_promotions = restored(last, self.promotions)
        self.comparisons = (
            None if comparisons is None else saved.whole(comparisons, "comparisons", saved.ROUNDS_MAX)
        )
        states = saved.within("challengers", saved.fields, challengers, *self.challengers)
        for (name, challenger), kept in zip(self.challengers.items(), states, strict=True):
            saved.within(f"challengers.{name}", challenger.restore, kept, len(model.labels.values))
        given = [self.number, *(challenger.number for challenger in self.challengers.values())]
        is_right = len(set(given)) == len(given) and max(given) <= self.numbers
        saved.check(is_right, "numbers", "must be those of different learners")
        compared = [challenger.comparison for challenger in self.challengers.values()]
        if self.comparisons is None:
            is_right = not any(compared)
        else:
            is_inside = all(0 < each <= self.comparisons for each in compared)
            is_right = is_inside and len({*compared}) == len(compared)
        saved.check(is_right, "comparisons", "must be at least the numbers of those under way, which differ")
        dimension = model.features.dimension
        same = all(challenger.features.dimension == dimension for challenger in self.challengers.values())
        saved.check(same, "challengers", "must have the dimension of the model")
        for challenger in self.challengers.values():
            challenger.share(model.features, model.settings)

    def check(self, model: ModelState) -> None:
        """`saved.BadState` unless it can be of a model with these statistics."""
        revealed = model.revealed
        saved.check(self.record.rounds <= revealed, "record[0]", f"must be at most {revealed}")
        saved.within("record", self.record.check)
        saved.check(self.since_round <= revealed, "since_round", f"must be at most {revealed}")
        for name, challenger in self.challengers.items():
            saved.within(f"challengers.{name}", challenger.check, revealed, len(model.labels.values))
