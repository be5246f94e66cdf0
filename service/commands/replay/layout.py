"""Which part of a record is the label and which are the features, chosen or guessed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from novikoff.schemas import Label
from service.commands.console import CommandFailed
from service.commands.replay.formats import Record

LABEL_NAMES = ("label", "y", "target", "class", "outcome")
PACKED = "features"

Raw = list[Any] | dict[str, Any]
"""Features as the file has them; None where a value is missing."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The name of the label, and the chosen names of features: empty for all but the label."""

    label: str
    features: tuple[str, ...]
    is_guess: bool

    def split(self, record: Record) -> tuple[Raw, Label]:
        """The features and the label of a record.

        >>> Layout("y", (), is_guess=False).split({"a": 1.5, "y": 1.0, "b": None})
        ({'a': 1.5, 'b': None}, 1)
        >>> Layout("y", (), is_guess=False).split({"features": [1.5, 2.5], "y": "no"})
        ([1.5, 2.5], 'no')
        """
        values = record.get(PACKED)
        if not isinstance(values, list | dict):
            values = {name: value for name, value in record.items() if name != self.label}
        if self.features and isinstance(values, dict):
            values = {name: values.get(name) for name in self.features}
        return values, self._label(record.get(self.label))

    def _label(self, value: Any) -> Label:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool | int | str):
            return value
        raise CommandFailed(f"`{self.label}` is not a label (a string, an integer or a boolean): {value!r}")


def choose(record: Record, label: str | None, features: Sequence[str]) -> Layout:
    """The layout of records like this first one: the label by its name, else the last column.

    >>> choose({"y": 1, "a": 2}, None, ()).label, choose({"a": 1, "b": 2}, None, ()).label
    ('y', 'b')
    >>> choose({"a": 1, "b": 2}, "c", ())
    Traceback (most recent call last):
    service.commands.console.CommandFailed: there is no `c`; there are a, b
    """
    if not record:
        raise CommandFailed("the first example is empty")
    chosen = label
    if chosen is None:
        by_name = {name.lower(): name for name in reversed(record)}
        chosen = next((by_name[name] for name in LABEL_NAMES if name in by_name), next(reversed(record)))
    _check((chosen,), record)
    packed = record.get(PACKED)
    _check(features, packed if isinstance(packed, dict) else record)
    return Layout(chosen, tuple(features), is_guess=label is None)


def _check(names: Sequence[str], known: dict[str, Any]) -> None:
    for name in names:
        if name not in known:
            raise CommandFailed(f"there is no `{name}`; there are {', '.join(known)}")
