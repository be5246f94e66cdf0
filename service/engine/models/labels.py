"""A client's labels and the classes they stand for."""

from collections.abc import Iterable
from itertools import repeat
from typing import Any

from service.events import Label
from service.learning import saved


def same(a: Label | None, b: Label | None) -> bool:
    """Whether two labels are the same one. To JSON `true` is not `1`, to Python it is.

    >>> same(1, 1), same(1, True), same("1", 1)
    (True, False, False)
    """
    return type(a) is type(b) and a == b


def text_of(label: Label) -> str:
    """A label as the key of a JSON object, which is always a string.

    >>> text_of("spam"), text_of(-1), text_of(True)
    ('spam', '-1', 'true')
    """
    return str(label).lower() if isinstance(label, bool) else str(label)


LABEL_CHARS_MAX = 256
LABEL_ABS_MAX = 2**63 - 1


def is_label(value: Any) -> bool:
    """Whether a model can have it as a label.

    >>> [is_label(value) for value in ("spam", 1, True, 2**63, 1.0, None)]
    [True, True, True, False, False, False]
    """
    if type(value) is str:
        return len(value) <= LABEL_CHARS_MAX
    return type(value) is bool or (type(value) is int and abs(value) <= LABEL_ABS_MAX)


FEW = 8
"""Up to so many labels are searched one by one: a dictionary would be larger than the rest of a small model."""


class Labels:
    """Labels in the order in which they were declared or seen; their positions are the classes."""

    __slots__ = ("_index", "values")

    def __init__(self, values: Iterable[Label]) -> None:
        self.values = list(values)
        self._index: dict[tuple[type, Label], int] | None = None
        if len(self.values) > FEW:
            self._index = {(type(label), label): at for at, label in enumerate(self.values)}

    def in_set(self, classes: list[int] | None, *, may_grow: bool) -> list[Label] | None:
        """The labels of a set of classes. If nothing was ruled out all of them, and None if others may appear.

        >>> labels = Labels(["a", "b", "c"])
        >>> labels.in_set([0, 2], may_grow=True), labels.in_set(None, may_grow=False)
        (['a', 'c'], ['a', 'b', 'c'])
        """
        if classes is None:
            return None if may_grow else self.values
        return [self.values[each] for each in classes]

    @classmethod
    def restore(cls, kept: Any, declared: list[Label] | None) -> "Labels":
        """The labels of a saved state; `saved.BadState` unless they are those declared, if any were, and different."""
        saved.check(
            type(kept) is list and all(is_label(label) for label in kept),
            "labels",
            "must be a list of strings, integers and booleans",
        )
        labels = cls(kept)
        saved.check(
            len({(type(label), label) for label in kept}) == len(kept),
            "labels",
            "must differ from each other",
        )
        is_declared = declared is None or (len(declared) == len(kept) and all(map(same, declared, kept)))
        saved.check(is_declared, "labels", "must be those of the settings")
        return labels

    def add(self, label: Label) -> None:
        self.values.append(label)
        if self._index is not None:
            self._index[type(label), label] = len(self.values) - 1
        elif len(self.values) > FEW:
            self._index = {(type(value), value): at for at, value in enumerate(self.values)}

    def index(self, label: Label | None) -> int:
        """The class of a label, -1 if it has none."""
        if self._index is not None:
            return self._index.get((type(label), label), -1) if label is not None else -1
        for at, value in enumerate(self.values):
            if value == label and type(value) is type(label):
                return at
        return -1

    def has_all(self, labels: list[Label]) -> bool:
        """Whether each of the labels has a class.

        >>> Labels([1, "a"]).has_all([1, 1, "a"]), Labels([1]).has_all([1, True])
        (True, False)
        """
        distinct: Iterable[Label] = set(labels) if len(set(map(type, labels))) == 1 else labels
        return all(self.index(label) >= 0 for label in distinct)

    def indices(self, labels: list[Label]) -> list[int]:
        """The class of each label, -1 where it has none."""
        kinds = set(map(type, labels))
        if len(kinds) > 1:
            return [self.index(label) for label in labels]
        known = {label: at for at, label in enumerate(self.values) if type(label) in kinds}
        return list(map(known.get, labels, repeat(-1)))

    def label(self, index: int) -> Label | None:
        """The label of a class, None if there is no such class: a reset may have forgotten it."""
        return self.values[index] if 0 <= index < len(self.values) else None
