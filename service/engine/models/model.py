"""A model: what the fold over its events has made of it."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from service.engine.models.amendments import Amendments, Evictions
from service.engine.models.block_fold import learn_block
from service.engine.models.champion_and_challengers import NO_CHALLENGERS, Contest
from service.engine.models.outcomes import BlockOutcome, Outcome
from service.engine.models.serving import Seen
from service.engine.models.state import ModelState
from service.engine.models.state_migrations import read_fit, read_state
from service.events import (
    AnyEvent,
    ChallengerAdded,
    ChallengerPromoted,
    ChallengerRemoved,
    DimensionFixed,
    DriftDetected,
    Label,
    ModelCreated,
    ModelFitted,
    ModelImported,
    ModelRebuilt,
    ModelReset,
    ModelRolledBack,
    Prediction,
    PredictionsExpired,
    PredictionVoided,
    PromotionRuled,
    RoundCorrected,
    RoundErased,
    RoundLearned,
    RoundRevealed,
    RoundsLearned,
    TagErased,
    TagForgotten,
)
from service.learning import saved
from service.learning.bound import verdict
from service.learning.bound.mistake_bound import Bound
from service.learning.certainty.asking import is_asked
from service.learning.vectors import Array


class Model(ModelState):
    """A state that only `apply` changes. The same events give the same state, to the bit."""

    __slots__ = ()

    def is_asked(self, prediction_id: str, probability: float) -> bool:
        """Whether the label of a prediction is asked for, if it is with this probability."""
        return is_asked(prediction_id, self.ask_key or f"{self.created_at} {self.name}", probability)

    def asked_with(self, prediction: Prediction) -> float | None:
        """With what probability the label of a waiting prediction was asked for; 0 if it was not asked for, None if
        that was not the question."""
        certainty = prediction.certainty if self.amended is None else self.amended.certainty_of(prediction)
        if certainty is None or certainty.ask_probability is None:
            return None
        is_asked = self.is_asked(prediction.prediction_id, certainty.ask_probability)
        return certainty.ask_probability if is_asked else 0.0

    def labels_in(self, served: list[int] | None) -> list[Label] | None:
        """The labels of a set that was served."""
        return self.labels.in_set(served, may_grow=self.settings["labels"] is None)

    def apply(self, event: AnyEvent) -> Outcome | BlockOutcome | None:
        """Take in the next event. For revealed rounds, what came of them."""
        if isinstance(event, RoundLearned):  # the most frequent first: each is applied in microseconds
            self.updated_at = event.at
            return self.whole_round(self.features.decode(event.features), event.label, event.at, event.weight)
        if isinstance(event, RoundRevealed):
            self.updated_at = event.at
            return self._apply_reveal(event)
        if isinstance(event, ModelRebuilt):
            self._take_rebuilt(event)
            return None
        self.updated_at = event.at
        if isinstance(event, ModelFitted | ChallengerPromoted) and event.rises is not None:
            version = self.version
            self.apply(replace(event, rises=None))
            self.version = version + event.rises
            return None
        match event:
            case RoundsLearned():
                return learn_block(self, event)
            case DriftDetected():
                self.drifts_recorded += 1
            case PredictionsExpired():
                self.expired += event.count
                if self.asking is not None:
                    self.asking.expire(event.count, event.asked)
                if event.evicted:
                    self.evicted = self.evicted or Evictions()
                    self.evicted.record(event)
                if self.amended is not None:
                    self.amended.expire(event.through)
            case RoundCorrected():
                self._amendments().record(event)
            case RoundErased():
                self.version += event.rounds
            case TagForgotten():
                self._amendments().forget(event)
            case TagErased():
                self._amendments().erased(event)
            case PredictionVoided():
                amended = self._amendments()
                amended.voided += 1
                amended.served_again.pop(event.prediction_id, None)
            case DimensionFixed():
                self.fix_dimension(event.dimension)
            case ModelFitted():
                self._take_fit(event)
            case ChallengerAdded():
                self._contest_begun().add(self, event)
            case ChallengerRemoved():
                if self.contest is not None:
                    self.contest.remove(self, event.challenger)
            case ChallengerPromoted():
                if self.contest is not None and self.promotes(event):
                    self.contest.promote(self, event.challenger)
                    self.version += 1
            case PromotionRuled():
                contest = self._contest_begun()
                self.settings = {**self.settings, "promote": event.promote}
                if event.rules >= 2:
                    contest.number_comparisons()
            case ModelReset():
                self.version += 1
                self.settings = {**self.settings, "rules": event.rules}
                self.begin(event.at, self.features.dimension, event.ask_key or self.ask_key)
                if self.amended is not None:
                    self.amended.expire(event.at)
            case ModelRolledBack():
                self._go_back(event)
        return None

    def _apply_reveal(self, event: RoundRevealed) -> Outcome:
        if self.amended is not None:
            event = self.amended.as_served(event)
        example = self.features.decode(event.features)
        truth = self.class_of(event.label)  # first: the label that was served may be new with it
        served = self.labels.index(event.served)
        return self.learn_round(
            example, truth, served, event.score, event.at, self._seen(event), event.weight
        )

    def _seen(self, event: RoundRevealed) -> Seen:
        # A reveal may cross a reset on its way: then every update since lies between.
        before_reset = event.predicted_at <= self.began_at
        # The clocks of replicas differ a little, so a prediction may seem to be of after a reset.
        stale = max(0, self.updates - (0 if before_reset else event.updates_seen))
        certainty, was_asked = event.certainty, None
        # What a version made that knew of no weights does not say what had been learned then: each update since may
        # have weighed as much as any has.
        stale_weight = stale * (self.bound.weight_max if self.bound is not None else 1.0)
        if certainty is not None:
            if self.bound is not None:
                weight_seen = 0.0 if before_reset else certainty.update_weight
                stale_weight = max(0.0, self.bound.weight - weight_seen)
            if certainty.ask_probability is not None:
                was_asked = self.is_asked(event.prediction_id, certainty.ask_probability)
        delay = max(0, self.version - event.version_seen)
        return Seen(event.predicted_at, certainty, stale, stale_weight, delay, was_asked, before_reset)

    def _contest_begun(self) -> Contest:
        """The contest between champion and challengers, which begins with the first of these."""
        if self.contest is None:
            self.settings = {**self.settings, **NO_CHALLENGERS}
            self.contest = Contest(self.settings["rules"])
        return self.contest

    def promotes(self, event: ChallengerPromoted) -> bool:
        """Not if it is the mark of a promotion that the fold has made itself, or the challenger is gone."""
        is_mark = event.prediction_id is not None
        return not is_mark and self.contest is not None and event.challenger in self.contest.challengers

    def takes(self, event: ModelFitted) -> bool:
        """Not if a class has appeared or another learner been promoted since the job looked: it has no weights for
        them."""
        has_all = self.labels.values == event.labels[: len(self.labels.values)]
        return has_all and event.learner == self.champion_number

    def _take_fit(self, event: ModelFitted) -> None:
        if not self.takes(event):
            return
        known, dimension = len(self.labels.values), self.features.dimension
        self.restore_parts(event.labels, *read_fit(event.features, event.classifier))
        if self.contest is not None:
            for _ in event.labels[known:]:
                self.contest.add_class()
            if dimension is None:
                self.contest.fix_dimension(self)
        self.version += 1
        self.origin = "fitted"
        self.bound = None

    def _go_back(self, event: ModelRolledBack) -> None:
        version, contest = self.version + 1, self.contest
        self._become(Model.from_bytes(event.state))
        self.version = version
        self.updated_at = self.began_at = event.at
        if self.asking is not None:  # what waited at that version does not any more
            self.asking.count_anew()
        if contest is not None and contest.comparisons is not None:
            self._contest_begun().compare_again(contest.comparisons, event.at)
        if self.amended is not None:
            self.amended.expire(event.at)

    def _become(self, other: "Model") -> None:
        """Take over all that another model has learned. What is known of corrections stays."""
        for part in ModelState.__slots__:
            if part not in ("name", "created_at", "amended"):
                setattr(self, part, getattr(other, part))

    def _amendments(self) -> Amendments:
        if self.amended is None:
            self.amended = Amendments()
        return self.amended

    @property
    def forgettings(self) -> int:
        """How many times something of it was forgotten."""
        return 0 if self.amended is None else self.amended.forgettings

    @property
    def erasing(self) -> frozenset[int]:
        """Events that are to be as if they had never been, and may still wait to be erased."""
        return frozenset((self.amended.erasing if self.amended is not None else None) or ())

    @property
    def place(self) -> list[int]:
        """Another one after each event: by its time, which on a cluster two replicas may give at once."""
        return [self.updated_at, self.version]

    def rebuilt_by(self, event: ModelRebuilt) -> "tuple[dict[str, Any], Model] | None":
        """The state that a rebuild brings, and the model with it; None if anything has happened since it was made, or
        no model can have it, as older programs have written some: then another rebuild follows."""
        if event.follows != self.place[: len(event.follows)] or self.amended is None:
            return None
        with suppress(saved.BadState):
            state = read_state(event.state)
            return state, Model.from_state(state)
        return None

    def _take_rebuilt(self, event: ModelRebuilt) -> None:
        if (rebuilt := self.rebuilt_by(event)) is not None:
            state, model = rebuilt
            version = self.version + 1
            self._become(model)
            self._amendments().rebuilt(event, state, version)
            self.version = version
        self.updated_at = event.at

    def bound_report(self) -> dict[str, Any]:
        """The mistake bound and how much of it is used; see docs/theory.md."""
        if self.bound is None:
            why = verdict.why_not_applicable(self.settings, self.origin)
            return verdict.report(Bound(None, 1.0, None), None, why)
        weights = self.classifier.weights_for(1)
        why = None if self.features.learns_as_served else verdict.WHY_LEARNED_OTHERWISE
        features = self.settings["features"]
        transforms = [f"`{name}`" for name in ("crosses", "normalize", "fourier") if features.get(name)]
        if features["kind"] == "hashed":
            transforms.insert(0, "hashing")
        if self.features.ignored_names:
            transforms.insert(0, "names beyond `names_max` are ignored")
        return verdict.report(
            self.bound, weights, why, bias_is_first=self.bias_is_first, transforms=transforms
        )

    def report(self, now: int) -> dict[str, Any]:
        """The statistics that come from the fold, as of a time; see docs/statistics.md."""
        labels = self.labels.values
        report = self.statistics.report(now, len(labels), self.settings["confidence"])
        report["confusion"] = {"labels": labels, **report["confusion"]}
        for cell in report["confusion"].get("largest", ()):
            cell["true"], cell["served"] = labels[cell["true"]], labels[cell["served"]]
        by_class = zip(labels, report["classes"], strict=True)
        report["classes"] = [{"label": label, **figures} for label, figures in by_class]
        report["bound"] = self.bound_report()
        report["sets"] = None if self.sets is None else self.sets.report()
        report["challengers"] = None if self.contest is None else self.contest.report(self)
        report["experts"] = None if self.panel is None else self.panel.report()
        report["corrections"] = None if self.amended is None else self.amended.report()
        report["features"] = {
            "kind": self.settings["features"]["kind"],
            "weights": self.features.size(),
            "ignored_names": self.features.ignored_names,
        }
        return report

    def learner_curves(self) -> list[dict[str, Any]] | None:
        """The curve of each learner; None if there never were challengers. No part of `report`: they may be long."""
        return None if self.contest is None else self.contest.curves(self)

    def ask_report(
        self, unasked: int, awaited: Sequence[float] = (), *, are_all: bool = True
    ) -> dict[str, Any] | None:
        """What asking for labels has come to. Of the predictions that wait, so many labels were not asked for, and the
        others with these probabilities. Without an interval unless these `are_all` that wait."""
        if self.asking is None:
            return None
        report = self.asking.report(unasked, awaited, self.settings["confidence"])
        if not are_all and self.settings["rules"] >= 2:
            report["error_rate_interval"] = None
        report["uncounted"] = self.revealed - self.asking.revealed
        return report | {"bound": verdict.expected_mistakes(self.asking, self.bound, self.bound_report())}

    def weight_name(self, index: int) -> int | str:
        """What to call the weight at `index`; of a panel, that of the expert that weighs most."""
        place = index if self.panel is None else self.panel.weight_place(index)
        if isinstance(place, tuple):
            return "×".join(str(self.features.name(each)) for each in place)
        return self.features.name(place) if isinstance(place, int) else place

    def weights(self) -> list[tuple[Label | None, Array]]:
        """The weights of each class; for two classes there is one row, whose sign is the second's."""
        if self.settings["multiclass"] is None:
            return [(None, self.classifier.weights_for(1))]
        return [(label, self.classifier.weights_for(i)) for i, label in enumerate(self.labels.values)]


def model_from(event: AnyEvent) -> Model:
    """The model that a ModelCreated or a ModelImported makes."""
    if isinstance(event, ModelCreated):
        return Model(event)
    assert isinstance(event, ModelImported)
    model = Model.from_bytes(event.state)
    model.name = event.model
    model.created_at = model.updated_at = event.at
    model.amended = model.evicted = None
    if model.asking is not None:  # pending predictions stay with the other model
        model.asking.count_anew()
    if event.forked_from is None:  # else it cannot have been manipulated
        model.origin = "imported"
        model.bound = None
    return model
