"""What features with names share: how they are read and journaled."""

from collections.abc import Iterator, Sequence
from typing import Any

from service.learning.features.expansion import expand
from service.learning.features.rows import rows_of_examples, rows_of_named, rows_of_names
from service.learning.vectors import Rows


class WithNames:
    """An example is a dictionary of one number for each name, in the order of the names."""

    __slots__ = ("_text",)

    dimension: int | None = 0
    learns_as_served = True

    def __init__(self, text: frozenset[str]) -> None:
        self._text = text

    def read(self, sent: Any) -> dict[str, float]:
        return expand(sent, self._text)

    def read_rows(self, sent: Sequence[Any] | Rows) -> list[Rows] | None:
        if isinstance(sent, Rows):
            return None if sent.names is None else rows_of_named(sent.names, sent.values, self._text)
        return rows_of_names(sent, self._text)

    def encode(self, example: dict[str, float]) -> dict[str, float]:
        return example

    def decode(self, stored: dict[str, float]) -> dict[str, float]:
        return stored

    def rows_of(self, examples: Sequence[dict[str, float]]) -> list[Rows]:
        return rows_of_examples(examples)

    def examples_in(self, rows: Rows) -> Iterator[dict[str, float]]:
        names = rows.names or []
        return (dict(zip(names, values, strict=True)) for values in rows.values.tolist())
