"""A model's history as it would have been: with labels that were corrected since, without rounds that do not count or
are to be forgotten, with other settings.

The same requests at the same times, but what was predicted is predicted again by the models of that world, so that a
late label counts against what would have been served there. What clients have decided stays: settings, resets, fits,
promotions by hand. What the fold decides by itself, such as promotions by evidence, it decides anew.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Sequence
from typing import Any, NamedTuple, TypeGuard

from msgspec import structs

from service.engine.models.amendments import Amendments, ServedAgain, with_served
from service.engine.models.block_fold import first_rounds
from service.engine.models.challenger import WarmLearner
from service.engine.models.champion_and_challengers import NO_CHALLENGERS
from service.engine.models.labels import Labels as LabelIndex
from service.engine.models.model import Model, model_from
from service.engine.models.outcomes import BlockOutcome, Outcome, answered_with
from service.engine.models.reclassing import Known, Learned, for_another
from service.engine.models.state_migrations import read_fit
from service.events import (
    Answered,
    AnyEvent,
    ChallengerAdded,
    ChallengerPromoted,
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
    RoundCorrected,
    RoundErased,
    RoundLearned,
    RoundRevealed,
    RoundsLearned,
    TagErased,
    TagForgotten,
    WarmStart,
    prediction_in,
)
from service.journal.codec import StateBytes, encode_state

Labels = dict[str, Label | None]
"""The labels that rounds should have had, by their ids; None for a voided one."""

LEFT_OUT = (RoundCorrected, ModelRebuilt, DriftDetected, RoundErased, TagForgotten, TagErased)
"""Events that tell of corrections and of what the fold finds by itself: none of them happens here."""

REPORT_EVENTS = 64
NOBODY = -1
"""No learner has this number."""


def labels_in(events: Iterable[AnyEvent]) -> Labels:
    """What the corrections among events say; of several for a round, the last one."""
    return {event.corrects: event.label for event in events if isinstance(event, RoundCorrected)}


def corrected(event: AnyEvent, labels: Labels) -> AnyEvent:
    """An event with the right label; in the place of a voided round, one that says so."""
    if not isinstance(event, RoundRevealed | RoundLearned) or event.prediction_id not in labels:
        return event
    label = labels[event.prediction_id]
    return RoundErased(event.model, event.at, 1) if label is None else structs.replace(event, label=label)


def erased(event: AnyEvent) -> AnyEvent:
    """What stands in the place of an event whose content is forgotten: as many versions, and counts of corrections."""
    match event:
        case RoundCorrected():
            return RoundCorrected(event.model, event.at, "", "", None, None, event.version)
        case PredictionVoided():
            return PredictionVoided(event.model, event.at, "")
        case RoundRevealed() | RoundLearned():
            return RoundErased(event.model, event.at, 1)
    return event


def is_warm(event: AnyEvent) -> bool:
    return isinstance(event, ChallengerAdded) and event.warm is not None


def is_conditional(event: AnyEvent) -> TypeGuard[ModelFitted | ChallengerPromoted]:
    """Whether a model takes it or not by what it is then, which may be something else once others are erased."""
    return isinstance(event, ModelFitted) or (
        isinstance(event, ChallengerPromoted) and event.prediction_id is None
    )


def _labels_of(events: Sequence[AnyEvent], places: Iterable[int]) -> list[Label]:
    """The labels that some of these events bring."""
    found: dict[tuple[type, Label], Label] = {}
    for place in places:
        event = events[place]
        labels: Sequence[Label | None] = ()
        if isinstance(event, RoundRevealed | RoundLearned):
            labels = [event.label]
        elif isinstance(event, RoundsLearned):
            labels = event.labels
        elif isinstance(event, RoundCorrected):
            labels = [event.label, event.former]
        found |= {(type(label), label): label for label in labels if label is not None}
    return list(found.values())


def _without(labels: LabelIndex, answered: Answered) -> Answered:
    return structs.replace(answered, served=None) if labels.index(answered.served) >= 0 else answered


def _known_after(model: Model) -> tuple[list[Label], int | None]:
    return list(model.labels.values), model.features.dimension


class Outdated(Exception):
    """What comes next concerns what has been played already: all of it has to be played from the start again."""


class World:
    """A model, and what it has served and not learned yet."""

    def __init__(self, model: Model, *, takes_fits: bool = True) -> None:
        self.model = model
        self.takes_fits = takes_fits
        self.mistakes = bytearray()
        """1 for each round in which it erred, else 0."""
        self.again: dict[str, ServedAgain] = {}
        """By id, predictions that it has served and whose labels have not come."""
        self.kept: dict[int, bytes] = {}
        """By the place of a rollback, what it was where that leads."""

    @classmethod
    def of(cls, first: Model, settings: dict[str, Any]) -> World:
        """One that begins with other settings, and with nothing learned, where the `first` model stands."""
        rules = first.settings["rules"]  # a reset in the history may have brought others
        model = Model(ModelCreated(first.name, first.created_at, {**settings, "rules": rules}, first.ask_key))
        alone = {name: value for name, value in first.settings.items() if name not in NO_CHALLENGERS}
        model.began_at, model.version = first.began_at, first.version
        if first.features.dimension is not None:
            model.fix_dimension(first.features.dimension)
        for label in first.labels.values:
            model.class_of(label)
        return cls(model, takes_fits=model.settings == alone)

    def serve(self, prediction: Prediction) -> None:
        model = self.model
        served, score, certainty = model.predict(model.features.decode(prediction.features))
        label = model.labels.label(served)
        self.again[prediction.prediction_id] = ServedAgain(
            prediction.prediction_id, prediction.at, label, score, model.version, model.updates, certainty
        )

    def keep(self, place: int, block: RoundsLearned | None) -> None:
        """Keep the model as it is here for a rollback that leads here, or into the block that comes next."""
        self.kept[place] = self.model.to_bytes()
        if block is not None:
            copy = Model.from_bytes(self.kept[place])
            copy.apply(block)
            self.kept[place] = copy.to_bytes()

    def apply(self, place: int, event: AnyEvent) -> None:
        match event:
            case RoundRevealed() if (again := self.again.pop(event.prediction_id, None)) is not None:
                event = with_served(event, again)
            case ModelRolledBack() if (state := self.kept.pop(place, None)) is not None:
                event = structs.replace(event, state=state)
            case PredictionVoided():
                self.again.pop(event.prediction_id, None)
        self.count(self.model.apply(event))
        # The marks in the history are of the live model's drifts. Each that the statistics find here is marked.
        self.model.drifts_recorded = self.model.statistics.drift_count

    def count(self, outcome: Outcome | BlockOutcome | None) -> None:
        if isinstance(outcome, BlockOutcome):
            self.mistakes += bytes(outcome.mistake)
        elif outcome is not None:
            self.mistakes.append(outcome.mistake)

    def follow(
        self, place: int, event: AnyEvent, version: int, after: tuple[list[Label], int | None]
    ) -> None:
        """Take what another world took at a place, which has brought it to this version. `after`: its classes and its
        dimension after a fit."""
        match event:
            case RoundRevealed() | RoundLearned() | RoundsLearned() | ModelReset() | ModelRolledBack():
                self.apply(place, event)
            case DimensionFixed() | PredictionsExpired():
                self.apply(place, event)
            case ModelFitted() if self.takes_fits:
                self.apply(place, event)
            case _:  # a fit's weights, a challenger, a mark: of the other world only
                self.model.updated_at = max(self.model.updated_at, event.at)
        if isinstance(event, ModelFitted):  # it may bring classes, and the dimension
            labels, dimension = after
            for label in labels:
                self.model.class_of(label)
            if dimension is not None:
                self.model.fix_dimension(dimension)
        self.model.version = version

    def learner_bytes(self, of: Model) -> bytes:
        """What its learner has become, for a challenger of a model that is to go on from there."""
        model = self.model
        learner = WarmLearner(
            of.began_at,
            of.revealed,
            list(model.labels.values),
            model.features.state(),
            model.classifier.state(),
            model.statistics.calibration.state(),
        )
        assert learner.labels == of.labels.values[: len(learner.labels)]
        return encode_state(learner._asdict())


class Newcomer:
    """A challenger that learns the history of a corrected model before it enters, as it had that of the live one."""

    def __init__(self, event: ChallengerAdded, begins: int, ends: int) -> None:
        """`begins` and `ends`: the places from which on and before which it learns."""
        self.event = event
        self.begins = begins
        self.ends = ends
        self.waiting: list[Prediction] = []
        """Predictions that wait where it begins."""
        self.world: World | None = None

    def come_to(self, place: int, model: Model) -> None:
        """Begin, or be ready to enter, if this is the place. `model` is the corrected one there."""
        if place == self.begins:
            shared = {name: value for name, value in model.settings.items() if name not in NO_CHALLENGERS}
            self.world = World.of(model, shared | self.event.settings)
            for prediction in self.waiting:
                self.world.serve(prediction)
        if place == self.ends and self.world is not None:
            assert self.event.warm is not None
            mistakes, start = self.world.mistakes, self.event.warm
            warm = WarmStart(start.from_version, start.to_version, len(mistakes), sum(mistakes))
            self.event = structs.replace(self.event, warm=warm, state=self.world.learner_bytes(model))
            self.world = None


class Before(NamedTuple):
    """What the model really was before a fit or a challenger came."""

    known: Known
    settings: dict[str, Any]
    version: int
    began_at: int
    revealed: int
    after: tuple[list[Label], int | None]
    """Its classes and its dimension after that."""


class Counterfactual:
    """Played in pieces. What concerns a piece that was played already raises Outdated, but for corrections, which are
    left out if they come later than with the first piece."""

    def __init__(self, start: StateBytes | None, tried: Sequence[dict[str, Any]] = ()) -> None:
        """`start`: the model as it was at a place that no correction has changed; None if that is its birth.

        `tried`: settings of further worlds, which see what the model of this one sees.
        """
        self._start = start
        self._tried = tried
        self._is_begun = False
        self.labels: Labels = {}
        self.versions: list[int] = []
        """That of the model, as it really was, after each event."""
        self._before: dict[int, Before] = {}
        """By the places of fits and of challengers that enter warm."""
        self._told: set[str] = set()
        """Predictions whose places are known."""
        self._newcomers: dict[int, Newcomer] = {}
        """By the places where they enter."""
        self.instead: dict[int, AnyEvent] = {}
        """By place, fits and warm challengers as they are in this world."""
        self._only_gone: list[Label] = []
        """Labels that only events have brought which are to be as if they had never been."""
        self._answers: dict[int, list[Answered]] | None = None
        """By place, what whole rounds were answered with, if that is wanted."""

    def _begin(self, events: Sequence[AnyEvent], is_plain: bool) -> None:
        def first() -> Model:
            return model_from(events[0]) if self._start is None else Model.from_bytes(self._start)

        self._was = first()
        """The model as it really was."""
        self.own = World(self._was if is_plain else first())
        """As it would have been: the same, where nothing was corrected."""
        self.is_plain = is_plain
        self.first_version, self._first_at = self._was.version, self._was.updated_at
        self.others = [World.of(self._was, settings) for settings in self._tried]
        self.is_whole = self._start is None and isinstance(events[0], ModelCreated)
        """Whether it begins with nothing learned; else it begins at a snapshot, or with an import or a fork."""
        self._is_begun = True

    @property
    def model(self) -> Model:
        return self.own.model

    def play(
        self,
        events: Sequence[AnyEvent],
        waiting: Sequence[Prediction] = (),
        until: int | None = None,
        gone: Container[int] = (),
        report: Callable[[float], None] = lambda share: None,
    ) -> None:
        """Play the next events. `waiting` are the predictions that wait after them.

        With `until`, only up to where the model really was at that version. `gone` are the places of events that are to
        be as if they had never been.
        """
        begins = self._begins = len(self.versions)
        said = [erased(event) if place in gone else event for place, event in enumerate(events)]
        if places := [place for place in range(len(events)) if place in gone]:
            kept = LabelIndex(
                _labels_of(events, (place for place in range(len(events)) if place not in gone))
            )
            self._only_gone = [label for label in _labels_of(events, places) if kept.index(label) < 0]
        if not self._is_begun:
            self.labels = labels_in(said)
            is_plain = not self.labels and not any(isinstance(each, LEFT_OUT) for each in said)
            self._begin(events, is_plain and until is None)
        elif self.is_plain and any(
            isinstance(each, (RoundCorrected, RoundErased, ModelRebuilt)) for each in said
        ):
            raise Outdated
        self._fold(events)
        ids = {event.prediction_id for place, event in enumerate(events)
               if place in gone and isinstance(event, RoundRevealed)}  # fmt: skip
        if self.model.amended is not None:
            for prediction_id in ids:
                self.model.amended.served_again.pop(prediction_id, None)
        to_serve, to_keep = self._agenda(said, waiting)
        ends = len(said) if until is None else max(0, bisect_right(self.versions, until) - begins)
        for at, event in enumerate(said[:ends]):
            self._serve(at, to_serve.get(at, ()))
            self._keep(said, at, to_keep.get(at, ()))
            self._take(begins + at, event)
            if at % REPORT_EVENTS == 0:
                report(at / len(said))
        self._serve(ends, to_serve.get(ends, ()))
        if until is not None:
            self._take_part(said, ends, until)

    def trace(
        self, events: Sequence[AnyEvent], gone: Collection[int]
    ) -> tuple[dict[int, AnyEvent], list[Label]]:
        """What takes the places of others of these events once those that are `gone` are erased, and the labels that
        only these have brought. The events are the first that are played."""
        self._answers = {}
        self.play(events, gone=gone)
        instead = self.instead
        for place, event in enumerate(events):
            if is_conditional(event):
                rises = self.versions[place] - self._version_before(place)
                instead[place] = structs.replace(instead.get(place, event), rises=rises)
        only = LabelIndex([label for label in self._only_gone if self.model.labels.index(label) < 0])
        for place, event in enumerate(events):
            if isinstance(event, RoundRevealed) and only.index(event.served) >= 0:
                instead[place] = structs.replace(event, served=None)
            elif isinstance(event, RoundLearned) and event.answered is None and place in self._answers:
                (answered,) = self._answers[place]
                instead[place] = structs.replace(event, answered=_without(only, answered))
            elif isinstance(event, RoundsLearned) and event.answered is None and place in self._answers:
                answers = [_without(only, each) for each in self._answers[place]]
                instead[place] = structs.replace(event, answered=answers)
        return instead, only.values

    def _fold(self, events: Iterable[AnyEvent]) -> None:
        """What really happened."""
        was = self._was
        for event in events:
            before = None
            if isinstance(event, ModelFitted) or is_warm(event):
                before = Known.of(was), was.settings, was.version, was.began_at, was.revealed
            if not isinstance(event, ModelCreated | ModelImported):
                outcome = was.apply(event)
                if self.is_plain:
                    self.own.count(outcome)
                if self._answers is not None and isinstance(event, RoundLearned | RoundsLearned):
                    labels = outcome.labels if isinstance(outcome, BlockOutcome) else was.labels
                    some = outcome if isinstance(outcome, BlockOutcome) else [outcome] if outcome else []
                    self._answers[len(self.versions)] = [answered_with(labels, one) for one in some]
            if before is not None:
                self._before[len(self.versions)] = Before(*before, _known_after(was))
            self.versions.append(was.version)

    def _agenda(
        self, events: Sequence[AnyEvent], waiting: Sequence[Prediction]
    ) -> tuple[dict[int, list[tuple[Prediction, bool]]], dict[int, list[int]]]:
        """Before which of the events each prediction was served, and whether this world serves it or it was before the
        start; and before which each rollback leads. Who enters warm begins to learn at a place, too."""
        begins = self._begins
        to_serve: defaultdict[int, list[tuple[Prediction, bool]]] = defaultdict(list)
        to_keep: defaultdict[int, list[int]] = defaultdict(list)
        for at, event in enumerate(events):
            if isinstance(event, ModelRolledBack):
                is_older = (
                    event.to < self.first_version
                )  # then its state is taken, but other worlds have another
                place = -begins if is_older else min(at, bisect_right(self.versions, event.to) - begins)
                if place >= 0:
                    to_keep[place].append(at)
                elif self.others or not is_older:
                    raise Outdated
            elif isinstance(event, ChallengerAdded) and event.warm is not None and not self.is_plain:
                self._expect(begins + at, event, event.warm)
        made = [
            (prediction_in(event), at) for at, event in enumerate(events) if isinstance(event, RoundRevealed)
        ]
        for prediction, last in (*made, *((each, len(events)) for each in waiting)):
            if prediction.prediction_id not in self._told:
                self._told.add(prediction.prediction_id)
                found = self._place_of(prediction, events)
                if found is None:
                    self._take_as_it_was(prediction)
                served_at = min(last, found or 0)
                to_serve[served_at].append((prediction, found is not None))
                for newcomer in self._newcomers.values():
                    if served_at < newcomer.begins - begins <= last:
                        newcomer.waiting.append(prediction)
        return to_serve, to_keep

    def _take_as_it_was(self, p: Prediction) -> None:
        """Of what was served before the start only other worlds say something else."""
        known = {} if self.model.amended is None else self.model.amended.served_again
        if not self.is_plain and p.prediction_id not in known:
            self.own.again[p.prediction_id] = ServedAgain(
                p.prediction_id, p.at, p.served, p.score, p.version, p.updates, p.certainty
            )

    def _expect(self, at: int, event: ChallengerAdded, warm: WarmStart) -> None:
        """Let one learn anew that enters here, if its history did not begin before this one."""
        if warm.from_version < self.first_version:
            return
        begins = int(self._start is None)
        if warm.from_version > self.first_version:
            begins = bisect_left(self.versions, warm.from_version) + 1
        ends = min(at, bisect_right(self.versions, warm.to_version))
        if begins < self._begins:
            raise Outdated
        if begins <= ends:
            self._newcomers[at] = Newcomer(event, begins, ends)

    def _place_of(self, prediction: Prediction, events: Sequence[AnyEvent]) -> int | None:
        """How many of the events had been applied when a prediction was served; None if it was before all of them.

        By its version, and by its time where events have not raised that.
        """
        versions, version, begins = self.versions, prediction.version, self._begins
        if version < self.first_version or (version == self.first_version and prediction.at < self._first_at):
            return None
        place = 0 if version == self.first_version else bisect_left(versions, version) + 1
        last = bisect_right(versions, version)
        place = min(place, last)
        if place < begins and last >= begins:
            place = begins
        while begins <= place < last and events[place - begins].at <= prediction.at:
            place += 1
        return place - begins if place >= begins else None

    @property
    def _followers(self) -> list[World]:
        newcomers = (each.world for each in self._newcomers.values())
        return [*self.others, *(world for world in newcomers if world is not None)]

    def _serve(self, at: int, predictions: Iterable[tuple[Prediction, bool]]) -> None:
        for newcomer in self._newcomers.values():
            newcomer.come_to(self._begins + at, self.model)
        followers = self._followers
        for prediction, is_here in predictions:
            if is_here and not self.is_plain:
                self.own.serve(prediction)
            for world in followers:
                world.serve(prediction)

    def _keep(self, events: Sequence[AnyEvent], at: int, rollbacks: Iterable[int]) -> None:
        """Keep the models as they are here for the rollbacks that lead here, or into the block that comes next."""
        for place in rollbacks:
            event, block = events[place], events[at]
            assert isinstance(event, ModelRolledBack)
            missing = event.to - self._version_before(self._begins + at)
            is_within = isinstance(block, RoundsLearned) and missing > 0
            rounds = first_rounds(block, missing) if is_within and isinstance(block, RoundsLearned) else None
            if not self.is_plain and event.to >= self.first_version:
                self.own.keep(self._begins + place, rounds)
            for world in self._followers:
                world.keep(self._begins + place, rounds)

    def _version_before(self, place: int) -> int:
        return self.versions[place - 1] if place else self.first_version

    def _take(self, at: int, event: AnyEvent) -> None:
        event = self._here(at, corrected(event, self.labels))
        version, after = self.versions[at], self._before[at].after if at in self._before else ([], None)
        if not self.is_plain:
            model = self.model
            if isinstance(event, LEFT_OUT):
                model.updated_at = event.at
            elif not isinstance(event, ModelCreated | ModelImported):
                self.own.apply(at, event)
            version, after = model.version, _known_after(model)
        for world in self._followers:
            world.follow(at, event, version, after)

    def _here(self, at: int, event: AnyEvent) -> AnyEvent:
        """A fit, a promotion or a warm challenger as it is in this world."""
        if self.is_plain:
            return event
        if isinstance(event, ChallengerPromoted):
            return structs.replace(event, rises=None)  # it is taken, or not, by what is so here
        if isinstance(event, ModelFitted):
            event = self.instead[at] = self._fitted(event, self._before[at], self.versions[at])
        elif isinstance(event, ChallengerAdded) and event.warm is not None:
            newcomer = self._newcomers.pop(at, None)
            event = self._warmed(event, self._before[at]) if newcomer is None else newcomer.event
            self.instead[at] = event
        return event

    def _fitted(self, event: ModelFitted, before: Before, version: int) -> ModelFitted:
        if version == before.version:  # the model did not take it, nor does it here
            return structs.replace(event, labels=[], features=b"", classifier=b"", learner=NOBODY, rises=None)
        learned = Learned(event.labels, *read_fit(event.features, event.classifier))
        # A correction may have removed a class before the fit that only a round had brought which is to go.
        known = before.known._replace(labels=[*before.known.labels, *self._only_gone])
        made = for_another(learned, before.settings, known, Known.of(self.model))
        features = event.features if made.features is learned.features else encode_state(made.features)
        classifier = (
            event.classifier if made.classifier is learned.classifier else encode_state(made.classifier)
        )
        return structs.replace(
            event, labels=made.labels, features=features, classifier=classifier, rises=None
        )

    def _warmed(self, event: ChallengerAdded, before: Before) -> ChallengerAdded:
        """One whose history began before this one: with what it has learned, except for classes and names unknown
        here."""
        learner = WarmLearner.read(event.state)
        learned = Learned(learner.labels, learner.features, learner.classifier)
        here = Known.of(self.model)
        made = for_another(learned, before.settings | event.settings, before.known, here)
        missed = max(0, before.revealed - learner.revealed)
        learner = learner._replace(
            began_at=self.model.began_at if learner.began_at == before.began_at else learner.began_at,
            revealed=max(0, self.model.revealed - missed),
            labels=made.labels[: len(here.labels)],
            features=made.features,
            classifier=made.classifier,
        )
        return structs.replace(event, state=encode_state(learner._asdict()))

    def _take_part(self, events: Sequence[AnyEvent], ends: int, until: int) -> None:
        """Of a block in which the version lies, the rounds up to it."""
        reached = self._version_before(self._begins + ends)
        if reached < until and ends < len(events) and isinstance(block := events[ends], RoundsLearned):
            self.model.apply(first_rounds(block, until - reached))

    def state(self, waiting: Iterable[str]) -> bytes:
        """The model as it is now, with what the predictions that wait were served with in this world."""
        amended, again = Amendments(), self.own.again
        if self.model.amended is not None:
            amended.served_again |= self.model.amended.served_again
        amended.served_again |= {name: again[name] for name in waiting if name in again}
        return encode_state({**self.model.state(), "amended": amended.state()})
