"""Many examples at once as the rows of a table: read, journaled and learned together."""

from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from struct import Struct, error
from typing import Any

import numpy as np

from service.learning.features.contract import BadFeatures
from service.learning.features.expansion import expand
from service.learning.vectors import LARGEST, Array, Rows, all_within


@lru_cache(maxsize=64)
def packer(count: int) -> Callable[..., bytes]:
    """Makes memory of so many numbers, as the journal keeps them."""
    return Struct(f"<{count}d").pack


def rows_of_lists(sent: Sequence[Any], dimension: int) -> Rows | None:
    """Lists of so many numbers as rows; None if one of them is something else.

    >>> rows_of_lists([[1.0, 2.0], [3, True]], 2).values.tolist()
    [[1.0, 2.0], [3.0, 1.0]]
    >>> rows_of_lists([[1.0, 2.0], [3.0]], 2)
    """
    pack = packer(dimension)
    try:
        memory = b"".join([pack(*numbers) for numbers in sent])
    except (error, TypeError, OverflowError):
        return None
    values: Array = np.frombuffer(memory, dtype="<f8").reshape(len(sent), dimension)
    return Rows(values) if all_within(values, LARGEST) else None


def rows_of_names(sent: Iterable[Any], text: frozenset[str]) -> list[Rows] | None:
    """Examples of names with numbers, those that have the same names together; None if one is something else.

    >>> rows = rows_of_names([{"b": 1, "a": 2}, {"b": 3.5, "a": True}, {"c": 1}], frozenset())
    >>> [(table.names, table.values.tolist()) for table in rows]
    [(['a', 'b'], [[2.0, 1.0], [1.0, 3.5]]), (['c'], [[1.0]])]
    >>> rows_of_names([{"a": "word"}], frozenset()), rows_of_names([{}, {}], frozenset())
    (None, None)
    """
    found: list[Rows] = []
    names: list[str] = []
    numbers = array("d")
    try:
        for example in sent:
            its_names = list(example)
            if its_names != names or not names:
                if numbers:
                    found.append(_sorted_rows(names, _table(numbers, len(names))))
                expand(example, text)  # names and their values are in order, if it does not raise
                names, numbers = its_names, array("d")
            numbers.fromlist(list(example.values()))
    except (BadFeatures, AttributeError, TypeError, OverflowError):
        return None
    found.append(_sorted_rows(names, _table(numbers, len(names))))
    return found if all(all_within(rows.values, LARGEST) for rows in found) else None


def rows_of_named(names: list[str], values: Array, text: frozenset[str]) -> list[Rows] | None:
    """Examples that have the same names, in whatever order; None if a name will not do."""
    try:
        expand(dict(zip(names, values[0].tolist(), strict=True)), text)
    except BadFeatures:
        return None
    return [_sorted_rows(names, values)]


def _sorted_rows(names: list[str], values: Array) -> Rows:
    order = sorted(range(len(names)), key=names.__getitem__)
    return Rows(
        values.take(order, axis=1) + 0.0, [names[at] for at in order]
    )  # -0.0 becomes 0.0, as in `expand`


def _table(numbers: "array[float]", width: int) -> Array:
    return np.frombuffer(numbers, dtype=np.float64).reshape(-1, width)


def rows_of_examples(examples: Iterable[dict[str, float]]) -> list[Rows]:
    """Canonical examples, those that have the same names together."""
    found: list[tuple[list[str], list[list[float]]]] = []
    for example in examples:
        names = list(example)
        if not found or found[-1][0] != names:
            found.append((names, []))
        found[-1][1].append(list(example.values()))
    return [Rows(np.array(values).reshape(len(values), len(names)), names) for names, values in found]
