"""The kinds of parameters that settings have: each checks a value and describes itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LEAST = 1e-100
"""Of a learning rate, a weight and a class weight in a request: the product of the three does not vanish. Stored events
and states may have less."""


class BadParameter(ValueError):
    """A setting that is not allowed; `field` says which one, as in `features.bits`."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


@dataclass(frozen=True, slots=True)
class Number:
    """A real parameter in a range; an open end leaves its limit out. Without a default it may be null."""

    default: Any
    low: float
    high: float
    help: str
    low_open: bool = False
    high_open: bool = False

    def check(self, field: str, value: object) -> Any:
        if value is None and self.default is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadParameter(field, "must be a number")
        inside = self.low <= value <= self.high  # not a number is inside nothing
        if not inside or (self.low_open and value == self.low) or (self.high_open and value == self.high):
            raise BadParameter(field, f"must be {self.range}")
        return float(value)

    @property
    def range(self) -> str:
        """The allowed values in words.

        >>> Number(1.0, 0.0, 10.0, "", low_open=True).range
        'above 0 and at most 10'
        >>> Number(None, 0.0, 10.0, "").range
        'null, or at least 0 and at most 10'
        """
        low = "above" if self.low_open else "at least"
        high = "below" if self.high_open else "at most"
        null = "null, or " if self.default is None else ""
        return f"{null}{low} {self.low:g} and {high} {self.high:g}"

    def schema(self) -> dict[str, Any]:
        low = "exclusiveMinimum" if self.low_open else "minimum"
        high = "exclusiveMaximum" if self.high_open else "maximum"
        return {"type": "number" if self.default is not None else ["number", "null"],
                low: self.low, high: self.high,
                "default": self.default, "description": self.help}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number in a range; without a default it may be null."""

    default: int | None
    low: int
    high: int
    help: str

    def check(self, field: str, value: object) -> int | None:
        if value is None and self.default is None:
            return None
        if isinstance(value, float) and value.is_integer():  # to JSON 18.0 is a whole number
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise BadParameter(field, "must be a whole number")
        if not self.low <= value <= self.high:
            raise BadParameter(field, f"must be {self.range}")
        return value

    @property
    def range(self) -> str:
        """
        >>> Integer(18, 1, 24, "").range
        'at least 1 and at most 24'
        """
        return f"at least {self.low} and at most {self.high}"

    def schema(self) -> dict[str, Any]:
        return {"type": "integer" if self.default is not None else ["integer", "null"],
                "minimum": self.low, "maximum": self.high,
                "default": self.default, "description": self.help}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Choice:
    """A parameter that is one of a few words; without a default it may be null."""

    default: str | None
    choices: tuple[str, ...]
    help: str

    def check(self, field: str, value: object) -> str | None:
        if value is None and self.default is None:
            return None
        if not isinstance(value, str) or value not in self.choices:
            raise BadParameter(field, f"must be {self.range}")
        return value

    @property
    def range(self) -> str:
        """
        >>> Choice(None, ("l2",), "").range
        'one of null, l2'
        """
        return "one of " + ", ".join(("null",) * (self.default is None) + self.choices)

    def schema(self) -> dict[str, Any]:
        values = [None, *self.choices] if self.default is None else list(self.choices)
        return {"enum": values, "default": self.default, "description": self.help}


@dataclass(frozen=True, slots=True)
class Flag:
    """A parameter that is true or false."""

    default: bool
    help: str

    def check(self, field: str, value: object) -> bool:
        if not isinstance(value, bool):
            raise BadParameter(field, f"must be {self.range}")
        return value

    @property
    def range(self) -> str:
        return "true or false"

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean", "default": self.default, "description": self.help}


Parameter = Number | Integer | Choice | Flag


def check_fields(
    given: Mapping[str, object], parameters: Mapping[str, Parameter], owner: str, prefix: str = ""
) -> dict[str, Any]:
    """Each parameter's value, given or default; BadParameter for one that is out of its range or unknown.

    `owner` is what error messages call the thing that is set, `prefix` stands before the names of its fields.

    >>> check_fields({"C": 2}, {"C": Number(1.0, 0.0, 10.0, "")}, "pa1")
    {'C': 2.0}
    """
    unknown = sorted(given.keys() - parameters.keys())
    if unknown:
        known = ", ".join(parameters)
        raise BadParameter(prefix + unknown[0], f"is not a parameter of {owner}, which has {known}")
    return {
        name: parameter.check(prefix + name, given.get(name, parameter.default))
        for name, parameter in parameters.items()
    }
