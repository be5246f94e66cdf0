"""The catalogue of algorithms: what is accepted, what is refused, and what is told about it."""

from typing import Any

import pytest

from service.learning.learners import algorithms
from service.learning.learners.algorithms import ALGORITHMS, AUTO, BadParameter
from tests.learning.rounds import LEARNERS, One

SINGLE = [name for name in ALGORITHMS if name != AUTO]
"""Those that are one learner and no panel of them."""


@pytest.mark.parametrize("name", SINGLE)
def test_every_algorithm_is_built_from_its_defaults(name: str) -> None:
    settings = algorithms.complete({"algorithm": name})
    assert algorithms.complete(settings) == settings
    learner = One(settings, tie=1, size=3)
    assert learner.weights.tolist() == [0.0, 0.0, 0.0]


def test_the_laws_of_learners_run_over_every_algorithm() -> None:
    assert {algorithms.complete(learner)["algorithm"] for learner in LEARNERS.values()} == set(SINGLE)


def test_only_a_full_covariance_needs_a_matrix() -> None:
    for name in ALGORITHMS:
        assert not algorithms.needs_matrix(algorithms.complete({"algorithm": name}))
    for name in ("arow", "arow_forgetting", "scw"):
        assert algorithms.needs_matrix(algorithms.complete({"algorithm": name, "covariance": "full"}))


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"algorithm": "svm"}, "algorithm"),
        ({"algorithm": None}, "algorithm"),
        ({"algorithm": ["pa"]}, "algorithm"),
        ({"algorithm": "pa", "C": 1.0}, "C"),
        ({"algorithm": "pa1", "C": 0.0}, "C"),
        ({"algorithm": "pa1", "C": 1e7}, "C"),
        ({"algorithm": "pa2", "C": float("nan")}, "C"),
        ({"algorithm": "pa2", "C": "1"}, "C"),
        ({"algorithm": "pa2", "C": True}, "C"),
        ({"algorithm": "arow", "r": 0.0}, "r"),
        ({"algorithm": "arow", "r": 10**400}, "r"),
        ({"algorithm": "arow", "covariance": "whole"}, "covariance"),
        ({"algorithm": "arow", "forget": 0.1}, "forget"),
        ({"algorithm": "arow_forgetting", "forget": 0.0}, "forget"),
        ({"algorithm": "arow_forgetting", "forget": 0.6}, "forget"),
        ({"algorithm": "logistic", "eta0": 0.0}, "eta0"),
        ({"algorithm": "logistic", "C": 1.0}, "C"),
        ({"algorithm": "scw", "eta": 0.5}, "eta"),
        ({"algorithm": "scw", "eta": 1.0}, "eta"),
        ({"algorithm": "scw", "rule": "margin"}, "rule"),
        ({"algorithm": "averaged", "schedule": "constant"}, "schedule"),
        ({"rule": None}, "rule"),
        ({"eta0": 0}, "eta0"),
    ],
)
def test_what_the_catalogue_does_not_allow_is_refused_by_field(given: dict[str, Any], field: str) -> None:
    with pytest.raises(BadParameter) as refused:
        algorithms.complete(given)
    assert refused.value.field == field
    assert refused.value.message


def test_the_schema_holds_every_parameter_with_its_default() -> None:
    schemas = {schema["title"]: schema["properties"] for schema in algorithms.schema()["oneOf"]}
    assert schemas.keys() == ALGORITHMS.keys()
    for name, properties in schemas.items():
        completed = algorithms.complete({"algorithm": name})
        optional = {"forget"} if name == "perceptron" else set()
        assert properties.keys() == completed.keys() | optional
        for field, value in completed.items():
            assert field == "algorithm" or properties[field]["default"] == value
    assert schemas["scw"]["eta"]["exclusiveMinimum"] == 0.5
    assert schemas["scw"]["eta"]["exclusiveMaximum"] == 1.0
