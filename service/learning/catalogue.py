"""Every algorithm with its parameters, declared once.

Validation, error messages, the OpenAPI page and the README's table are read from here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from service.learning.learner import Learner
from service.learning.perceptron import Perceptron


class BadParameter(ValueError):
    """A learner's parameter that the catalogue does not allow."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


@dataclass(frozen=True, slots=True)
class Number:
    """A real parameter in a range; an open end leaves its limit out."""

    default: float
    low: float
    high: float
    help: str
    low_open: bool = False

    def check(self, field: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadParameter(field, "must be a number")
        if not (self.low < value <= self.high or (value == self.low and not self.low_open)):
            raise BadParameter(field, f"must be {self.range}")
        return float(value)

    @property
    def range(self) -> str:
        """The allowed values in words.

        >>> Number(1.0, 0.0, 10.0, "", low_open=True).range
        'above 0 and at most 10'
        """
        return f"{'above' if self.low_open else 'at least'} {self.low:g} and at most {self.high:g}"

    def schema(self) -> dict[str, Any]:
        low = "exclusiveMinimum" if self.low_open else "minimum"
        return {"type": "number", low: self.low, "maximum": self.high,
                "default": self.default, "description": self.help}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Choice:
    """A parameter that is one of a few words."""

    default: str
    choices: tuple[str, ...]
    help: str

    def check(self, field: str, value: object) -> str:
        if not isinstance(value, str) or value not in self.choices:
            raise BadParameter(field, f"must be {self.range}")
        return value

    @property
    def range(self) -> str:
        return "one of " + ", ".join(self.choices)

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.choices), "default": self.default, "description": self.help}


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A learner's name, what it is in a sentence, its parameters and how to make one."""

    name: str
    summary: str
    parameters: Mapping[str, Number | Choice]
    build: Callable[..., Learner]


ETA0 = Number(1.0, 0.0, 1e6, "the learning rate, or where its schedule starts", low_open=True)
SCHEDULE = Choice(
    "constant", ("constant", "inverse", "inverse_sqrt"), "η0, η0/k or η0/√k at the k-th update"
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
            },
            Perceptron,
        ),
    )
}


def complete(learner: Mapping[str, object]) -> dict[str, Any]:
    """A learner's settings, checked and with every default filled in; BadParameter if they do not fit.

    >>> complete({"rule": "margin"})["delta"]
    0.0
    """
    given = dict(learner)
    name = given.pop("algorithm", "perceptron")
    algorithm = ALGORITHMS.get(name) if isinstance(name, str) else None
    if algorithm is None:
        raise BadParameter("algorithm", "must be one of " + ", ".join(ALGORITHMS))
    unknown = sorted(given.keys() - algorithm.parameters.keys())
    if unknown:
        raise BadParameter(unknown[0], f"is not a parameter of {algorithm.name}")
    checked = {
        name: parameter.check(name, given.get(name, parameter.default))
        for name, parameter in algorithm.parameters.items()
    }
    return {"algorithm": algorithm.name, **checked}


def build(learner: Mapping[str, Any], *, tie: int) -> Learner:
    """A learner at its start, from completed settings."""
    parameters = {name: value for name, value in learner.items() if name != "algorithm"}
    return ALGORITHMS[learner["algorithm"]].build(**parameters, tie=tie)


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
