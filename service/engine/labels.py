"""A client's labels and the classes they stand for."""

from collections.abc import Iterable

from service.events import Label


def same(a: Label | None, b: Label | None) -> bool:
    """Whether two labels are the same one. To JSON `true` is not `1`, to Python it is.

    >>> same(1, 1), same(1, True), same("1", 1)
    (True, False, False)
    """
    return type(a) is type(b) and a == b


class Labels:
    """Labels in the order in which they were declared or seen; their positions are the classes."""

    __slots__ = ("_index", "values")

    def __init__(self, values: Iterable[Label]) -> None:
        self.values: list[Label] = []
        self._index: dict[tuple[type, Label], int] = {}
        for value in values:
            self.add(value)

    def add(self, label: Label) -> None:
        self._index[type(label), label] = len(self.values)
        self.values.append(label)

    def index(self, label: Label | None) -> int:
        """The class of a label, -1 if it has none."""
        return -1 if label is None else self._index.get((type(label), label), -1)

    def label(self, index: int) -> Label | None:
        return self.values[index] if index >= 0 else None
