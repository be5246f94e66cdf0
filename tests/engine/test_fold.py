"""A model is a fold over its events: the same events, the same bits; a snapshot is a place to begin."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.models.model import Model
from service.engine.rounds.explanation import explain
from service.engine.transfer.json_export import _digest, import_model
from service.events import (
    AnyEvent,
    DimensionFixed,
    ModelCreated,
    ModelReset,
    PredictionsExpired,
    RoundLearned,
    RoundRevealed,
)
from service.journal.codec import STATE_VERSION, encode_state
from service.web.routes.model_settings import ModelLimits, ModelSettings
from tests.support.exporting import export_model, plain

number = st.floats(-1e6, 1e6, allow_nan=False)
features = st.lists(number, min_size=3, max_size=3).map(lambda values: np.array(values).tobytes())
label = st.sampled_from([-1, 1])
event = st.one_of(
    st.builds(RoundLearned, st.just("m"), st.integers(1, 10**15), st.none(), label, features),
    st.builds(
        RoundRevealed, st.just("m"), st.integers(1, 10**15), st.just("p"), label, st.integers(1, 10**15),
        features, label, number, st.integers(0, 5), st.integers(0, 0),
    ),
    st.builds(PredictionsExpired, st.just("m"), st.integers(1, 10**15), st.integers(1, 9), st.integers(1, 10**15)),
    st.builds(ModelReset, st.just("m"), st.integers(1, 10**15)),
)  # fmt: skip
learner = st.fixed_dictionaries(
    {
        "rule": st.sampled_from(["mistake", "margin"]),
        "delta": st.floats(0, 10),
        "eta0": st.floats(0.001, 10),
        "schedule": st.sampled_from(["constant", "inverse", "inverse_sqrt"]),
    }
)


LIMITS = ModelLimits(100, 100, 100, 10**8)


def new_model(learner: dict[str, object], bias: bool, **more: Any) -> Model:
    settings = ModelSettings(learner=learner, bias=bias, **more).complete(LIMITS)
    model = Model(ModelCreated("m", 1, settings))
    model.apply(DimensionFixed("m", 1, 3))
    return model


@settings(deadline=None)
@given(
    st.one_of(learner, st.just({"algorithm": "auto"})),
    st.booleans(),
    st.lists(event, max_size=30),
    st.integers(0, 30),
)
@pytest.mark.slow
def test_replay_and_restore_equal_never_having_stopped(
    chosen: dict[str, object], bias: bool, events: list[AnyEvent], cut: int
) -> None:
    live, replayed = new_model(chosen, bias), new_model(chosen, bias)
    outcomes = [live.apply(e) for e in events]
    for e in events[:cut]:
        replayed.apply(e)
    restored = Model.from_bytes(replayed.to_bytes())
    assert restored.to_bytes() == replayed.to_bytes()
    assert [restored.apply(e) for e in events[cut:]] == outcomes[cut:]
    assert restored.to_bytes() == live.to_bytes()


@given(st.lists(event, max_size=30), st.sampled_from([None, 0.5]))
@pytest.mark.slow
def test_what_0_1_0_has_written_still_opens(events: list[AnyEvent], declared: float | None) -> None:
    model = new_model({}, True, declared_margin=declared)
    for e in events:
        model.apply(e)
    state = model.state()
    del state["bound"]["sum_norm_sq"], state["bound"]["ceiling"]
    state["bound"]["mistakes"] = state["bound"]["updates"]
    opened = Model.from_bytes(encode_state(state))
    now, then = opened.bound_report(), model.bound_report()
    assert now["margin_ceiling"] is None or now["margin_ceiling"] >= then["margin_ceiling"] * (1 - 1e-6)
    unchanged = {"R", "weight_norm", "gamma", "mistake_bound", "used", "stale_updates_mean"}
    assert all(now[name] == then[name] for name in unchanged)
    # An export of it, as that version has made it.
    kept = export_model(model)
    kept["bound"] = plain(state["bound"])
    export = {**kept, "digest": _digest(state, STATE_VERSION)}
    assert import_model(export, LIMITS, 10**15).state == replaced(model, bound=None)


def replaced(model: Model, **parts: object) -> bytes:
    return encode_state({**model.state(), **parts})


@given(st.lists(event, max_size=20))
def test_deciding_and_explaining_change_nothing(events: list[AnyEvent]) -> None:
    model = new_model({}, True)
    for e in events:
        model.apply(e)
    before = model.to_bytes()
    example = np.array([1.0, -2.0, 3.0])
    model.serve(model.features.vector(example))
    explain(model, example, 10)
    assert model.to_bytes() == before


@given(st.lists(event.filter(lambda e: not isinstance(e, ModelReset)), max_size=30))
@pytest.mark.slow
def test_counts_are_those_of_the_events(events: list[AnyEvent]) -> None:
    model = new_model({}, True)
    outcomes = [outcome for outcome in map(model.apply, events) if outcome is not None]
    assert model.revealed == model.version == len(outcomes)
    assert model.mistakes == model.updates == sum(outcome.mistake for outcome in outcomes)
    assert model.expired == sum(e.count for e in events if isinstance(e, PredictionsExpired))
    assert [outcome.rounds for outcome in outcomes] == list(range(1, len(outcomes) + 1))


def test_a_reveal_that_crosses_a_reset_is_stale_by_the_updates_since() -> None:
    model = new_model({}, True)
    wrong = np.array([1.0, 1.0, 1.0]).tobytes()
    for at in range(10, 13):
        model.apply(RoundRevealed("m", at, "p", -1, at, wrong, 1, 0.0, 0, model.updates))
    model.apply(ModelReset("m", 20))
    model.apply(RoundRevealed("m", 21, "q", -1, 21, wrong, 1, 0.0, 0, 0))
    model.apply(RoundRevealed("m", 22, "r", -1, 12, wrong, 1, 0.0, 0, 3))
    report = model.report(22)
    assert (report["updates"], report["bound"]["stale_updates_max"]) == (2, 1)
