"""A model's history through other settings: what they would have served, and what would have come of it."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from msgspec import structs

from service.engine.model.contest import NO_CHALLENGERS
from service.engine.model.model import Model, model_from
from service.engine.model.outcomes import BlockOutcome, Outcome
from service.events import (
    AnyEvent,
    DimensionFixed,
    Label,
    ModelCreated,
    ModelFitted,
    ModelImported,
    ModelReset,
    ModelRolledBack,
    PredictionsExpired,
    RoundLearned,
    RoundRevealed,
    RoundsLearned,
)
from service.journal.codec import StateBytes, encode_state
from service.learning.certainty.duel import Duel, Record

CURVE_POINTS = 100

Report = Callable[[float], None]
"""Called with the share of the events that have been played."""


@dataclass
class Past:
    """What happened to a model, from the oldest place that is kept: what it was there, and the events since."""

    start: StateBytes | None
    """Its state there; None if that is its birth, and then the first event made it."""
    events: list[AnyEvent]
    """`add` adds those that come later."""
    live: Model = field(init=False)
    """What it has become."""
    mistakes: bytearray = field(init=False)
    """1 for each round in which it erred, else 0."""
    versions: list[int] = field(init=False)
    """Its version after each event."""
    first: Model = field(init=False)
    """What it was at the start. Nobody changes it."""
    classes: dict[int, list[Label]] = field(init=False)
    """By the place of a fit, the labels that the model had after it: a fit may bring some."""

    def __post_init__(self) -> None:
        if self.start is None:
            self.first, self.live = model_from(self.events[0]), model_from(self.events[0])
        else:
            self.first, self.live = Model.from_bytes(self.start), Model.from_bytes(self.start)
        self.mistakes, self.versions, self.classes = bytearray(), [], {}
        events, self.events = self.events, []
        self.add(events)

    def add(self, events: list[AnyEvent]) -> None:
        """Take in what has happened since."""
        for event in events:
            if not isinstance(event, ModelCreated | ModelImported):
                _count(self.live.apply(event), self.mistakes)
            if isinstance(event, ModelFitted):
                self.classes[len(self.versions)] = list(self.live.labels.values)
            self.versions.append(self.live.version)
        self.events += events

    @property
    def is_whole(self) -> bool:
        """Whether it begins with nothing learned; else it begins at a snapshot, or with an import or a fork."""
        return self.start is None and isinstance(self.events[0], ModelCreated)

    def place_of(self, version: int) -> int:
        """How many of the events had been applied when the model was last at a version."""
        return bisect_right(self.versions, version)


class WentBack(Exception):
    """The live model was rolled back to a place, or corrected at one, that has been passed already."""


class OtherWorld:
    """A model with other settings that sees what the live one saw, and predicts when that predicted.

    The label of a late reveal counts against what this model would have served at the time of the prediction.
    With the settings of the live one it becomes that, to the bit. It knows the classes that the live one knew, in the
    same order.
    """

    def __init__(self, past: Past, settings: dict[str, Any]) -> None:
        self._past = past
        first = past.first
        self.mistakes = bytearray()
        settings = {
            **settings,
            "rules": first.settings["rules"],
        }  # a reset in the history may have brought others
        self.model = Model(ModelCreated(first.name, first.created_at, settings, first.ask_key))
        alone = {name: value for name, value in first.settings.items() if name not in NO_CHALLENGERS}
        self._is_the_same = self.model.settings == alone
        if not past.is_whole:  # else an event will tell
            self.model.began_at = first.began_at
            self.model.version = first.version
            if first.features.dimension is not None:
                self.model.fix_dimension(first.features.dimension)
            self._learn_classes(first.labels.values)
        self._played = 0
        """How many of the events."""
        self._to_predict: defaultdict[int, list[int]] = defaultdict(list)
        """Which reveals' predictions were served when so many events had been applied."""
        self._to_keep: defaultdict[int, list[int]] = defaultdict(list)
        """Which rollbacks lead back to that place."""
        self._ready: dict[int, AnyEvent] = {}
        """Reveals and rollbacks as they are in this world, by their place."""

    def play(self, report: Report) -> None:
        """Play the events that were not played yet."""
        events, first = self._past.events, self._played
        self._plan(first)
        for at in range(first, len(events)):
            self._look_ahead(at)
            self._take(at, self._ready.pop(at, events[at]))
            if at % 64 == 0:
                report((at - first) / (len(events) - first))
        self._played = len(events)
        # The marks in the history are of the live model's drifts.
        self.model.drifts_recorded = self.model.statistics.drift_count

    def _plan(self, first: int) -> None:
        """Note at which place each reveal's prediction was served, and to which place each rollback leads.

        What was served before the `first` place, which has been passed already, is served there. What is gone back to
        was not kept then, and WentBack says so.
        """
        past = self._past
        for at in range(first, len(past.events)):
            event = past.events[at]
            if isinstance(event, RoundRevealed):
                self._to_predict[max(first, min(at, past.place_of(event.version_seen)))].append(at)
            elif isinstance(event, ModelRolledBack):
                if (place := min(at, past.place_of(event.to))) < first:
                    raise WentBack
                self._to_keep[place].append(at)

    def _look_ahead(self, at: int) -> None:
        """Serve the predictions that were served at this place, and keep what will be gone back to."""
        model, events = self.model, self._past.events
        for place in self._to_predict.pop(at, ()):
            event = events[place]
            assert isinstance(event, RoundRevealed)
            served, score, certainty = model.predict(model.features.decode(event.features))
            self._ready[place] = structs.replace(
                event,
                served=model.labels.label(served),
                score=score,
                version_seen=model.version,
                updates_seen=model.updates,
                certainty=certainty,
            )
        for place in self._to_keep.pop(at, ()):
            self._ready[place] = structs.replace(events[place], state=model.to_bytes())

    def _take(self, at: int, event: AnyEvent) -> None:
        match event:
            case RoundRevealed() | RoundLearned() | RoundsLearned():
                _count(self.model.apply(event), self.mistakes)
            case ModelReset() | ModelRolledBack() | DimensionFixed() | PredictionsExpired():
                self.model.apply(event)
            case ModelFitted() if self._is_the_same:
                self.model.apply(event)
            case _:  # a fit's weights, a challenger, a mark: of the live model only
                self.model.updated_at = max(self.model.updated_at, event.at)
        self._learn_classes(self._past.classes.get(at, ()))
        self.model.version = self._past.versions[at]

    def _learn_classes(self, labels: Iterable[Label]) -> None:
        for label in labels:
            self.model.class_of(label)

    def learner_bytes(self) -> bytes:
        """What its learner has become, for a challenger of the live model that is to go on from there."""
        model, live = self.model, self._past.live
        known = len(model.labels.values)
        assert model.labels.values == live.labels.values[:known]
        return encode_state(
            {
                "began_at": live.began_at,
                "revealed": live.revealed,
                "labels": model.labels.values,
                "features": model.features.state(),
                "classifier": model.classifier.state(),
                "calibration": model.statistics.calibration.state(),
            }
        )


