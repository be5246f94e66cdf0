"""How sure a model is, in the fold: at the ends of the numbers, at any learning rate, and with predictions of old."""

from typing import Any

import numpy as np
import pytest

from service.engine.models.model import Model
from service.events import ModelCreated, ModelFitted, ModelReset, RoundLearned, RoundRevealed
from service.journal.codec import encode_state
from service.web.routes.model_settings import ModelLimits, ModelSettings
from tests.support.tiers import slow

LIMITS = ModelLimits(1000, 1000, 512, 10**8)


def made(dimension: int = 3, **settings: Any) -> Model:
    model = Model(ModelCreated("m", 1, ModelSettings.model_validate(settings).complete(LIMITS)))
    model.fix_dimension(dimension)
    return model


def learned(model: Model, at: int, x: list[float], label: Any, weight: float = 1.0) -> Any:
    return model.apply(RoundLearned("m", at, None, label, np.array(x).tobytes(), weight))


def served(model: Model, at: int, x: list[float]) -> dict[str, Any]:
    """A prediction, as the event of its reveal will carry it."""
    row = np.array(x)
    chosen, score, certainty = model.serve(model.features.vector(row))
    return {
        "predicted_at": at,
        "features": row.tobytes(),
        "served": model.labels.label(chosen),
        "score": score,
        "version_seen": model.version,
        "updates_seen": model.updates,
        "certainty": certainty,
    }


def revealed(model: Model, at: int, prediction: dict[str, Any], label: Any, weight: float = 1.0) -> Any:
    return model.apply(
        RoundRevealed("m", at, prediction_id=f"p{at}", label=label, weight=weight, **prediction)
    )


@pytest.mark.parametrize(
    ("size", "weight"),
    [(1e100, 1e6), slow(1e100, 1.0), slow(1.0, 1e6), slow(1.0, 1.0), slow(1e-100, 1e6), slow(1e-100, 1.0),
     slow(5e-324, 1e6), (5e-324, 1.0)],
)  # fmt: skip
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"learner": {"eta0": 1e6}},
        {"learner": {"algorithm": "averaged", "eta0": 1e-6}},
        {"learner": {"algorithm": "pa"}},
        {"learner": {"algorithm": "arow", "r": 1e-6}},
        {"learner": {"algorithm": "scw", "C": 1e6}},
        {"learner": {"algorithm": "auto"}},
        {"learner": {"algorithm": "auto"}, "labels": ["a", "b", "c"]},
        {"labels": ["a", "b", "c"]},
    ],
    ids=str,
)
def test_a_model_of_the_largest_and_smallest_numbers_can_be_saved_and_opened(
    settings: dict[str, Any], size: float, weight: float
) -> None:
    model = made(**settings, ask="auto", coverage=0.9)
    labels = model.labels.values
    for number in range(300):
        x = [size, size / 2 * (number % 2), -size * (number % 3)]
        learned(model, 2 + number, x, labels[number % len(labels)], weight)
        if number % 50 == 0:
            again = Model.from_bytes(model.to_bytes())
            assert again.to_bytes() == model.to_bytes()
            certainty = model.serve(model.features.vector(np.array(x)))[2]
            assert certainty.probability is not None and 0.0 < certainty.probability < 1.0
            assert certainty.ask_probability is not None and 1 / 64 <= certainty.ask_probability <= 1.0


def test_a_model_whose_first_reveals_were_all_predicted_before_any_can_be_saved_and_opened() -> None:
    """None of them had a probability: there was nothing to make one of."""
    model = made(dimension=1)
    waiting = [served(model, 2 + number, [1.0]) for number in range(100)]
    for number, prediction in enumerate(waiting):
        revealed(model, 200 + number, prediction, 1)
        assert Model.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


@pytest.mark.parametrize("learner", [{"algorithm": "averaged"}, {"rule": "margin"}], ids=str)
def test_as_many_labels_are_asked_for_at_any_learning_rate(learner: dict[str, Any]) -> None:
    """Scores grow with the learning rate, and what is sure or not does not."""
    asked = []
    for eta0 in (2.0**-10, 1.0, 2.0**10):
        model, rng, chances = (
            made(learner={**learner, "eta0": eta0}, ask="auto"),
            np.random.default_rng(1),
            [],
        )
        for number in range(300):
            truth = int(rng.choice([-1, 1]))
            x = (truth + rng.normal(size=3)).tolist()
            chances.append(model.serve(model.features.vector(np.array(x)))[2].ask_probability)
            learned(model, 2 + number, x, truth)
        asked.append(chances)
    assert asked[0] == asked[1] == asked[2]
    assert 0.3 < np.mean(asked[1]) < 0.8


def test_the_updates_since_a_prediction_of_an_older_version_may_have_weighed_as_much_as_any() -> None:
    """It does not say what had been learned when it was served, and the bound must not assume too little."""
    model = made(dimension=1, bias=False)
    learned(model, 2, [1.0], -1)
    waiting = served(model, 3, [-2.0]) | {"certainty": None}
    learned(model, 4, [-1.0], -1, weight=1000.0)
    learned(model, 5, [1.0], -1, weight=3.0)
    bound = model.bound
    assert bound is not None and (bound.updates, bound.weight) == (3, 1004.0)
    before = bound.growth
    revealed(model, 6, waiting, -1)
    assert bound.growth - before == 1.0 + 2.0 * 2 * 1000.0


def test_a_reveal_that_crosses_a_reset_counts_as_an_error_but_not_in_the_sets() -> None:
    model = made(dimension=1, coverage=0.8, ask={"b": 0.5})
    learned(model, 2, [1.0], -1)
    waiting = served(model, 3, [1.0])
    model.apply(ModelReset("m", 4))
    learned(model, 5, [1.0], -1, weight=7.0)
    assert model.sets is not None and model.bound is not None
    (rounds, threshold) = model.sets.rounds, model.sets.threshold
    revealed(model, 6, waiting, 1)
    assert model.revealed == 2
    assert (model.sets.rounds, model.sets.threshold) == (rounds, threshold)
    assert model.sets.delay_max == 0
    assert model.bound.growth == 49.0 + 1.0 + 2.0 * 7.0, "every update since the reset lies between"
    assert Model.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


def test_a_fit_between_prediction_and_reveal_is_one_version_of_delay() -> None:
    model = made(dimension=1, coverage=0.8, ask="auto")
    for number in range(10):
        learned(model, 2 + number, [float(number % 2)], 1 if number % 2 else -1)
    waiting = served(model, 20, [0.0])
    classifier, features = encode_state(model.classifier.state()), encode_state(model.features.state())
    model.apply(ModelFitted("m", 21, "job", model.labels.values, features, classifier, {}))
    assert model.bound is None
    assert model.sets is not None and model.asking is not None
    outcome = revealed(model, 22, waiting, -1)
    assert outcome.probability == waiting["certainty"].probability
    assert (model.sets.rounds, model.sets.delay_max) == (11, 1)
    assert model.ask_report(0)["bound"]["verdict"] == "not_applicable"  # type: ignore[index]
    assert Model.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()
