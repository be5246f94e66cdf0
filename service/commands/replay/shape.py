"""Features as a model takes them: a list for dense features, a dictionary for named and hashed ones."""

import math
from collections.abc import Callable, Iterator
from typing import Any

from novikoff.calls import Features
from service.commands.console import CommandFailed
from service.commands.replay.layout import Raw

Shape = Callable[[Raw], Features]

NAMED_HINT = """a model made with --settings '{"features": "named"}' takes it"""


def odd_cell(features: Raw) -> str | None:
    """Why a list of numbers cannot hold these, in words; None if it can.

    >>> odd_cell({"a": 1, "b": 2.5}), odd_cell([1.5, float("inf")])
    (None, '`features[1]` is not a finite number')
    """
    pairs = features.items() if isinstance(features, dict) else _with_places(features)
    try:
        for name, value in pairs:
            _number(name, value)
    except CommandFailed as error:
        return str(error)
    return None


def _with_places(features: list[Any]) -> Iterator[tuple[str, Any]]:
    return ((f"features[{i}]", value) for i, value in enumerate(features))


def is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def by_name(features: Raw) -> Features:
    """Named features, without those that are missing.

    >>> by_name({"a": 1, "b": None, "c": "red"})
    {'a': 1, 'c': 'red'}
    """
    if isinstance(features, list):
        raise CommandFailed("the model takes features with names, and the file has lists of numbers")
    for name, value in features.items():
        if isinstance(value, int | float) and not is_missing(value):
            _number(name, value)
    return {name: value for name, value in features.items() if not is_missing(value)}


def by_order(first: Raw) -> Shape:
    """Lists of numbers, in the order of the first example's names.

    >>> by_order({"b": 1, "a": 2})({"a": 3, "b": 4.5})
    [4.5, 3.0]
    """
    names = list(first) if isinstance(first, dict) else []

    def shape(features: Raw) -> Features:
        if isinstance(features, list):
            return [_number(name, value) for name, value in _with_places(features)]
        if not features.keys() <= set(names):
            unknown = ", ".join(sorted(features.keys() - set(names)))
            raise CommandFailed(f"the first example had no `{unknown}`: {NAMED_HINT}")
        return [_number(name, features.get(name)) for name in names]

    return shape


def by_index(dimension: int) -> Shape:
    """Lists of numbers out of svmlight's pairs, where index 1 comes first.

    >>> by_index(3)({"3": 0.5})
    [0.0, 0.0, 0.5]
    """

    def shape(features: Raw) -> Features:
        assert isinstance(features, dict)
        values = [0.0] * dimension
        for name, value in features.items():
            if not name.isdecimal() or not 1 <= int(name) <= dimension:
                raise CommandFailed(f"index {name} is not between 1 and the model's dimension, {dimension}")
            values[int(name) - 1] = value
        return values

    return shape


def _number(name: str, value: Any) -> float:
    if is_missing(value):
        raise CommandFailed(f"`{name}` is missing, and a list cannot leave it out; {NAMED_HINT}")
    if not isinstance(value, int | float):
        raise CommandFailed(
            f"`{name}` is not a number but {value!r}; {NAMED_HINT}, and --features chooses others"
        )
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise CommandFailed(f"`{name}` is not a finite number")
    return number