def compare(past: Past, worlds: list[OtherWorld], confidence: float) -> list[dict[str, Any]]:
    """What is to be told of each world, in their order, beside the live model."""
    return [
        figures(world.model, world.mistakes, confidence)
        | _duel(world.mistakes, past.mistakes).report(confidence, factor=len(worlds))
        for world in worlds
    ]


def figures(model: Model, mistakes: bytearray, confidence: float) -> dict[str, Any]:
    record = Record()
    for mistake in mistakes:
        record.observe(bool(mistake))
    return record.report(confidence) | {"updates": model.updates, "curve": curve(mistakes)}


def curve(mistakes: bytearray) -> list[dict[str, float]]:
    """The error up to some of the rounds, at most CURVE_POINTS of them, the last one included.

    >>> curve(bytearray([1, 0, 0, 1]))
    [{'round': 1, 'error_rate': 1.0}, {'round': 2, 'error_rate': 0.5}, {'round': 3, 'error_rate': 0.3333333333333333}, \
{'round': 4, 'error_rate': 0.5}]
    """
    rounds = len(mistakes)
    points = min(rounds, CURVE_POINTS)
    places = np.linspace(1, rounds, points).round().astype(int) if points else np.empty(0, int)
    sums = np.cumsum(np.frombuffer(mistakes, np.uint8), dtype=np.int64)
    return [{"round": int(at), "error_rate": float(sums[at - 1] / at)} for at in places]


def _duel(mistakes: bytearray, of_live: bytearray) -> Duel:
    duel = Duel()
    for mistaken, live_mistaken in zip(mistakes, of_live, strict=True):
        duel.observe(bool(mistaken), bool(live_mistaken))
    return duel


def _count(outcome: Outcome | BlockOutcome | None, mistakes: bytearray) -> None:
    if isinstance(outcome, BlockOutcome):
        mistakes += bytes(outcome.mistake)
    elif outcome is not None:
        mistakes.append(outcome.mistake)
