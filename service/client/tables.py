"""Tables of examples: a DataFrame of pandas, an array of numpy, or any rows, as features that can be sent."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from service.answers import Label
from service.client.answers import Outcome, Prediction
from service.client.calls import Features, Line, Streamed, make_id
from service.client.problems import Refused

Answered = TypeVar("Answered", bound=Prediction | Outcome)

Table = Any
"""A pandas DataFrame, a numpy array of two dimensions, or an iterable of lists or dictionaries."""


def has_names(table: Table) -> bool:
    """Whether it is a DataFrame, whose columns have names."""
    return hasattr(table, "columns") and hasattr(table, "itertuples")


def rows_of(table: Table, *, is_dense: bool) -> Iterator[Features]:
    """The rows in their order: of a DataFrame lists, or dictionaries without what is missing."""
    if not has_names(table):
        return iter(table.tolist() if hasattr(table, "tolist") else table)
    if is_dense:
        return iter(table.to_numpy(dtype=float).tolist())
    return _named_rows(table)


def _named_rows(table: Table) -> Iterator[Features]:
    names = [str(name) for name in table.columns]
    present = table.notna().to_numpy().tolist()
    for values, known in zip(table.itertuples(index=False, name=None), present, strict=True):
        yield {name: value for name, value, is_there in zip(names, values, known, strict=True) if is_there}


def lines_of(
    table: Table, labels: Iterable[Label] | None, *, is_dense: bool, safe: bool = True
) -> Iterator[Line]:
    """A line for each row: a prediction, or with labels a whole round; `safe` ones have ids."""
    rows = rows_of(table, is_dense=is_dense)
    if labels is None:
        return ({"features": row, "id": make_id()} for row in rows)
    told = labels.tolist() if hasattr(labels, "tolist") else labels
    lines = ({"features": row, "label": label} for row, label in zip(rows, told, strict=True))
    return ({**line, "id": make_id()} for line in lines) if safe else lines


def good(row: int, answer: Streamed, kind: type[Answered]) -> Answered:
    """The answer to a row, counted from 0; Refused with the row if there is none."""
    if isinstance(answer, Refused):
        raise Refused(answer.code, answer.status, f"row {row}: {answer.detail}", answer.fields)
    assert isinstance(answer, kind)
    return answer
