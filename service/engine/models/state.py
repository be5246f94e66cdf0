"""All that a model is: how it starts, learns a round, and is saved and restored."""

from collections.abc import Iterator
from typing import Any, Self, TypeVar

from msgspec.structs import replace

from service.engine.models.amendments import Amendments, Evictions
from service.engine.models.champion_and_challengers import Contest
from service.engine.models.labels import Labels, text_of
from service.engine.models.outcomes import Outcome
from service.engine.models.serving import NO_STANDING, Seen, Served, learn_vote, new_classifier, serve_vote
from service.engine.models.sizes import new_features
from service.engine.models.state_migrations import ADDED_SETTINGS, read_state
from service.events import Certainty, Label, ModelCreated
from service.journal.codec import STATE_VERSION, StateBytes, encode_state
from service.learning import saved
from service.learning.bound.mistake_bound import Bound
from service.learning.bound.shifting import ShiftingBound
from service.learning.bound.verdict import why_not_applicable
from service.learning.certainty.asking import Asking
from service.learning.certainty.sets import Sets
from service.learning.features.contract import Features
from service.learning.panel.panel import Panel
from service.learning.statistics import Statistics
from service.learning.vectors import Vector, Vectors

AnyVector = TypeVar("AnyVector", Vector, Vectors)

PLAIN = ("updated_at", "began_at", "version", "origin", "stepped_from", "drifts_recorded", "expired")
"""Attributes that a saved state holds as they are."""

PARTS = ("labels", "features", "classifier", "statistics", "bound", "sets", "asking")
"""What else it holds, beside the name, the settings and the time of creation."""

ORIGINS = ("fitted", "imported", "promoted")


