"""A history played through other settings as it comes, and what a challenger takes along from that."""

from typing import Any

import pytest
from msgspec import structs

from service.engine.models.model import Model
from service.engine.replay.counterfactual import Counterfactual, Outdated
from service.events import (
    AnyEvent,
    ChallengerAdded,
    DimensionFixed,
    ModelCreated,
    ModelFitted,
    ModelRebuilt,
    ModelReset,
    ModelRolledBack,
    RoundCorrected,
    RoundLearned,
    WarmStart,
)
from service.journal.codec import decode_event, encode, encode_state
from service.web.routes.model_settings import ModelLimits, ModelSettings
from tests.support.late_labels import Late

LIMITS = ModelLimits(1000, 100, 512, 10**7)
LABELS = ["a", "b", "c"]


def settings_of(**given: Any) -> dict[str, Any]:
    return ModelSettings.model_validate({"labels": None, **given}).complete(LIMITS)


AROW = settings_of(learner={"algorithm": "arow"}, features={"standardize": True})


def story(**given: Any) -> Late:
    """A model that begins."""
    created = ModelCreated("m", 1, settings_of(**given))
    stream = Late(Model(created))
    stream.events.append(created)
    stream.apply(DimensionFixed("m", 1, 4))
    return stream


def played(events: list[AnyEvent], settings: dict[str, Any]) -> Counterfactual:
    history = Counterfactual(None, [settings])
    history.play(events)
    return history


def entering(history: Counterfactual, stream: Late) -> ChallengerAdded:
    """The event with which what a world has learned enters as a challenger."""
    own = {
        name: AROW[name] for name in ("learner", "features", "multiclass", "tie", "classes_max", "size_max")
    }
    (world,) = history.others
    start = WarmStart(0, history.versions[-1], len(world.mistakes), sum(world.mistakes))
    stream.at += 1
    event = ChallengerAdded("m", stream.at, "warm", own, start, world.learner_bytes(history.model))
    read = decode_event(encode(event))
    assert isinstance(read, ChallengerAdded)
    return read


def learn(stream: Late, many: int, seed: int) -> None:
    for number in range(many):
        stream.learn([number % 3 - 1.0, seed * 0.5, 1.0, number % 5 - 2.0], LABELS[(number + seed) % 3])


def test_events_that_come_later_are_played_as_if_they_had_been_there() -> None:
    stream = story()
    learn(stream, 60, seed=1)
    stream.apply(ModelReset("m", stream.at + 1))
    learn(stream, 60, seed=2)
    whole = played(list(stream.events), AROW)
    history = played(stream.events[:40], AROW)
    for first, last in ((40, 41), (41, 90), (90, 90), (90, len(stream.events))):
        history.play(stream.events[first:last])
    (world,), (expected,) = history.others, whole.others
    assert world.model.to_bytes() == expected.model.to_bytes()
    assert world.mistakes == expected.mistakes
    assert world.learner_bytes(history.model) == expected.learner_bytes(whole.model)


def test_a_late_label_whose_prediction_was_passed_counts_against_what_would_be_served_by_then() -> None:
    stream = story()
    stream.predict([1.0, 1.0, 1.0, 1.0])  # of no class that is known
    for number in range(10):
        stream.learn([1.0, 1.0, 1.0, number % 2 * 0.1], "a")
        stream.learn([-1.0, -1.0, -1.0, number % 2 * 0.1], "b")
    history = played(list(stream.events), AROW)
    before = len(stream.events)
    stream.reveal(0, "a")
    history.play(stream.events[before:])
    (world,) = history.others
    assert history.own.mistakes[-1] == 1 and world.mistakes[-1] == 0
    assert world.model.revealed == stream.model.revealed == len(world.mistakes)


