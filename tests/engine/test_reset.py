"""A reset really is the start: the same stream gives the same answers again, whatever the model is made of."""

from typing import Any

import msgspec
import pytest

from service.engine.models.model import Model
from service.engine.models.settings import RULES
from service.events import DimensionFixed, ModelCreated, ModelReset, RoundLearned, RoundRevealed
from service.journal.codec import encode_state
from service.web.routes.model_settings import ModelLimits, ModelSettings
from tests.learning.rounds import AUTO, FEATURES, LEARNERS, PAIRS, PANELS, STRATEGIES, rounds_for
from tests.support.tiers import covering

CASES = [
    (learner, way, features)
    for at, (learner, way) in enumerate(PAIRS)
    for place, features in enumerate(FEATURES)
    if (at + place) % 2 == 0  # each learner, way and kind with half of the others
] + PANELS


def new_model(learner: str, way: str, features: str) -> Model:
    multiclass, declared, _ = STRATEGIES[way]
    kind, bias_value = FEATURES[features]
    settings = ModelSettings(
        learner=LEARNERS.get(learner, {"algorithm": AUTO}),
        labels=list(range(declared)) if declared else None,
        multiclass=multiclass,
        features=kind,
        bias=bias_value is not None,
        bias_value=bias_value or 1.0,
    )
    return Model(ModelCreated("m", 1, settings.complete(ModelLimits(100, 100, 100, 10**8))))


def run(model: Model, rounds: list[tuple[Any, int]], at: int) -> list[Any]:
    outcomes = []
    for sent, label in rounds:
        example = model.features.read(sent)
        if model.features.dimension is None:
            model.apply(DimensionFixed("m", at, len(example)))
        event = RoundLearned("m", at, None, label, model.features.encode(example))
        outcomes.append(msgspec.structs.replace(model.apply(event), version=0))  # type: ignore[type-var]
    return outcomes


@pytest.mark.parametrize(("learner", "way", "features"), covering(CASES))
def test_the_same_stream_after_a_reset_is_the_same_to_the_bit(learner: str, way: str, features: str) -> None:
    rounds = rounds_for(way, features, 60)
    model = new_model(learner, way, features)
    first = run(model, rounds, at=10)
    state = model.state()
    model.apply(ModelReset("m", 11, RULES))
    assert model.labels.values == (model.settings["labels"] or [])
    assert run(model, rounds, at=12) == first
    again = model.state()
    for name in ("labels", "features", "classifier", "bound"):
        assert encode_state({name: again[name]}) == encode_state({name: state[name]}), name


def test_a_reveal_that_crosses_a_reset_brings_its_class_again() -> None:
    model = new_model("perceptron", "one_vs_all-appearing", "named")
    run(model, [({"a": 1.0}, "x"), ({"b": 1.0}, "y")], at=10)  # type: ignore[list-item]
    model.apply(ModelReset("m", 20, RULES))
    assert (model.labels.values, model.features.size()) == ([], 1)
    event = RoundRevealed("m", 21, "p", "y", 15, {"b": 1.0}, "y", 1.0, 2, 2)
    outcome = model.apply(event)
    assert not outcome.mistake  # type: ignore[union-attr]
    assert (model.labels.values, model.features.size()) == (["y"], 2)
    other = RoundRevealed("m", 22, "q", "z", 15, {"a": 1.0}, "x", 1.0, 2, 2)
    outcome = model.apply(other)
    assert (outcome.served, outcome.mistake) == (-1, True)  # type: ignore[union-attr]
