"""The same requests in two worlds: one in which some labels came wrong and were corrected later, and one in which all
were right from the first."""

from random import Random
from typing import Any

from msgspec import structs

from service.engine.fleet.fold import rise_by, step
from service.engine.models.block_fold import first_rounds, table_of
from service.engine.models.champion_and_challengers import NO_CHALLENGERS
from service.engine.models.model import Model
from service.engine.models.reclassing import Known, Learned, for_another
from service.engine.replay.counterfactual import Counterfactual
from service.engine.replay.erasing import replacements
from service.events import (
    AnyEvent,
    ChallengerAdded,
    ModelCreated,
    ModelFitted,
    ModelRebuilt,
    ModelReset,
    ModelRolledBack,
    Prediction,
    PredictionsExpired,
    PredictionVoided,
    RoundCorrected,
    RoundLearned,
    RoundRevealed,
    RoundsLearned,
    TagErased,
    TagForgotten,
    WarmStart,
    revealed,
)
from service.journal.codec import decode_event, encode, encode_state
from service.journal.protocol import Recorded
from tests.support.doctored_exports import NOW

OF_ITS_OWN = ("version", "updated_at", "amended")
"""What a world in which there was nothing to correct does not share."""


class TwoWorlds:
    """`wrong` is what a service has, `right` what it should have come to. Every event goes through the codec."""

    def __init__(self, settings: dict[str, Any], chance: Random) -> None:
        created = ModelCreated("m", NOW, settings)
        self.wrong, self.right = Model(created), Model(created)
        self.events: list[AnyEvent] = [created]
        self.right_events: list[AnyEvent] = [created]
        self.snapshots: list[tuple[int, int, bytes | None]] = [(0, 0, None)]
        """After how many events, at which version, and the state."""
        self.waiting: dict[str, tuple[Prediction, Prediction]] = {}
        self.done: dict[str, tuple[int, Any, Any]] = {}
        """By the id of a finished round: the version after it, the label that it has now and the right label."""
        self.rights = {0: self.right.to_bytes()}
        """By versions of `wrong`, what `right` was last at them."""
        self.at = NOW
        self._number = 0
        self._chance = chance

    def id(self) -> str:
        self._number += 1
        return f"p{self._number}"

    def now(self) -> int:
        self.at += self._chance.choice((1, 1_000, 3_000_000))
        return self.at

    def apply(self, event: AnyEvent, right: AnyEvent | None) -> None:
        read = decode_event(encode(event))
        rise = rise_by(self.wrong, read)
        before = self.wrong.version
        self.wrong.apply(read)
        assert self.wrong.version == before + rise
        self.events.append(read)
        if right is not None:
            self.right_events.append(decode_event(encode(right)))
            self.right.apply(self.right_events[-1])
        self.rights[self.wrong.version] = self.right.to_bytes()

    # What clients do

    def predict(self, sent: Any) -> None:
        name, at = self.id(), self.now()
        self.waiting[name] = (
            self._served(self.wrong, name, at, sent),
            self._served(self.right, name, at, sent),
        )

    @staticmethod
    def _served(model: Model, name: str, at: int, sent: Any) -> Prediction:
        example = model.features.read(sent)
        chosen, score, certainty = model.predict(example)
        label, features = model.labels.label(chosen), model.features.encode(example)
        return Prediction(name, "m", at, features, label, score, model.version, model.updates, certainty)

    def reveal(self, name: str, label: Any, right: Any) -> None:
        """`right` is None for a round that will be voided."""
        at, (in_wrong, in_right) = self.now(), self.waiting.pop(name)
        weight = self._chance.choice((1.0, 1.0, 0.5, 3.0))
        self.apply(
            revealed(in_wrong, at, label, weight),
            None if right is None else revealed(in_right, at, right, weight),
        )
        self.done[name] = self.wrong.version, label, right

    def learn(self, sent: Any, label: Any, right: Any) -> None:
        name, at = self.id(), self.now()
        features = self.wrong.features.encode(self.wrong.features.read(sent))
        event = RoundLearned("m", at, name, label, features)
        self.apply(event, None if right is None else structs.replace(event, label=right))
        self.done[name] = self.wrong.version, label, right

    def learn_block(self, sent: list[Any], labels: list[Any]) -> None:
        tables = [
            table_of(rows) for rows in self.wrong.features.rows_of(list(map(self.wrong.features.read, sent)))
        ]
        event = RoundsLearned("m", self.now(), labels, tables)
        for count in range(1, len(labels)):
            right = Model.from_bytes(self.right.to_bytes())
            right.apply(first_rounds(event, count))
            self.rights[self.wrong.version + count] = right.to_bytes()
        self.apply(event, event)

    def fit(self) -> None:
        """The weights of a job, made from a copy of the model; the right model has those of its classes."""
        at, model = self.now(), self.wrong
        learned = Learned(list(model.labels.values), model.features.state(), model.classifier.state())
        right = for_another(learned, model.settings, Known.of(model), Known.of(self.right))
        self.apply(*(
            ModelFitted("m", at, "job", labels, encode_state(features), encode_state(classifier), {},
                        model.champion_number)
            for labels, features, classifier in (learned, right)
        ))  # fmt: skip

    def enter_warm(self, own: dict[str, Any]) -> None:
        """A challenger that has learned the history before: in each world that one's."""
        at, name = self.now(), f"warm-{self.id()}"
        self.apply(*(
            self._warm(events, model, at, name, own)
            for events, model in ((self.events, self.wrong), (self.right_events, self.right))
        ))  # fmt: skip

    @staticmethod
    def _warm(events: list[AnyEvent], model: Model, at: int, name: str, own: dict[str, Any]) -> AnyEvent:
        shared = {key: value for key, value in model.settings.items() if key not in NO_CHALLENGERS}
        history = Counterfactual(None, [shared | own])
        history.play(events)
        (world,) = history.others
        start = WarmStart(0, model.version, len(world.mistakes), sum(world.mistakes))
        return ChallengerAdded("m", at, name, own, start, world.learner_bytes(history.model))

    def void(self, name: str) -> None:
        self.waiting.pop(name)
        self.apply(PredictionVoided("m", self.now(), name), None)

    def expire(self, count: int) -> None:
        through = 0
        for name in list(self.waiting)[:count]:
            through = self.waiting.pop(name)[0].at
        self.both(PredictionsExpired("m", self.now(), count, through))

    def both(self, event: AnyEvent) -> None:
        self.apply(event, event)

    def reset(self) -> None:
        self.both(ModelReset("m", self.now()))
        self.waiting.clear()

    def roll_back(self, to: int) -> None:
        amended = self.wrong.amended
        if amended is not None and amended.spoils(to) is not None:
            state = self.world_since(to, until=to).to_bytes()
        else:
            state = self.plain(to).to_bytes()
        at = self.now()
        right = Model.from_bytes(self.rights[to]).version
        self.apply(ModelRolledBack("m", at, to, state), ModelRolledBack("m", at, right, self.rights[to]))
        self.waiting.clear()

    def plain(self, to: int) -> Model:
        """What `wrong` was at a version."""
        model = Model(self.events[0])  # type: ignore[arg-type]
        for event in self.events[1:]:
            if step(model, event, to):
                break
        model.amended = None
        return model

    # What is put right

    def correct(self, name: str, label: Any) -> None:
        version, former, right = self.done[name]
        key = f"{name} corrected {self.id()}"
        self.apply(RoundCorrected("m", self.now(), key, name, label, former, version), None)
        self.done[name] = version, label, right

    def forget(self, names: list[str]) -> None:
        """Finished rounds of a tag, none of which the right world has."""
        going = [
            place
            for place, event in enumerate(self.events)
            if (isinstance(event, RoundRevealed | RoundLearned) and event.prediction_id in names)
            or (isinstance(event, RoundCorrected) and event.corrects in names)
        ]
        before = next(at for place, at, _ in reversed(self.good_snapshots()) if place <= min(going))
        self.apply(TagForgotten("m", self.now(), going, len(names), before + 1), None)
        for name in names:
            del self.done[name]

    def good_snapshots(self) -> list[tuple[int, int, bytes | None]]:
        """Those that no rebuild has replaced."""
        amended = self.wrong.amended
        return [each for each in self.snapshots if amended is None or amended.spoils(each[1]) is None]

    def erase(self) -> None:
        """As the service does it, once the model is rebuilt."""
        amended = self.wrong.amended
        if amended is None or amended.erasing is None:
            return
        going, before = set(amended.erasing), self.versions()
        recorded = [Recorded(place, event) for place, event in enumerate(self.events)]
        replaced, rebuilt_at = replacements(recorded[min(going) :], going)
        since = min(event.since for event in self.events[min(going) :] if isinstance(event, ModelRebuilt))
        first, state = self.start_before(since - 1)
        traced, _ = Counterfactual(state).trace(self.events[first:], {place - first for place in going})
        found = {first + place: event for place, event in traced.items()}
        replaced = {place: found[place] for place in found if min(going) < place < rebuilt_at} | replaced
        for place, event in replaced.items():
            self.events[place] = decode_event(encode(event))
        self.snapshots = [each for each in self.snapshots if not min(going) <= each[0] - 1 < rebuilt_at]
        self.apply(TagErased("m", self.now(), amended.forgettings), None)
        assert self.versions()[:-1] == before

    def versions(self) -> list[int]:
        """The version after each event, by what the journal has."""
        model = Model(self.events[0])  # type: ignore[arg-type]
        versions = [model.version]
        for event in self.events[1:]:
            model.apply(event)
            versions.append(model.version)
        assert model.to_bytes() == self.wrong.to_bytes()
        return versions

    def save(self) -> None:
        self.snapshots.append((len(self.events), self.wrong.version, self.wrong.to_bytes()))

    def start_before(self, version: int) -> tuple[int, bytes | None]:
        """The newest snapshot from before a version that no rebuild has replaced."""
        return next((place, state) for place, at, state in reversed(self.good_snapshots()) if at <= version)

    def world_since(self, version: int, until: int | None = None) -> Model:
        place, state = self.start_before(version)
        world = Counterfactual(state)
        world.play(self.events[place:], (), until)
        made = world.model
        made.amended = None
        return made

    def rebuild(self) -> None:
        """As the service does it."""
        amended = self.wrong.amended
        if amended is None or not amended.is_due:
            return
        through, since = amended.recorded, min(amended.due)
        place, state = self.start_before(since - 1)
        world = Counterfactual(state)
        gone = {at - place for at in amended.erasing or ()}
        world.play(self.events[place:], [wrong for wrong, _ in self.waiting.values()], gone=gone)
        event = ModelRebuilt(
            "m", self.now(), self.wrong.place, through, since, world.state(self.waiting.keys())
        )
        self.apply(event, None)
        assert self.wrong.amended is not None and not self.wrong.amended.is_due

    def assert_the_same(self) -> None:
        wrong, right = self.wrong.state(), self.right.state()
        for state in (wrong, right):
            for name in OF_ITS_OWN:
                state.pop(name, None)
            state["drifts_recorded"] = 0
        assert sorted(wrong) == sorted(right)
        for state in (wrong, right):
            for challenger in state.get("contest", {"challengers": {}})["challengers"].values():
                if "warm" in challenger:
                    del challenger["warm"][:2]  # by the versions of its own world
        for name in wrong:
            assert encode_state({name: wrong[name]}) == encode_state({name: right[name]}), name