@pytest.mark.parametrize("is_corrected", [False, True])
def test_a_world_takes_the_dimension_that_only_a_fit_of_the_other_one_tells(is_corrected: bool) -> None:
    created = ModelCreated("m", 1, settings_of())
    stream, fitted = Late(Model(created)), Model(created)
    stream.events.append(created)
    fitted.fix_dimension(2)
    labels = [fitted.labels.values[fitted.class_of(label)] for label in LABELS]
    features, classifier = (encode_state(part.state()) for part in (fitted.features, fitted.classifier))
    stream.apply(ModelFitted("m", 2, "job", labels, features, classifier, {}))
    stream.learn([1.0, 2.0], "a")
    if is_corrected:
        event = stream.events[-1]
        assert isinstance(event, RoundLearned)
        version = stream.model.version
        stream.events[-1] = structs.replace(event, prediction_id="p")
        stream.apply(RoundCorrected("m", stream.at + 1, "p corrected 1", "p", "b", "a", version))
    (world,) = played(stream.events, AROW).others
    assert len(world.mistakes) == 1 and world.model.features.dimension == 2
    assert world.model.labels.values == LABELS


def test_a_rollback_to_what_was_passed_is_refused() -> None:
    stream = story()
    learn(stream, 30, seed=1)
    then, state = stream.model.version, stream.model.to_bytes()
    learn(stream, 30, seed=2)
    history = played(list(stream.events), AROW)
    with pytest.raises(Outdated):
        history.play([ModelRolledBack("m", stream.at + 1, then, state)])


def test_one_enters_with_classes_and_rounds_that_came_after_its_history() -> None:
    stream = story()
    learn(stream, 60, seed=1)
    event = entering(played(list(stream.events), AROW), stream)
    stream.learn([1.0, 2.0, 3.0, 4.0], "new")
    stream.apply(event)
    assert stream.model.contest is not None
    warm = stream.model.contest.challengers["warm"]
    assert warm.warm is not None and (warm.warm.rounds, warm.warm.missed) == (60, 1)
    assert warm.record.rounds == warm.duel.rounds == 0
    stream.learn([1.0, 2.0, 3.0, 4.0], "new")
    assert warm.record.rounds == 1
    again = Model.from_bytes(stream.model.to_bytes())
    assert again.to_bytes() == stream.model.to_bytes() and again.contest is not None
    assert again.contest.challengers["warm"].warm == warm.warm


@pytest.mark.parametrize("happened", ["reset", "rollback", "the name is taken"])
def test_one_whose_past_is_no_longer_that_of_the_model_does_not_enter(happened: str) -> None:
    stream = story()
    learn(stream, 20, seed=1)
    then, state = stream.model.version, stream.model.to_bytes()
    learn(stream, 20, seed=1)
    event = entering(played(list(stream.events), AROW), stream)
    stream.at += 1
    if happened == "reset":
        stream.apply(ModelReset("m", stream.at))
    elif happened == "rollback":
        stream.apply(ModelRolledBack("m", stream.at, then, state))
    else:
        stream.apply(ChallengerAdded("m", stream.at, "warm", event.settings))
    stream.apply(event)
    assert stream.model.contest is not None
    entered = stream.model.contest.challengers.get("warm")
    assert (
        entered is None if happened != "the name is taken" else entered is not None and entered.warm is None
    )


def test_a_rebuild_whose_state_no_model_can_have_is_superseded() -> None:
    """Older programs have written -1 for the rounds that a warm challenger missed."""
    stream = story()
    learn(stream, 20, seed=1)
    stream.apply(entering(played(list(stream.events), AROW), stream))
    stream.apply(RoundCorrected("m", stream.at + 1, "p corrected 1", "p", None, "a", 5))
    state = stream.model.state()
    state["contest"]["challengers"]["warm"]["warm"][-1] = -1
    before, place = stream.model.version, stream.model.place
    stream.apply(ModelRebuilt("m", stream.at + 2, place, 1, 5, encode_state(state)))
    assert stream.model.amended is not None and stream.model.amended.is_due
    assert stream.model.version == before
    state["contest"]["challengers"]["warm"]["warm"][-1] = 0
    stream.apply(ModelRebuilt("m", stream.at + 3, stream.model.place, 1, 5, encode_state(state)))
    assert not stream.model.amended.is_due and stream.model.version == before + 1
