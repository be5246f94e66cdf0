"""Stepping through events to a version gives what the fold over them was there, whatever the events are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.fleet.fold import step
from service.engine.models.block_fold import some_rounds, table_of
from service.engine.models.model import Model
from service.events import (
    AnyEvent,
    DimensionFixed,
    DriftDetected,
    ModelCreated,
    ModelFitted,
    ModelReset,
    ModelRolledBack,
    PredictionsExpired,
    RoundLearned,
    RoundRevealed,
    RoundsLearned,
)
from service.journal.codec import decode_event, encode, encode_state
from service.learning.vectors import Rows
from service.web.routes.model_settings import ModelLimits, ModelSettings

LIMITS = ModelLimits(100, 100, 100, 10**8)

Make = Callable[[Model, int, Any], AnyEvent]


def revealed(model: Model, at: int, data: Any) -> AnyEvent:
    late = data.draw(st.integers(0, 5))
    row = np.array(data.draw(vectors)).tobytes()
    return RoundRevealed("m", at, f"p{at}", data.draw(labels), at - late, row, 1, 0.5, model.version, 0)


def block(model: Model, at: int, data: Any) -> AnyEvent:
    rows = data.draw(st.lists(st.tuples(vectors, labels), min_size=1, max_size=12))
    table = table_of(Rows(np.array([row for row, _ in rows])))
    event = RoundsLearned("m", at, [label for _, label in rows], [table])
    return decode_event(encode(event))


def fitted(model: Model, at: int, data: Any) -> AnyEvent:
    features, classifier = (encode_state(part.state()) for part in (model.features, model.classifier))
    known = list(model.labels.values)
    taken = ["another", *known] if known and data.draw(st.booleans()) else known
    return ModelFitted("m", at, "job", taken, features, classifier, {})


labels = st.sampled_from(["a", "b", "c"])
vectors = st.lists(st.sampled_from([-2.0, 0.0, 0.5, 1.0]), min_size=2, max_size=2)
KINDS: list[Make] = [
    revealed,
    block,
    fitted,
    lambda model, at, data: RoundLearned("m", at, None, data.draw(labels), np.array(data.draw(vectors)).tobytes()),
    lambda model, at, data: ModelReset("m", at),
    lambda model, at, data: PredictionsExpired("m", at, 2, at),
    lambda model, at, data: DriftDetected("m", at, f"d{at}", 3),
    lambda model, at, data: ModelRolledBack("m", at, 0, model.to_bytes()),
]  # fmt: skip


def new_model(**chosen: Any) -> Model:
    model = Model(ModelCreated("m", 1, ModelSettings(labels=None, **chosen).complete(LIMITS)))
    model.apply(DimensionFixed("m", 1, 2))
    return model


@pytest.mark.parametrize("algorithm", ["perceptron", "arow", "averaged"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
@pytest.mark.slow
def test_stepping_to_any_version_gives_what_was_there(algorithm: str, data: Any) -> None:
    live = new_model(learner={"algorithm": algorithm})
    events: list[AnyEvent] = []
    seen = {live.version: live.to_bytes()}
    for at in range(10, 10 + data.draw(st.integers(1, 15))):
        event = data.draw(st.sampled_from(KINDS))(live, at, data)
        events.append(event)
        if isinstance(event, RoundsLearned):
            copy = Model.from_bytes(live.to_bytes())
            for number in range(len(event.labels)):
                copy.apply(some_rounds(event, number, number + 1))
                seen[copy.version] = copy.to_bytes()
        live.apply(event)
        seen[live.version] = live.to_bytes()
    for version, state in seen.items():
        model = new_model(learner={"algorithm": algorithm})
        any(step(model, event, version) for event in events)
        assert model.to_bytes() == state


def test_a_rollback_takes_everything_back_but_the_version_and_the_time() -> None:
    model = new_model()
    for at in range(10, 20):
        model.apply(RoundLearned("m", at, None, "ab"[at % 2], np.array([float(at), 1.0]).tobytes()))
    then = model.state()
    model.apply(RoundLearned("m", 20, None, "c", np.array([1.0, 1.0]).tobytes()))
    model.apply(ModelRolledBack("m", 21, 10, encode_state(then)))
    expected = {**then, "version": 12, "updated_at": 21, "began_at": 21}
    assert encode_state(model.state()) == encode_state(expected)
