"""Named features: an exact dictionary, learned as it goes."""

from typing import Any

import numpy as np

from service.learning.features.with_names import WithNames
from service.learning.vectors import Rows, Vector, Vectors


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

    def restore(self, state: dict[str, Any]) -> None:
        self._names = list(state["names"])
        self._index = {name: self._first + i for i, name in enumerate(self._names)}
        self.ignored_names = state["ignored_names"]
