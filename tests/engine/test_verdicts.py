"""What `/stats` says of the mistake bound where features are transformed, and where numbers end."""

from typing import Any

import pytest

from service.engine.models.model import Model
from service.events import DimensionFixed, ModelCreated
from service.learning.learners.algorithms import ALGORITHMS
from service.web.routes.model_settings import ModelLimits, ModelSettings
from tests.support.late_labels import Late

LIMITS = ModelLimits(1000, 100, 512, 10**7)


def stream_of(dimension: int | None = None, stored: dict[str, Any] | None = None, **settings: Any) -> Late:
    """A stream for a model with these settings; `stored` are some that requests could once have."""
    completed = ModelSettings.model_validate(settings).complete(LIMITS)
    for name, value in (stored or {}).items():
        completed[name] = completed[name] | value if isinstance(completed[name], dict) else value
    model = Model(ModelCreated("m", 1, completed))
    if dimension is not None:
        model.apply(DimensionFixed("m", 1, dimension))
    return Late(model)


def bound_of(stream: Late) -> dict[str, Any]:
    """The report, which a restored model and a replay of the events give as well."""
    report = stream.model.bound_report()
    assert Model.from_bytes(stream.model.to_bytes()).bound_report() == report
    return report


def new_names(stream: Late, rounds: int) -> None:
    """`a` alone is +1. Beside a new name that is much larger it is -1, and a prediction does not know that name."""
    for number in range(rounds):
        stream.learn({"a": 1.0, f"n{number}": 100.0}, -1)
        stream.learn({"a": 1.0}, 1)


def test_new_names_void_the_bound_where_normalize_lets_them_change_the_other_values_beside_a_bias() -> None:
    stream = stream_of(features={"kind": "named", "normalize": "l2"}, declared_margin=0.4, ask="auto")
    new_names(stream, 60)  # separable: all are 0.4 from the plane a = 0.505
    assert stream.model.updates > (1 + 1) * (1 + 1) / 0.4**2  # R_z² k_max / γ²
    found = bound_of(stream)
    assert (found["verdict"], found["mistake_bound"], found["used"]) == ("not_applicable", None, None)
    assert "new name" in found["why"]
    asked = stream.model.ask_report(0)
    assert asked is not None
    assert (asked["bound"]["verdict"], asked["bound"]["expected_mistakes"]) == ("not_applicable", None)


@pytest.mark.parametrize(
    "settings",
    [
        {"features": {"kind": "named", "normalize": "l2"}, "bias": False},
        {"features": {"kind": "named"}},
        {"features": {"kind": "named", "crosses": 2}},
        {"features": {"kind": "hashed", "normalize": "l2"}},
    ],
    ids=str,
)
def test_new_names_leave_the_bound_where_they_change_no_score(settings: dict[str, Any]) -> None:
    stream = stream_of(declared_margin=1e-3, **settings)
    new_names(stream, 30)
    assert bound_of(stream)["verdict"] == "within"


def test_crosses_void_the_bound_when_pairs_begin_to_share_weights() -> None:
    stream = stream_of(features={"kind": "named", "crosses": 2}, declared_margin=1e-3)
    new_names(stream, 3)
    assert bound_of(stream)["verdict"] == "within"
    stream.learn({f"m{number}": 1.0 for number in range(200)}, 1)  # 20,100 pairs, of which 16,384 fit
    found = bound_of(stream)
    assert (found["verdict"], found["mistake_bound"]) == ("not_applicable", None)
    assert "crosses" in found["why"]


@pytest.mark.parametrize(
    ("features", "named"),
    [
        ({"normalize": "l2"}, "after `normalize`"),
        ({"fourier": {"features": 64, "gamma": 1e-4}}, "after `fourier`"),
        ({"normalize": "l2", "crosses": 2}, "after `crosses` and `normalize`"),
    ],
    ids=str,
)
@pytest.mark.parametrize("declared", [5.0, None, 1e-6])
def test_a_verdict_says_that_its_margin_is_one_of_transformed_examples(
    features: dict[str, Any], named: str, declared: float | None
) -> None:
    stream = stream_of(2, features=features, declared_margin=declared)
    for _ in range(100):  # 10 from the plane between them, as they are sent
        stream.learn([60.0, 10.0], 1)
        stream.learn([40.0, 10.0], -1)
    found = bound_of(stream)
    assert found["verdict"] == ("exceeded" if declared == 5.0 else found["verdict"])
    assert found["why"].endswith(named)
    if declared == 1e-6:
        assert (found["verdict"], found["why"]) == ("within", f"the margin is that of the examples {named}")


def test_a_verdict_says_that_names_were_hashed_or_left_out() -> None:
    for features, named in (
        ({"kind": "hashed", "normalize": "l2"}, "after hashing and `normalize`"),
        ({"kind": "named", "names_max": 1}, "after names beyond `names_max` are ignored"),
    ):
        stream = stream_of(features=features, declared_margin=1e-3)
        new_names(stream, 3)
        assert bound_of(stream)["why"].endswith(named)


def test_a_verdict_on_examples_as_they_were_sent_says_nothing_of_transforms() -> None:
    stream = stream_of(1, declared_margin=0.5)
    stream.learn([-1.0], -1)
    stream.learn([1.0], 1)
    assert (bound_of(stream)["verdict"], bound_of(stream)["why"]) == ("within", None)


def test_a_rate_that_vanishes_when_it_is_weighted_proves_nothing() -> None:
    stream = stream_of(1, stored={"learner": {"eta0": 5e-324}}, bias=False, declared_margin=1e22)
    for _ in range(20):
        for y in (-1, 1):
            stream.predict([y * 1e23])
            stream.reveal(0, y, 0.4)
    found = bound_of(stream)
    assert (found["verdict"], found["margin_ceiling"]) == ("not_applicable", None)
    assert "too small" in found["why"]


@pytest.mark.parametrize("weight", [0.4, 1e6])
@pytest.mark.parametrize("eta0", [1e-100, 1e6])
def test_the_smallest_and_the_largest_rates_and_weights_keep_the_bound(eta0: float, weight: float) -> None:
    stream = stream_of(2, learner={"eta0": eta0}, declared_margin=0.5, class_weights={"1": weight})
    for x, y in [([0.2, 1.0], 1), ([0.1, -1.0], -1)] * 20:
        stream.predict(x)
        stream.reveal(0, y, weight)
    assert bound_of(stream)["verdict"] == "within"


@pytest.mark.parametrize("algorithm", [*ALGORITHMS])
def test_a_weight_that_is_nothing_when_it_is_multiplied_can_be_learned(algorithm: str) -> None:
    weights = {"class_weights": {"-1": 5e-324, "1": 5e-324}}
    stream = stream_of(1, stored=weights, learner={"algorithm": algorithm}, declared_margin=0.5)
    for _ in range(3):
        for y in (-1, 1):
            stream.predict([float(y)])
            stream.reveal(0, y, 0.4)
    assert bound_of(stream)["verdict"] == "not_applicable"
    assert stream.model.revealed == 6
