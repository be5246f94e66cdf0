"""Named features: an exact dictionary, learned as it goes; and what all features with names share."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from service.learning import saved
from service.learning.features.expansion import EXPANDED_CHARS_MAX, expand
from service.learning.features.rows import rows_of_examples, rows_of_named, rows_of_names
from service.learning.vectors import Rows, Vector, Vectors


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


class Named(WithNames):
    """Each name gets a place of its own when it is first revealed, until `names_max` names are known.

    Later names are ignored; `ignored_names` counts how often that happened, each name of each revealed
    example once. A prediction looks names up and never adds one.
    """

    __slots__ = ("_first", "_index", "_names", "_names_max", "ignored_names")

    is_fixed = False

    def __init__(self, *, names_max: int, text: frozenset[str], first: int) -> None:
        super().__init__(text)
        self._names_max = names_max
        self._first = first
        self._names: list[str] = []
        self._index: dict[str, int] = {}
        self.ignored_names = 0

    def vector(self, example: dict[str, float]) -> Vector:
        known = [(place, value) for name, value in example.items()
                 if (place := self._index.get(name)) is not None]  # fmt: skip
        values = np.array([value for _, value in known], dtype=np.float64)
        return Vector(values, np.array([place for place, _ in known], dtype=np.intp))

    def vectors(self, rows: Rows) -> Vectors | None:
        places = [self._index.get(name) for name in rows.names or ()]
        return None if None in places else Vectors(rows.values, np.array(places, dtype=np.intp))

    def absorb(self, example: dict[str, float]) -> None:
        for name in example:
            if name in self._index:
                continue
            if len(self._names) < self._names_max:
                self._index[name] = self._first + len(self._names)
                self._names.append(name)
            else:
                self.ignored_names += 1

    def size(self) -> int:
        return self._first + len(self._names)

    def name(self, index: int) -> int | str:
        return self._names[index - self._first]

    def names(self) -> list[str]:
        """All names in the order of their places."""
        return list(self._names)

    def names_in(self, example: dict[str, float]) -> dict[int, str]:
        return {self._index[name]: name for name in example if name in self._index}

    def state(self) -> dict[str, Any]:
        return {"names": self.names(), "ignored_names": self.ignored_names}

    def restore(self, state: Any) -> None:
        names, ignored_names = saved.fields(state, "names", "ignored_names")
        saved.check(
            type(names) is list and len(names) <= self._names_max,
            "names",
            f"must be a list of at most {self._names_max} names",
        )
        for at, name in enumerate(names):
            if type(name) is not str or not 0 < len(name) <= EXPANDED_CHARS_MAX:
                raise saved.BadState(f"names[{at}]", f"must have 1 to {EXPANDED_CHARS_MAX} characters")
        self._names = list(names)
        self._index = {name: self._first + i for i, name in enumerate(self._names)}
        saved.check(len(self._index) == len(names), "names", "must differ from each other")
        self.ignored_names = saved.whole(ignored_names, "ignored_names")
