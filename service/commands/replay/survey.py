"""A survey of examples: how many, which labels, which features, and a cell that is unlike all others."""

from collections.abc import Iterator, Set
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from novikoff.schemas import Label
from service.commands.replay.layout import Raw
from service.commands.replay.shape import odd_cell

LABELS_MAX = 1_000
NAMES_MAX = 1_000_000
ODD_SHARE_MAX = 0.1
"""Up to this share of rows, cells that are no numbers are taken for errors of the file, and beyond for its nature."""


class Example(NamedTuple):
    row: int
    """Which example it is, from 1 on."""
    features: Raw
    label: Label
    place: str
    """Where it is in the file, in words: `line 3`."""


@dataclass(slots=True)
class Survey:
    """What the examples of a file are like."""

    rows: int | None
    """None if only the first were read."""
    labels: list[Label]
    features: int
    """How many names there are."""
    is_plain: bool
    """Whether features are numbers under the same names, so that dense features can hold them."""
    odd: str | None = None
    """Of plain features, the first cell that is no number for all that, in words."""


def survey_of(examples: Iterator[Example]) -> Survey:
    """One bad cell does not make a table of numbers a table of words: it is an error, which has a place."""
    first = next(examples)
    names = set(_names(first.features))
    labels: dict[tuple[type, Label], Label] = {}
    rows = odd_rows = 0
    odd, is_even = None, True
    for example in chain([first], examples):
        rows = example.row
        if len(labels) < LABELS_MAX:
            labels[type(example.label), example.label] = example.label
        if is_even:
            is_even = _names(example.features) == names
        if is_even and (wrong := odd_cell(example.features)) is not None:
            odd_rows += 1
            odd = odd or f"{example.place}: {wrong}"
        if len(names) < NAMES_MAX:
            names |= _names(example.features)
    is_plain = is_even and (not names or (odd_rows < rows and odd_rows <= max(1, ODD_SHARE_MAX * rows)))
    return Survey(
        rows,
        sorted(labels.values(), key=_order),
        len(names) or len(first.features),
        is_plain,
        odd if is_plain else None,
    )


def _names(features: Raw) -> Set[str]:
    return features.keys() if isinstance(features, dict) else frozenset()


def _order(label: Label) -> tuple[str, float, str]:
    """
    >>> sorted(["b", 10, 9, "a", True], key=_order)
    [True, 9, 10, 'a', 'b']
    """
    number = label if isinstance(label, int) else 0
    return type(label).__name__, number, str(label)
