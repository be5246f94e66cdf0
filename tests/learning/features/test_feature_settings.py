"""The settings of features: what is accepted, what is refused, and what is told about them."""

from typing import Any

import pytest

from service.learning.features import kinds as feature_kinds
from service.learning.features.contract import BadFeatures
from service.learning.learners.algorithms import BadParameter

SETTINGS: list[tuple[Any, dict[str, Any]]] = [
    ({}, {"kind": "dense", "dimension": None, "normalize": None, "standardize": False, "fourier": None}),
    (
        {"kind": "named", "text": ["b", "a", "b"]},
        {"kind": "named", "names_max": 100_000, "normalize": None, "standardize": False, "text": ["a", "b"]},
    ),
    (
        {"dimension": 3.0, "fourier": {}},
        {
            "kind": "dense", "dimension": 3, "normalize": None, "standardize": False,
            "fourier": {"features": 512, "gamma": None, "seed": 0},
        },
    ),
    (
        {"kind": "hashed", "bits": 3, "crosses": 2.0},
        {"kind": "hashed", "bits": 3, "normalize": None, "standardize": False, "crosses": 2, "text": []},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("given", "completed"), SETTINGS)
def test_settings_are_completed_and_completing_again_changes_nothing(given: Any, completed: Any) -> None:
    assert feature_kinds.complete(given) == completed
    assert feature_kinds.complete(completed) == completed


BAD_SETTINGS: list[tuple[Any, str]] = [
    ("sparse", "features.kind"),
    (7, "features"),
    ({"kind": ["dense"]}, "features.kind"),
    ({"kind": "dense", "bits": 3}, "features.bits"),
    ({"kind": "dense", "text": ["a"]}, "features.text"),
    ({"kind": "hashed", "dimension": 3}, "features.dimension"),
    ({"kind": "named", "fourier": {}}, "features.fourier"),
    ({"kind": "hashed", "bits": 25}, "features.bits"),
    ({"kind": "hashed", "bits": 0}, "features.bits"),
    ({"kind": "hashed", "bits": True}, "features.bits"),
    ({"kind": "hashed", "bits": 10.5}, "features.bits"),
    ({"kind": "named", "names_max": 100_001}, "features.names_max"),
    ({"kind": "named", "text": "subject"}, "features.text"),
    ({"kind": "named", "text": [""]}, "features.text[0]"),
    ({"kind": "named", "text": ["a", 7]}, "features.text[1]"),
    ({"dimension": 0}, "features.dimension"),
    ({"dimension": 65_537}, "features.dimension"),
    ({"normalize": "l1"}, "features.normalize"),
    ({"standardize": 1}, "features.standardize"),
    ({"fourier": True}, "features.fourier"),
    ({"fourier": {"gamma": 0}}, "features.fourier.gamma"),
    ({"fourier": {"gamma": float("nan")}}, "features.fourier.gamma"),
    ({"fourier": {"features": 5000}}, "features.fourier.features"),
    ({"fourier": {"seed": -1}}, "features.fourier.seed"),
    ({"fourier": {"width": 1}}, "features.fourier.width"),
    ({"crosses": 3}, "features.crosses"),
    ({"crosses": True}, "features.crosses"),
    ({"crosses": 2, "fourier": {}}, "features.crosses"),
    ({"crosses": 2, "dimension": 724}, "features.dimension"),
    ({"dimension": 60_000, "fourier": {"features": 256}}, "features.fourier.features"),
]


@pytest.mark.parametrize(("given", "field"), BAD_SETTINGS)
def test_settings_that_do_not_fit_are_refused_by_field(given: Any, field: str) -> None:
    with pytest.raises(BadParameter) as refused:
        feature_kinds.complete(given)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"dimension": 512}, "features.dimension"),
        ({"kind": "hashed"}, "features.bits"),
        ({"kind": "named", "names_max": 512}, "features.names_max"),
        ({"fourier": {"features": 512}}, "features.fourier.features"),
        ({"crosses": 2, "dimension": 31}, "features.crosses"),
        ({"crosses": 2, "kind": "named"}, "features.crosses"),
        ({"crosses": 2, "kind": "named", "names_max": 31}, "features.crosses"),
        ({"crosses": 2, "kind": "hashed"}, "features.crosses"),
    ],
)
def test_a_full_covariance_limits_how_many_weights_there_may_be(given: Any, field: str) -> None:
    feature_kinds.complete(given)
    with pytest.raises(BadParameter) as refused:
        feature_kinds.complete(given, size_max=512)
    assert refused.value.field == field
    feature_kinds.complete({"dimension": 512}, bias=False, size_max=512)


def test_a_full_covariance_refuses_a_first_example_that_is_too_long() -> None:
    dense = feature_kinds.build(feature_kinds.complete("dense", size_max=4), 1.0, size_max=4)
    assert len(dense.read([1, 2, 3])) == 3
    with pytest.raises(BadFeatures):
        dense.read([1, 2, 3, 4])
    assert feature_kinds.complete("named", size_max=512)["names_max"] == 511
    assert feature_kinds.complete({"fourier": {}}, size_max=512)["fourier"]["features"] == 511
    crossed = feature_kinds.build(feature_kinds.complete({"crosses": 2}, size_max=10), 1.0, size_max=10)
    assert len(crossed.read([1, 2, 3])) == 3  # and 6 pairs, and the bias
    with pytest.raises(BadFeatures):
        crossed.read([1, 2, 3, 4])


def test_the_schema_names_every_setting() -> None:
    for schema in feature_kinds.schema()["oneOf"]:
        completed = feature_kinds.complete(schema["title"])
        assert schema["properties"].keys() == {*completed, "crosses"}
        for name, value in {**completed, "crosses": None}.items():
            assert name == "kind" or schema["properties"][name]["default"] == value
