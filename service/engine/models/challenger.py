"""A challenger: one more learner of a model, which predicts in shadow and learns from the same reveals.

One that has learned from the model's history before it entered is warm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from service.engine.models.labels import Labels
from service.engine.models.serving import NO_STANDING, new_classifier
from service.engine.models.sizes import OWN, new_features
from service.engine.models.state_migrations import read_state
from service.events import Label, WarmStart, Word
from service.learning import saved
from service.learning.certainty.duel import Duel, Record
from service.learning.classes.classifier import Classifier
from service.learning.features.contract import Features
from service.learning.panel.panel import Panel, erred_weight
from service.learning.saved import Count, Part
from service.learning.statistics.calibration import Calibration, Standing
from service.learning.statistics.statistic import Asked
from service.learning.vectors import Vector

if TYPE_CHECKING:
    from service.engine.models.state import ModelState


@dataclass(slots=True)
class Warm(Part):
    """Which history it was, and how the challenger fared on it. None of that counts as evidence."""

    from_version: Count
    to_version: Count
    rounds: Count
    mistakes: Count
    missed: Count
    """Rounds that were revealed between the end of that history and the entry: it has not learned them."""

    def __post_init__(self) -> None:
        self.at_most("from_version", self.to_version)
        self.at_most("rounds", self.to_version - self.from_version)
        self.at_most("mistakes", self.rounds)


class WarmLearner(NamedTuple):
    """What it has learned, and of which model: see `OtherWorld.learner_bytes`."""

    began_at: int
    revealed: int
    """How many rounds the model had."""
    labels: list[Label]
    features: Any
    classifier: Any
    calibration: Any

    @classmethod
    def read(cls, data: bytes) -> WarmLearner:
        state = read_state(data)
        return cls(*(state[name] for name in cls._fields))

    def is_of(self, model: ModelState) -> bool:
        """Not if the model was reset or rolled back since: then this is of another past."""
        known = len(self.labels)
        return self.began_at == model.began_at and self.labels == model.labels.values[:known]


class Learned(NamedTuple):
    """What a reveal did to the champion."""

    updated: bool
    standing: Standing | None
    """How sure it had been of the label that was served; None if another learner had served it."""


class Challenger:
    """Settings, features, weights and calibration of its own, and what came of what it has said."""

    def __init__(
        self,
        number: int,
        settings: dict[str, Any],
        features: Features,
        classifier: Classifier,
        calibration: Calibration,
        record: Record,
    ) -> None:
        self.number = number
        """Which no other learner of the model ever had: a name may be given again."""
        self.settings = settings
        """Those of `OWN`."""
        self.features = features
        self.classifier = classifier
        self.panel = classifier if isinstance(classifier, Panel) else None
        self.calibration = calibration
        self.record = record
        self.duel = Duel()
        self.comparison = 0
        """The number of this duel in the model's life; 0 by rules 1, which have no such numbers."""
        self.compared_since = 0
        """When it began: what was predicted before is not compared."""
        self.shares_vectors = False
        """Whether its vectors are those of the champion, to the bit."""
        self.warm: Warm | None = None
        """What it knew when it entered; None if it began cold, or has been the champion since."""

    @classmethod
    def cold(
        cls,
        number: int,
        own: Mapping[str, Any],
        model: Mapping[str, Any],
        labels: Labels,
        dimension: int | None,
    ) -> Challenger:
        """One at its start, by its own settings and those of its model, for the classes known now."""
        settings = {**model, **own}
        features = new_features(settings)
        if features.dimension is None:
            features.dimension = dimension
        classifier = new_classifier(settings, labels)
        classifier.grow(features.size())
        own = {name: own[name] for name in OWN}
        calibration = Calibration(forgets=model["rules"] >= 2)
        return cls(number, own, features, classifier, calibration, Record())

    def warm_up(self, learner: WarmLearner, start: WarmStart, model: ModelState) -> None:
        """Go on from what it has learned from the model's history. Its record and its duel begin now all the same."""
        known, dimension = len(learner.labels), model.features.dimension
        self.features.restore(learner.features)
        self.classifier.restore(learner.classifier, known, self.features.size())
        self.calibration = Calibration.restore(learner.calibration, forgets=self.calibration.forgets)
        if self.features.dimension is None and dimension is not None:
            self.features.dimension = dimension
            self.classifier.grow(self.features.size())
        for _ in model.labels.values[known:]:
            self.classifier.add_class()
        self.warm = Warm(
            start.from_version,
            start.to_version,
            start.rounds,
            start.mistakes,
            max(0, model.revealed - learner.revealed),  # a rebuild may have left some out
        )

    def share(self, champion: Features, settings: Mapping[str, Any]) -> None:
        """Take the vectors of the champion, if examples teach its features nothing and the settings are the same."""
        self.shares_vectors = champion.is_fixed and self.settings["features"] == settings["features"]

    def say(self, example: Any, z: Vector) -> Word:
        """What it says of an example whose vector is `z` for the champion; changes nothing."""
        if not self.shares_vectors:
            z = self.features.vector(example)
        if self.panel is not None:
            vote = self.panel.vote(z)
            standing = self.calibration.standing(vote.gap) if vote.chosen >= 0 else NO_STANDING
            return Word(
                self.number, vote.chosen, *standing, vote.said, vote.votes, self.panel.hedge.disagreements
            )
        chosen, _, gap = self.classifier.decide(z)
        standing = self.calibration.standing(gap) if chosen >= 0 else NO_STANDING
        return Word(self.number, chosen, *standing)

    def learn(
        self, example: Any, z: Vector, truth: int, word: Word | None, weight: float, delay: int
    ) -> None:
        """Learn from a reveal. `word` is what it had said of it, None if nothing: it was not there, or was reset."""
        if not self.shares_vectors:
            anew = self.features.absorb(example)
            if self.features.dimension == 0:  # names may be new
                self.classifier.grow(self.features.size())
            if anew is not None:
                self.classifier.unsettle(anew)
            z = self.features.vector(example)
        learn_own(self.classifier, self.panel, z, truth, word, weight, delay)

    def observe(self, word: Word, truth: int, *, is_late: bool) -> bool:
        """Count a reveal that it had said something of; whether it was mistaken."""
        mistaken = word.chosen != truth
        self.record.observe(mistaken)
        observe_calibration(self.calibration, word, mistaken, is_late)
        return mistaken

    def report(self, confidence: float, factor: int) -> dict[str, Any]:
        return {
            "algorithm": self.settings["learner"]["algorithm"],
            "updates": self.classifier.updates,
            **self.record.report(confidence),
            **self.duel.report(confidence, factor),
            "comparison": self.comparison or None,
            "warm": None if self.warm is None else asdict(self.warm),
        }

    def state(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "features": self.features.state(),
            "classifier": self.classifier.state(),
            "calibration": self.calibration.state(),
            "record": self.record.state(),
            "duel": self.duel.state(),
            "comparison": [self.comparison, self.compared_since],
            **({} if self.warm is None else {"warm": self.warm.state()}),
        }

    def restore(self, state: Any, classes: int) -> None:
        """Become what `state` was taken from, with the same settings; `saved.BadState` if it cannot be one's state."""
        names = ["number", "features", "classifier", "calibration", "record", "duel", "comparison"]
        is_warm = type(state) is dict and "warm" in state
        number, features, classifier, calibration, record, duel, comparison, *warm = saved.fields(
            state, *names, *(["warm"] if is_warm else [])
        )
        self.number = saved.whole(number, "number")
        saved.within("features", self.features.restore, features)
        saved.within("classifier", self.classifier.restore, classifier, classes, self.features.size())
        forgets = self.calibration.forgets
        self.calibration = saved.within("calibration", Calibration.restore, calibration, forgets=forgets)
        self.record = saved.within("record", Record.restore, record)
        self.duel = saved.within("duel", Duel.restore, duel)
        compared, since = saved.within("comparison", saved.items, comparison, 2)
        self.comparison = saved.whole(compared, "comparison[0]")
        self.compared_since = saved.whole(since, "comparison[1]")
        for kept in warm:
            self.warm = saved.within("warm", Warm.restore, kept)

    def check(self, revealed: int, classes: int) -> None:
        """`saved.BadState` unless it can be of a model with so many reveals and classes."""
        rounds = self.record.rounds
        saved.check(rounds <= revealed, "record[0]", f"must be at most {revealed}")
        saved.within("record", self.record.check)
        saved.check(self.duel.rounds <= rounds, "duel[0]", f"must be at most {rounds}")
        saved.check(self.duel.lost <= self.record.mistakes, "duel[2]", "must be at most the mistakes")
        # It knows more rounds than the record, if it began warm.
        saved.within("calibration", self.calibration.check, Asked(0, classes, revealed, revealed))
        if self.panel is not None:
            saved.within("classifier", self.panel.check, revealed, revealed)


def learn_own(
    classifier: Classifier,
    panel: Panel | None,
    z: Vector,
    truth: int,
    word: Word | None,
    weight: float,
    delay: int,
) -> bool:
    """Let a learner learn a reveal by what it had said itself, or by what it says now; whether weights changed."""
    if panel is not None:
        if word is None or word.said is None or word.votes is None:
            return panel.learn_only(z, truth, weight)
        erred = erred_weight(word.said, word.votes, truth)
        return panel.reveal(z, truth, word.chosen, word.said, erred, weight, delay, word.disagreements)
    chosen = classifier.decide(z)[0] if word is None else word.chosen
    return classifier.learn(z, truth, chosen, weight)


def observe_calibration(calibration: Calibration, word: Word, mistaken: bool, is_late: bool) -> None:
    if word.chosen >= 0:
        calibration.observe(word.gap, word.lead, word.probability, not mistaken, is_late)