class ModelState:
    """Settings, labels, features, weights, statistics and bound of one model."""

    __slots__ = (
        "amended",
        "asking",
        "began_at",
        "bound",
        "classifier",
        "contest",
        "created_at",
        "drifts_recorded",
        "evicted",
        "expired",
        "features",
        "labels",
        "name",
        "origin",
        "panel",
        "sets",
        "settings",
        "statistics",
        "stepped_from",
        "updated_at",
        "version",
    )

    def __init__(self, created: ModelCreated) -> None:
        self.name = created.model
        self.settings = ADDED_SETTINGS | created.settings
        self.created_at = self.updated_at = created.at
        self.version = 0
        self.contest: Contest | None = None
        self.amended: Amendments | None = None
        self.begin(created.at, None, created.ask_key)

    def begin(self, at: int, dimension: int | None, ask_key: str | None) -> None:
        """Everything at its start, as the settings have it; only a dimension that was fixed before stays."""
        self.began_at = at
        self.labels = Labels(self.settings["labels"] or ())
        self.features = new_features(self.settings)
        if self.features.dimension is None:
            self.features.dimension = dimension
        self.origin: str | None = None
        self.stepped_from: int | None = None
        """The version of state that began it, if older: a replay of all its events may count otherwise now."""
        self.classifier = new_classifier(self.settings, self.labels)
        self.panel = self.classifier if isinstance(self.classifier, Panel) else None
        self.classifier.grow(self.features.size())
        self.statistics = Statistics(forgets=self.settings["rules"] >= 2)
        self.bound: Bound | None = None
        learner = self.settings["learner"]
        if why_not_applicable(self.settings, None) is None:
            given = self.bias_value, learner["eta0"], self.settings["declared_margin"]
            self.bound = ShiftingBound(*given, learner["forget"]) if "forget" in learner else Bound(*given)
        coverage, ask = self.settings["coverage"], self.settings["ask"]
        self.sets = Sets(wanted=coverage) if coverage is not None else None
        self.asking: Asking | None = None
        if ask is not None:
            self.asking = Asking(
                ask["b"], learner.get("eta0", 1.0), rules=self.settings["rules"], key=ask_key
            )
        self.drifts_recorded = 0
        self.expired = 0
        self.evicted: Evictions | None = None
        if "challengers" in self.settings:
            self.contest = Contest.begin(self, self.contest)

    @property
    def champion_number(self) -> int:
        """The number of the learner that serves; 0 of the only one."""
        return 0 if self.contest is None else self.contest.number

    @property
    def ask_key(self) -> str | None:
        """The secret of a model with `ask`."""
        return None if self.asking is None else self.asking.key

    @property
    def bias_value(self) -> float | None:
        return self.settings["bias_value"] if self.settings["bias"] else None

    @property
    def revealed(self) -> int:
        return self.statistics.revealed

    @property
    def mistakes(self) -> int:
        return self.statistics.mistakes

    @property
    def updates(self) -> int:
        return self.statistics.updates

    def serve(self, z: Vector) -> Served:
        """What a prediction for a vector is, now; changes nothing."""
        last = self.statistics.confusion.last if self.settings["rules"] >= 2 else None
        if self.panel is not None:
            return serve_vote(self.panel, z, self.statistics, self.sets, self.asking, last)
        chosen, score, gap = self.classifier.decide(z)
        calibration = self.statistics.calibration
        standing = calibration.standing(gap) if chosen >= 0 else NO_STANDING
        weight = self.bound.weight if self.bound is not None else 0.0
        if self.sets is None and self.asking is None:
            return chosen, score, Certainty(*standing, weight, last_class=last)
        among = self.sets.serve(calibration.leads(self.classifier.behind(z))) if self.sets else None
        asked = self.asking.probability(gap) if self.asking else None
        return chosen, score, Certainty(*standing, weight, among, asked, last_class=last)

    def predict(self, example: Any) -> Served:
        """What a prediction for an example is, now, with what challengers say of it; changes nothing."""
        z = self.features.vector(example)
        served = self.serve(z)
        return served if self.contest is None else self.contest.shadowed(self, example, z, served)

    def whole_round(self, example: Any, label: Label, at: int, weight: float = 1.0) -> Outcome:
        """Predict by the weights as they are, and learn the label at once. For `apply` only."""
        z = self.features.vector(example)
        served = self.serve(z)
        if self.contest is not None:
            served = self.contest.shadowed(self, example, z, served)
        chosen, score, certainty = served
        known = z if self.features.is_fixed else None
        truth, seen = self.class_of(label), Seen(at, certainty)
        outcome = self.learn_round(example, truth, chosen, score, at, seen, weight, known)
        return outcome if certainty.set is None else replace(outcome, set=certainty.set)

    def learn_round(
        self,
        example: Any,
        truth: int,
        served: int,
        score: float,
        at: int,
        seen: Seen,
        weight: float,
        z_served: Vector | None = None,
    ) -> Outcome:
        """Learn one revealed round and count it. For `apply` only.

        `truth` and `served` are classes, `served` -1 where no label could be served; `score` is what was served with
        it, and `seen` what else was true then. `z_served` is the example's vector, if the prediction was made by the
        weights as they are and the example teaches nothing about the features themselves.
        """
        class_weights = self.settings["class_weights"]
        if class_weights is not None:
            weight *= class_weights.get(text_of(self.labels.values[truth]), 1.0)
        z = z_served
        if z is None:
            anew = self.features.absorb(example)
            if self.features.dimension == 0:  # names may be new
                self.classifier.grow(self.features.size())
            if anew is not None:
                self.classifier.unsettle(anew)
            z = self.features.vector(example)
        mistake = served != truth
        certainty = seen.certainty
        standing = no_change = None
        if certainty is not None and certainty.last_class is not None:
            no_change = 0 if seen.before_reset else certainty.last_class
        if certainty is not None and served >= 0:
            standing = certainty.gap, certainty.lead, certainty.probability
        # The weights may have moved since the prediction was served; the bound needs the score by these.
        is_past = z_served is None or self.contest is not None
        score_now = self.classifier.decide(z)[1] if mistake and is_past and self.bound is not None else score
        if self.contest is not None:
            updated, standing = self.contest.learn(self, example, z, truth, served, at, seen, weight)
        elif self.panel is None:
            updated = self.classifier.learn(z, truth, served, weight)
        else:
            updated = learn_vote(self.panel, z, truth, served, seen, weight)
        self.version += 1
        statistics = self.statistics
        statistics.observe(
            truth,
            served,
            at_us=at,
            predicted_at_us=seen.at,
            updated=updated,
            stale_updates=seen.stale_updates,
            standing=standing,
            weight=weight,
            no_change=no_change,
        )
        if self.bound is not None:
            x = self.without_bias(z)
            self.bound.observe(
                x.values,
                2 * truth - 1,
                updated,
                score_now,
                seen.stale_updates,
                seen.stale_weight,
                weight,
                x.indices,
            )
        if self.sets is not None or self.asking is not None:
            self._observe_served(truth, mistake, seen)
        probability = certainty.probability if certainty is not None and served >= 0 else None
        if self.contest is not None:
            self.contest.settle(self)
        return Outcome(
            served,
            score,
            mistake,
            updated,
            self.version,
            statistics.revealed,
            statistics.mistakes,
            probability,
        )

    def _observe_served(self, truth: int, mistake: bool, seen: Seen) -> None:
        """Take in what came of the set that was served, and of asking for the label or not."""
        certainty = seen.certainty
        if self.sets is not None and certainty is not None and not seen.before_reset:
            self.sets.observe(certainty.set, truth=truth, classes=len(self.labels.values), delay=seen.delay)
        if self.asking is not None:
            # By rules 1, what was predicted before a reset counted, though nothing else of that time did.
            is_counted = not seen.before_reset or self.asking.rules < 2
            probability = certainty.ask_probability if certainty is not None and is_counted else None
            if seen.was_asked is not None and probability is not None:
                self.asking.observe(probability, seen.was_asked, mistake)
            if self.bound is None:
                self.asking.follow(self.statistics.calibration.usual_gap / self.asking.eta)
            else:
                growth = (1 + 2 * self.bound.stale_updates_max) * self.bound.radius_z_sq
                self.asking.follow(growth / 2)

    def class_of(self, label: Label) -> int:
        """The class of a label; one that is new becomes a class."""
        known = self.labels.index(label)
        if known < 0:
            self.labels.add(label)
            self.classifier.add_class()
            if self.contest is not None:
                self.contest.add_class()
            known = len(self.labels.values) - 1
        return known

    def fix_dimension(self, dimension: int) -> None:
        if self.features.dimension is None:  # the first example wins
            self.features.dimension = dimension
            self.classifier.grow(self.features.size())
            if self.contest is not None:
                self.contest.fix_dimension(self)

    def learners(self) -> Iterator[tuple[dict[str, Any], Features]]:
        """The settings and the features of each learner, the champion first."""
        yield self.settings, self.features
        if self.contest is not None:
            for challenger in self.contest.challengers.values():
                yield {**self.settings, **challenger.settings}, challenger.features

    @property
    def bias_is_first(self) -> bool:
        """Features that grow have the bias constant at index 0, others at the end."""
        return self.bias_value is not None and self.settings["features"]["kind"] != "dense"

    def without_bias(self, z: AnyVector) -> AnyVector:
        if self.bias_value is None:
            return z
        if z.indices is not None:  # features that grow have it at index 0, others at the end
            return type(z)(z.values[..., 1:], z.indices[1:] - 1)
        return type(z)(z.values[..., :-1])

    def state(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "settings": self.settings,
            "created_at": self.created_at,
            **{name: getattr(self, name) for name in PLAIN},
            "labels": list(self.labels.values),
            "features": self.features.state(),
            "classifier": self.classifier.state(),
            "statistics": self.statistics.state(),
            "bound": None if self.bound is None else self.bound.state(),
            "sets": None if self.sets is None else self.sets.state(),
            "asking": None if self.asking is None else self.asking.state(),
            **({} if self.contest is None else {"contest": self.contest.state()}),
            **({} if self.amended is None else {"amended": self.amended.state()}),
            **({} if self.evicted is None else {"evicted": self.evicted.state()}),
        }

    def to_bytes(self) -> bytes:
        return encode_state(self.state())

    @classmethod
    def from_bytes(cls, data: StateBytes) -> Self:
        return cls.from_state(read_state(data))

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """The model that a state was taken from; `saved.BadState` names what no model with its settings can have."""
        has_contest = "challengers" in state["settings"]
        more = (
            *(("contest",) if has_contest else ()),
            *(name for name in ("amended", "evicted") if name in state),
        )
        names = ("name", "settings", "created_at", *PLAIN, *PARTS, *more)
        kept = dict(zip(names, saved.fields(state, *names), strict=True))
        model = cls(ModelCreated(model=kept["name"], at=kept["created_at"], settings=kept["settings"]))
        model.restore_parts(kept["labels"], kept["features"], kept["classifier"])
        forgets = model.settings["rules"] >= 2
        model.statistics = saved.within("statistics", Statistics.restore, kept["statistics"], forgets=forgets)
        model.bound = None
        if (bound := kept["bound"]) is not None:
            kind = ShiftingBound if "forget" in model.settings["learner"] else Bound
            model.bound = saved.within("bound", kind.restore, bound, model.classifier.weights_for(1))
        for name in ("sets", "asking"):
            part, is_set = getattr(model, name), kept[name] is not None
            saved.check(is_set == (part is not None), name, "does not fit the settings")
            if part is not None:
                setattr(model, name, saved.within(name, part.restored, kept[name]))
        if model.contest is not None:
            saved.within("contest", model.contest.restore, kept["contest"], model)
        if "amended" in kept:
            model.amended = Amendments.restore(kept["amended"])
        if "evicted" in kept:
            model.evicted = saved.within("evicted", Evictions.restore, kept["evicted"])
        for name in PLAIN:
            setattr(model, name, kept[name])
        model._check_plain()
        return model

    def restore_parts(self, labels: Any, features: Any, classifier: Any) -> None:
        """Restore labels, features and classifier, which have to fit each other."""
        self.labels = Labels.restore(labels, self.settings["labels"])
        saved.within("features", self.features.restore, features)
        classes, size = len(self.labels.values), self.features.size()
        saved.within("classifier", self.classifier.restore, classifier, classes, size)

    def _check_plain(self) -> None:
        for name in ("created_at", "updated_at", "began_at", "drifts_recorded", "expired"):
            saved.whole(getattr(self, name), name)
        saved.whole(self.version, "version", least=self.revealed)
        is_known = self.origin is None or (type(self.origin) is str and self.origin in ORIGINS)
        saved.check(is_known, "origin", f"must be null or one of {', '.join(ORIGINS)}")
        if self.stepped_from is not None:
            saved.whole(self.stepped_from, "stepped_from", STATE_VERSION - 1, 1)
