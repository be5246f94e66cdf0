"""Tables of examples: a DataFrame of pandas, an array of numpy, or any rows, as features that can be sent."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from msgspec.structs import asdict

from novikoff.calls import Features, encode, make_id
from novikoff.errors import Ended, Refused, Unreachable
from novikoff.lines import Line, Streamed
from novikoff.schemas import Label, Learned, Outcome, PastRound, Prediction

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
    return _rows_of_numbers(table) if is_dense else _named_rows(table)


def _rows_of_numbers(table: Table) -> Iterator[Features]:
    try:
        return iter(table.to_numpy(dtype=float).tolist())
    except (TypeError, ValueError):
        _check_numbers(table)
        raise


def _check_numbers(table: Table) -> None:
    """ValueError with the place of the first cell that is no number."""
    for row, values in enumerate(table.itertuples(index=False, name=None)):
        for name, value in zip(table.columns, values, strict=True):
            try:
                float(value)
            except (TypeError, ValueError):
                raise ValueError(
                    f"row {row}, column {name!r}: the model has dense features, and {value!r} is no number"
                ) from None


def _named_rows(table: Table) -> Iterator[Features]:
    names = [str(name) for name in table.columns]
    present = table.notna().to_numpy().tolist()
    for values, known in zip(table.itertuples(index=False, name=None), present, strict=True):
        yield {name: value for name, value, is_there in zip(names, values, known, strict=True) if is_there}


def frame_of(rounds: Iterable[PastRound]) -> Table:
    """A DataFrame with a row for each round; a feature `words` is in the column `features.words`."""
    try:
        import pandas
    except ImportError:
        raise ImportError("history_table needs pandas: pip install pandas") from None
    rows = []
    for row in map(asdict, rounds):
        features = row.pop("features")
        cells = features.items() if isinstance(features, Mapping) else enumerate(features)
        rows.append(row | {f"features.{name}": value for name, value in cells})
    return pandas.DataFrame(rows, columns=None if rows else PastRound.__struct_fields__)


def lines_of(
    table: Table, labels: Iterable[Label] | None, *, is_dense: bool, safe: bool = True
) -> list[Line]:
    """A line for each row: a prediction, or with labels a whole round; `safe` ones have ids.

    All of them, so that what cannot be sent fails before anything is sent: ValueError or TypeError, with the row.
    """
    rows = list(rows_of(table, is_dense=is_dense))
    told = None if labels is None else _labels_of(labels)
    if told is not None and len(told) != len(rows):
        raise ValueError(f"the table has {len(rows)} rows, and there are {len(told)} labels")
    for row, features in enumerate(rows):
        _check_row(row, features)
    if told is None:
        return [{"features": row, "id": make_id()} for row in rows]
    lines: list[Line] = [{"features": row, "label": label} for row, label in zip(rows, told, strict=True)]
    return [{**line, "id": make_id()} for line in lines] if safe else lines


def _labels_of(labels: Iterable[Label]) -> list[Label]:
    """A label that is missing would make a round a mere prediction."""
    told: list[Any] = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    told = [label.tolist() if hasattr(label, "tolist") else label for label in told]
    for row, label in enumerate(told):
        is_one = label.is_integer() if isinstance(label, float) else isinstance(label, bool | int | str)
        if not is_one:
            raise ValueError(f"row {row}: {label!r} is not a label (a string, an integer or a boolean)")
    return told


def _check_row(row: int, features: Features) -> None:
    try:
        encode(features)
    except TypeError as error:
        cells = features.items() if isinstance(features, Mapping) else enumerate(features)
        for name, value in cells:
            try:
                encode(value)
            except TypeError as wrong:
                raise TypeError(f"row {row}, column {name!r}: {wrong}") from None
        raise TypeError(f"row {row}: {error}") from None


def settings_for(features: Features, labels: Collection[Label]) -> dict[str, Any] | None:
    """What to make a model with that does not exist yet, for such features and these first labels.

    The service makes one by itself when its first round comes, with the labels -1 and 1, and would refuse others: None
    if those suit. Only booleans are known to have no third label, and only -1 tells that 1 is not the 1 of 0 and 1.
    With labels of None the classes appear as they are revealed, which is never wrong.

    >>> settings_for({"a": 1.0}, [True]), settings_for([1.0], ["p", "q"])
    ({'labels': [False, True], 'features': 'named'}, {'labels': None, 'features': 'dense'})
    >>> settings_for([1.0], [1, -1]), settings_for([1.0], [1])
    (None, {'labels': None, 'features': 'dense'})
    """
    if _are_signs(labels) and -1 in labels:
        return None
    are_booleans = all(isinstance(label, bool) for label in labels)
    kind = "named" if isinstance(features, Mapping) else "dense"
    return {"labels": [False, True] if are_booleans else None, "features": kind}


def is_no_matter(refused: Refused, labels: Collection[Label]) -> bool:
    """Whether rounds may be sent though their model could not be made.

    Somebody else has made it meanwhile; or the key may not, and the one that the service makes takes these labels.
    """
    return refused.code == "model-exists" or (refused.code == "forbidden" and _are_signs(labels))


def _are_signs(labels: Collection[Label]) -> bool:
    return all(label in (-1, 1) and not isinstance(label, bool) for label in labels)


class Answers(Generic[Answered]):
    """The answers to the rows of a table, in their order. Errors tell the row, from 0 on, and how many went well."""

    def __init__(self, kind: type[Answered], rows: int) -> None:
        self._kind = kind
        self._rows = rows
        self._refused: tuple[int, Refused] | None = None
        self._count = 0
        self.good: list[Answered] = []

    def add(self, answer: Streamed) -> None:
        if isinstance(answer, Refused):
            self._refused = self._refused or (self._count, answer)
        else:
            assert isinstance(answer, self._kind)
            self.good.append(answer)
        self._count += 1

    @contextmanager
    def of_one_request(self) -> Iterator[None]:
        """Rows that were sent with a bad one are learned: it is raised when all of them are answered."""
        try:
            yield
        except Ended as ended:
            raise self._told(self._count, ended) from None
        except Refused as refused:
            words = f"{refused.detail}; at least {self._how_many()}"
            raise Refused(refused.code, refused.status, words, refused.fields) from refused
        except Unreachable as error:
            raise type(error)(f"{error.detail}; at least {self._how_many()}") from error
        if self._refused is not None:
            raise self._told(*self._refused)

    def _told(self, row: int, refused: Refused) -> Refused:
        words = f"row {row}: {refused.detail}; {self._how_many()}"
        return type(refused)(refused.code, refused.status, words, refused.fields)

    def _how_many(self) -> str:
        done = "learned" if self._kind is Learned else "predicted"
        return f"{len(self.good):,} of {self._rows:,} rows were {done}"
