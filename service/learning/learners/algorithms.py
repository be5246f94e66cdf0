"""Every algorithm with its parameters, declared once.

Validation, error messages, the OpenAPI page and the tables of docs/models.md are read from here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from service.learning.learners.arow import Arow, ForgettingArow
from service.learning.learners.learner import Learner
from service.learning.learners.logistic import Logistic
from service.learning.learners.passive_aggressive import PassiveAggressive, pa1_step, pa2_step, pa_step
from service.learning.learners.perceptron import Averaged, Perceptron
from service.learning.learners.scw import Scw
from service.learning.panel.panels import NEWEST
from service.learning.parameters import LEAST, BadParameter, Choice, Integer, Number, Parameter, check_fields


@dataclass(frozen=True, slots=True)
class Algorithm:
    """An algorithm's name, what it is in a sentence, its parameters and how to make one."""

    name: str
    """What clients write as `learner.algorithm`."""

    summary: str
    """A sentence for docs/models.md and the OpenAPI page."""

    parameters: Mapping[str, Parameter]
    """What clients may set beside the name, each with its default and its range."""

    build: Callable[..., Learner] | None
    """Makes a learner without rows. Called with each of `parameters` by name, checked, and always with `tie`, the label
    (-1 or +1) of a score of 0, whether the learner needs it or not. None for `auto`: see `service/learning/panel/`.
    """

    vectors: int = 1
    """How many vectors of the size of the weights it keeps, the weights included: for limits on memory."""


AUTO = "auto"

ETA0 = Number(1.0, LEAST, 1e6, "the learning rate, or where its schedule starts")
SCHEDULE = Choice("constant", ("constant", "inverse", "inverse_sqrt"), "η0, η0/k or η0/√k at the k-th update")
C = Number(1.0, LEAST, 1e6, "how far one example may move the weights")
R = Number(1.0, 1e-6, 1e6, "the larger, the less one example moves")
COVARIANCE = Choice(
    "diagonal", ("diagonal", "full"), "a variance for each weight, or the whole matrix of size × size"
)

ALGORITHMS: dict[str, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm(
            "perceptron",
            "Adds η y z when the served label was wrong, or when the margin is at most δ.",
            {
                "rule": Choice("mistake", ("mistake", "margin"), "what makes it update"),
                "delta": Number(0.0, 0.0, 1e100, "rule `margin` updates while y (w·z) is at most this"),
                "eta0": ETA0,
                "schedule": SCHEDULE,
                "forget": Number(
                    0.0, 0.0, 1e6, "λ: the k-th update keeps (k - 1)/(k - 1 + λ) of the weights; 0 keeps all"
                ),
            },
            Perceptron,
        ),
        Algorithm(
            "averaged",
            "Learns like a perceptron and predicts by the mean of its weights over all reveals.",
            {"eta0": Number(1.0, LEAST, 1e6, "the learning rate")},
            Averaged,
            vectors=2,
        ),
        Algorithm(
            "pa",
            "Passive-aggressive: moves just so far that the example gets the margin 1.",
            {},
            lambda tie: PassiveAggressive(pa_step),
        ),
        Algorithm(
            "pa1",
            "PA-I: the same, but no step is longer than C.",
            {"C": C},
            lambda C, tie: PassiveAggressive(partial(pa1_step, C=C)),
        ),
        Algorithm(
            "pa2",
            "PA-II: the same, but every step is shortened, the more the smaller C is.",
            {"C": C},
            lambda C, tie: PassiveAggressive(partial(pa2_step, C=C)),
        ),
        Algorithm(
            "arow",
            "Knows how sure it is of each weight and moves the unsure ones more; steady under noise.",
            {"r": R, "covariance": COVARIANCE},
            Arow,
            vectors=2,
        ),
        Algorithm(
            "arow_forgetting",
            "AROW that never gets too sure to follow a stream that changes.",
            {
                "r": R,
                "forget": Number(
                    0.001, 0.0, 0.5, "the share ε of what it is sure of that an update forgets", low_open=True
                ),
                "covariance": COVARIANCE,
            },
            ForgettingArow,
            vectors=2,
        ),
        Algorithm(
            "scw",
            "Soft confidence-weighted (SCW-I): each example shall be right with the probability η.",
            {
                "C": C,
                "eta": Number(0.9, 0.5, 1.0, "the confidence asked for", low_open=True, high_open=True),
                "covariance": COVARIANCE,
            },
            Scw,
            vectors=2,
        ),
        Algorithm(
            "logistic",
            "Logistic regression by AdaGrad: learns from every example, the less the surer it was of the right label.",
            {"eta0": Number(0.5, LEAST, 1e6, "the learning rate of a weight that has not moved")},
            Logistic,
            vectors=2,
        ),
        Algorithm(
            AUTO,
            "A panel of experts that all learn from every reveal, and their vote: needs no choice.",
            {"panel": Integer(NEWEST, 1, NEWEST, "which panel of experts")},
            None,
        ),
    )
}


def complete(learner: Mapping[str, object]) -> dict[str, Any]:
    """A learner's settings, checked and with every default filled in; BadParameter if they do not fit.

    >>> complete({"rule": "margin"})["delta"]
    0.0
    """
    name = learner.get("algorithm", "perceptron")
    algorithm = ALGORITHMS.get(name) if isinstance(name, str) else None
    if algorithm is None:
        raise BadParameter("algorithm", "must be one of " + ", ".join(ALGORITHMS))
    given = {field: value for field, value in learner.items() if field != "algorithm"}
    checked = check_fields(given, algorithm.parameters, algorithm.name)
    if algorithm.name == "perceptron" and not checked["forget"]:
        del checked["forget"]  # as in the settings of models that are older than it
    return {"algorithm": algorithm.name, **checked}


def build(learner: Mapping[str, Any], *, tie: int) -> Learner:
    """A learner without rows, from completed settings; `tie` is the label (-1 or +1) of a score of 0."""
    parameters = {name: value for name, value in learner.items() if name != "algorithm"}
    make = ALGORITHMS[learner["algorithm"]].build
    assert make is not None, "a panel is no single learner"
    return make(**parameters, tie=tie)


def needs_matrix(learner: Mapping[str, Any]) -> bool:
    """Whether a learner with these completed settings keeps a matrix of size × size.

    The service limits that size (`covariance_dimension_max`): see `feature_kinds.complete`.

    >>> needs_matrix(complete({"algorithm": "arow", "covariance": "full"}))
    True
    """
    return learner.get("covariance") == "full"


def numbers_kept(learner: Mapping[str, Any], size: int) -> int:
    """How many numbers a learner with these completed settings keeps for so many features; not of `auto`.

    >>> [numbers_kept(complete({"algorithm": name}), 10) for name in ("perceptron", "averaged", "arow")]
    [10, 20, 20]
    >>> numbers_kept(complete({"algorithm": "arow", "covariance": "full"}), 10)
    110
    """
    if needs_matrix(learner):
        return size + size * size
    return ALGORITHMS[learner["algorithm"]].vectors * size


def schema() -> dict[str, Any]:
    """The JSON schema of a learner's settings."""
    return {
        "oneOf": [
            {
                "type": "object",
                "title": algorithm.name,
                "description": algorithm.summary,
                "properties": {
                    "algorithm": {"const": algorithm.name, "type": "string"},
                    **{name: parameter.schema() for name, parameter in algorithm.parameters.items()},
                },
                "required": [] if algorithm.name == "perceptron" else ["algorithm"],
                "additionalProperties": False,
            }
            for algorithm in ALGORITHMS.values()
        ]
    }
