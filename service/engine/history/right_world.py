"""A model's history as it would have been had every label been right from the first, and nothing void been there.

The same requests at the same times, but what was predicted is predicted again by the model of that world, so that a
late label counts against what would have been served there. What clients have decided stays: settings, resets, fits,
promotions by hand. What the fold decides by itself, such as promotions by evidence, it decides anew.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Container, Iterable, Sequence

from msgspec import structs

from service.engine.model.amendments import Amendments, ServedAgain, with_served
from service.engine.model.block_fold import first_rounds
from service.engine.model.model import Model, model_from
from service.events import (
    AnyEvent,
    ChallengerPromoted,
    DriftDetected,
    Label,
    ModelCreated,
    ModelFitted,
    ModelImported,
    ModelRebuilt,
    ModelRolledBack,
    Prediction,
    PredictionVoided,
    RoundCorrected,
    RoundErased,
    RoundLearned,
    RoundRevealed,
    RoundsLearned,
    TagErased,
    TagForgotten,
    prediction_in,
)
from service.journal.codec import StateBytes, encode_state

Labels = dict[str, Label | None]
"""The labels that rounds should have had, by their ids; None for one that does not count."""


def labels_in(events: Iterable[AnyEvent]) -> Labels:
    """What the corrections among events say; of several for a round, the last one."""
    return {event.corrects: event.label for event in events if isinstance(event, RoundCorrected)}


def corrected(event: AnyEvent, labels: Labels) -> AnyEvent:
    """An event with the right label; in the place of a round that does not count, one that says so."""
    if not isinstance(event, RoundRevealed | RoundLearned) or event.prediction_id not in labels:
        return event
    label = labels[event.prediction_id]
    return RoundErased(event.model, event.at, 1) if label is None else structs.replace(event, label=label)


def _as_it_was(prediction: Prediction) -> ServedAgain:
    p = prediction
    return ServedAgain(p.prediction_id, p.at, p.served, p.score, p.version, p.updates, p.certainty)


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


class Outdated(Exception):
    """What comes next leads back to where this world has been already: it has to be played from the start again."""


class RightWorld:
    """Played in pieces. The corrections have to be in the first one; those that come later are left out."""

    def __init__(self, start: StateBytes | None) -> None:
        """`start`: the model as it was before the oldest round that was corrected; None if that is its birth."""
        self._start = start
        self._labels: Labels | None = None
        self._versions: list[int] = []
        """That of the model, as it really was, after each event."""
        self._again: dict[str, ServedAgain] = {}
        """By id, predictions that this world has served and whose labels have not come."""
        if start is not None:
            self.model, self._was = Model.from_bytes(start), Model.from_bytes(start)
            self._first_version = self.model.version

    @property
    def _played(self) -> int:
        return len(self._versions)

    def play(
        self,
        events: Sequence[AnyEvent],
        waiting: Sequence[Prediction] = (),
        until: int | None = None,
        gone: Container[int] = (),
    ) -> None:
        """Play the next events. `waiting` are the predictions that wait after them.

        With `until`, only up to where the model really was at that version. `gone` are the places of events that are to
        be as if they had never been.
        """
        begins = self._begins = self._played
        if self._start is None and not begins:
            self.model, self._was = model_from(events[0]), model_from(events[0])
            self._first_version = self.model.version
        for event in events:
            if not isinstance(event, ModelCreated | ModelImported):
                self._was.apply(event)
            self._versions.append(self._was.version)
        self._forget({event.prediction_id for place, event in enumerate(events)
                      if place in gone and isinstance(event, RoundRevealed)})  # fmt: skip
        events = [erased(event) if place in gone else event for place, event in enumerate(events)]
        if self._labels is None:
            self._labels = labels_in(events)
        to_serve, to_keep = self._agenda(events, begins, waiting)
        ends = len(events) if until is None else bisect_right(self._versions, until) - begins
        for at, event in enumerate(events[:ends]):
            self._serve(to_serve.get(at, ()))
            self._keep(events, begins, at, to_keep.get(at, ()))
            self._take(begins + at, event)
        self._serve(to_serve.get(ends, ()))
        if until is not None:
            self._take_part(events, begins, ends, until)

    def _forget(self, ids: Iterable[str]) -> None:
        """Leave out what a rebuild before this one has served predictions again with, whose rounds have never been."""
        if self.model.amended is not None:
            for prediction_id in ids:
                self.model.amended.served_again.pop(prediction_id, None)

    def _agenda(
        self, events: Sequence[AnyEvent], begins: int, waiting: Sequence[Prediction]
    ) -> tuple[dict[int, list[Prediction]], dict[int, list[int]]]:
        """Before which of the events each prediction was served, and before which each rollback leads."""
        to_serve: defaultdict[int, list[Prediction]] = defaultdict(list)
        to_keep: defaultdict[int, list[int]] = defaultdict(list)
        self._kept: dict[int, bytes] = {}
        made = [prediction_in(event) for event in events if isinstance(event, RoundRevealed)]
        known = {} if self.model.amended is None else self.model.amended.served_again
        for prediction in (*made, *waiting):
            if prediction.prediction_id in self._again:
                continue
            place = self._place_of(prediction, events, begins)
            if place is not None:
                to_serve[place].append(prediction)
            elif prediction.prediction_id not in known:  # as it was, but by the versions of this world
                self._again[prediction.prediction_id] = _as_it_was(prediction)
        for at, event in enumerate(events):
            if isinstance(event, ModelRolledBack) and event.to >= self._first_version:
                place = bisect_right(self._versions, event.to) - begins
                if place < 0:
                    raise Outdated
                to_keep[place].append(at)
        return to_serve, to_keep

    def _place_of(self, prediction: Prediction, events: Sequence[AnyEvent], begins: int) -> int | None:
        """How many of the events had been applied when a prediction was served; None if it was before all of them.

        By its version, and by its time where events have not raised that.
        """
        versions, version = self._versions, prediction.version
        if version < self._first_version:
            return None
        place = 0 if version == self._first_version else bisect_left(versions, version) + 1
        last = bisect_right(versions, version)
        place = min(place, last)
        if place < begins and last >= begins:
            place = begins
        while begins <= place < last and events[place - begins].at <= prediction.at:
            place += 1
        return place - begins if place >= begins else None

    def _serve(self, predictions: Iterable[Prediction]) -> None:
        model = self.model
        for each in predictions:
            served, score, certainty = model.predict(model.features.decode(each.features))
            label = model.labels.label(served)
            self._again[each.prediction_id] = ServedAgain(
                each.prediction_id, each.at, label, score, model.version, model.updates, certainty
            )

    def _keep(self, events: Sequence[AnyEvent], begins: int, at: int, rollbacks: Iterable[int]) -> None:
        """Keep the model as it is here for the rollbacks that lead here, or into the block that comes next."""
        for place in rollbacks:
            event = events[place]
            assert isinstance(event, ModelRolledBack)
            self._kept[place] = self.model.to_bytes()
            reached = self._versions[begins + at - 1] if begins + at else self._first_version
            block = events[at]
            if isinstance(block, RoundsLearned) and event.to > reached:
                copy = Model.from_bytes(self._kept[place])
                copy.apply(first_rounds(block, event.to - reached))
                self._kept[place] = copy.to_bytes()

    def _take(self, at: int, event: AnyEvent) -> None:
        assert self._labels is not None
        event = corrected(event, self._labels)
        model = self.model
        match event:
            case ModelCreated() | ModelImported():
                return
            case (
                RoundCorrected()
                | ModelRebuilt()
                | DriftDetected()
                | RoundErased()
                | TagForgotten()
                | TagErased()
            ):
                model.updated_at = event.at  # none of them is in this world
                return
            case PredictionVoided():
                self._again.pop(event.prediction_id, None)
            case RoundRevealed() if (again := self._again.pop(event.prediction_id, None)) is not None:
                event = with_served(event, again)
            case ModelFitted() | ChallengerPromoted():
                event = structs.replace(event, rises=None)  # it is taken, or not, by what is so here
            case ModelRolledBack() if (state := self._kept.pop(at - self._begins, None)) is not None:
                event = structs.replace(event, state=state)
        model.apply(event)
        # Each drift that the statistics find is marked.
        model.drifts_recorded = model.statistics.drift_count

    def _take_part(self, events: Sequence[AnyEvent], begins: int, ends: int, until: int) -> None:
        """Of a block in which the version lies, the rounds up to it."""
        reached = self._versions[begins + ends - 1] if begins + ends else self._first_version
        if reached < until and ends < len(events) and isinstance(block := events[ends], RoundsLearned):
            self.model.apply(first_rounds(block, until - reached))

    def state(self, waiting: Iterable[str]) -> bytes:
        """The model as it is now, with what the predictions that wait were served with in this world."""
        amended = Amendments()
        if self.model.amended is not None:
            amended.served_again |= self.model.amended.served_again
        amended.served_again |= {name: self._again[name] for name in waiting if name in self._again}
        return encode_state({**self.model.state(), "amended": amended.state()})
