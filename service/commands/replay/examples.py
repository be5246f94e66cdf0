"""The examples of a file: which columns are features and which is the label, and what a model for them looks like."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NamedTuple, cast

from novikoff import ModelInfo
from novikoff.calls import Features
from novikoff.schemas import Label
from service.commands.console import CommandFailed
from service.commands.replay.readers import (
    TEXT_READERS,
    Format,
    Numbered,
    PipedLines,
    Record,
    Stream,
    check_text,
    guess_format,
    is_pipe,
    open_stream,
    parquet_records,
    readable,
)

Raw = list[Any] | dict[str, Any]
"""Features as the file has them; None where a value is missing."""
Shape = Callable[[Raw], Features]
"""Turns features of a file into those that a model takes."""

LABEL_NAMES = ("label", "y", "target", "class", "outcome")
PACKED = "features"
"""A column of lists or dictionaries, each with all features of its example."""
PEEKED_ROWS = 1_000
LABELS_MAX = 1_000
NAMES_MAX = 1_000_000
ODD_SHARE_MAX = 0.1
"""If at most this share of rows has a cell that is not a number, such cells are errors, not named features."""
NAMED_HINT = """use named features: --settings '{"features": "named"}'"""


class Example(NamedTuple):
    row: int
    """Its number, from 1 on."""
    features: Raw
    label: Label
    place: str
    """Where it is in the file, for messages: `line 3`."""


@dataclass(slots=True)
class Survey:
    """What the examples of a file have in common."""

    rows: int | None
    """None if only the first rows were read."""
    labels: list[Label]
    features: int
    """How many names there are."""
    is_plain: bool
    """Whether all examples have numbers under the same names, as dense features need."""
    odd: str | None
    """If it is plain: the first cell that is not a number, as a message."""


class Source:
    """The examples of a file in their order. Standard input is read once, a file as often as needed."""

    def __init__(self, file: str, format: Format | None, label: str | None, features: Sequence[str]) -> None:
        self.file = file
        self._stream = open_stream(file)
        self._pipe: PipedLines | None = None
        try:
            with readable(file):
                self.format = format or guess_format(file, self._stream)
                check_text(file, self.format, self._stream)
            if self.format is not Format.parquet and is_pipe(self._stream):
                self._pipe = PipedLines(self._stream)
            self._records = self._read(self._stream)
            self._peeked = list(islice(self._records, 1))
            if not self._peeked:
                raise CommandFailed(f"{file} has no examples")
            first = self._peeked[0][1]
            self.is_guess = label is None
            self.label = label_column(first) if label is None else label
            self._features = list(features)
            packed = first.get(PACKED)
            _check_columns([self.label], first)
            _check_columns(features, packed if isinstance(packed, dict) else first)
            self.first: Raw = next(self._split(iter(self._peeked))).features
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._stream.close()

    @property
    def is_stream(self) -> bool:
        """Whether it is standard input, which may be endless and can be read only once."""
        return self.file == "-"

    def has_more(self) -> bool:
        """Whether the next example can probably be read without waiting."""
        return self._pipe is None or self._pipe.is_ready

    def examples(self) -> Iterator[Example]:
        return self._split(chain(self._peeked, self._records))

    def survey(self) -> Survey:
        """Survey the whole file, or the first PEEKED_ROWS of standard input."""
        if self.is_stream:
            self._peeked += islice(self._records, PEEKED_ROWS - len(self._peeked))
            survey = survey_of(self._split(iter(self._peeked)))
            survey.rows = None
            return survey
        with closing(open_stream(self.file)) as stream:
            return survey_of(self._split(self._read(stream)))

    def _read(self, stream: Stream) -> Iterator[Numbered]:
        with readable(self.file):
            if self.format is Format.parquet:
                yield from parquet_records(stream)
            else:
                yield from TEXT_READERS[self.format](self._pipe or stream)

    def _split(self, records: Iterator[Numbered]) -> Iterator[Example]:
        unit = "row" if self.format is Format.parquet else "line"
        for row, (line, record) in enumerate(records, 1):
            try:
                yield Example(row, *split(record, self.label, self._features), f"{unit} {line}")
            except CommandFailed as error:
                raise CommandFailed(f"{unit} {line}: {error}") from None


def label_column(record: Record) -> str:
    """The column that is probably the label: one with a usual name, else the last one.

    >>> label_column({"y": 1, "a": 2}), label_column({"a": 1, "b": 2})
    ('y', 'b')
    """
    if not record:
        raise CommandFailed("the first example is empty")
    by_name = {name.lower(): name for name in reversed(record)}
    return next((by_name[name] for name in LABEL_NAMES if name in by_name), next(reversed(record)))


def _check_columns(names: Sequence[str], known: Record) -> None:
    for name in names:
        if name not in known:
            raise CommandFailed(f"no column `{name}`; the columns are {', '.join(known)}")


def split(record: Record, label: str, names: Sequence[str]) -> tuple[Raw, Label]:
    """The features of a record, all or those with these names, and its label.

    >>> split({"a": 1.5, "y": 1.0, "b": None}, "y", [])
    ({'a': 1.5, 'b': None}, 1)
    >>> split({"features": [1.5, 2.5], "y": "no"}, "y", [])
    ([1.5, 2.5], 'no')
    """
    features = record.get(PACKED)
    if not isinstance(features, list | dict):
        features = {name: value for name, value in record.items() if name != label}
    if names and isinstance(features, dict):
        features = {name: features.get(name) for name in names}
    value = record.get(label)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool | int | str):
        return features, value
    raise CommandFailed(f"`{label}` is not a label (a string, an integer or a boolean): {value!r}")


def survey_of(examples: Iterator[Example]) -> Survey:
    first = next(examples)
    names = set(_names(first.features))
    labels: dict[tuple[type, Label], Label] = {}
    rows = odd_rows = 0
    odd, is_even = None, True
    for example in chain([first], examples):
        rows = example.row
        if len(labels) < LABELS_MAX:
            labels[type(example.label), example.label] = example.label
        is_even = is_even and _names(example.features) == names
        if is_even and (wrong := odd_cell(example.features)) is not None:
            odd_rows += 1
            odd = odd or f"{example.place}: {wrong}"
        if len(names) < NAMES_MAX:
            names |= _names(example.features)
    is_plain = is_even and (not names or (odd_rows < rows and odd_rows <= max(1, ODD_SHARE_MAX * rows)))
    in_order = sorted(labels.values(), key=_order)
    return Survey(rows, in_order, len(names) or len(first.features), is_plain, odd if is_plain else None)


def _names(features: Raw) -> Set[str]:
    return features.keys() if isinstance(features, dict) else frozenset()


def _order(label: Label) -> tuple[str, float, str]:
    """
    >>> sorted(["b", 10, 9, "a", True], key=_order)
    [True, 9, 10, 'a', 'b']
    """
    number = label if isinstance(label, int) else 0
    return type(label).__name__, number, str(label)


def settings_for(source: Source, survey: Survey, given: dict[str, Any]) -> dict[str, Any]:
    """Settings of a model for the file: those that were given, and guesses for its labels and features."""
    is_plain = survey.is_plain and source.format is not Format.svmlight
    if is_plain and survey.odd is not None and "features" not in given:
        raise CommandFailed(survey.odd)
    guessed = {"labels": guess_labels(survey.labels), "features": "dense" if is_plain else "named"}
    return guessed | given


def guess_labels(seen: list[Label]) -> list[Label] | None:
    """The labels of a model for such examples; None lets the classes appear as they are revealed.

    >>> guess_labels([0, 1]), guess_labels([1]), guess_labels(["a", "b", "c"])
    ([0, 1], [-1, 1], None)
    """
    if len(seen) == 2:
        return seen
    return [-1, 1] if seen in ([-1], [1]) else None


def shape_for(info: ModelInfo, source: Source) -> Shape:
    """How the file's features become those that the model takes."""
    if info.features_kind != "dense":
        return by_name
    if source.format is not Format.svmlight:
        return by_order(list(source.first) if isinstance(source.first, dict) else [])
    dimension = info.dimension or info.settings["features"]["dimension"]
    if not dimension:
        raise CommandFailed(
            f"{info.model} has dense features, and an svmlight file does not say how many:"
            """ make it with --settings '{"features": {"kind": "dense", "dimension": …}}'"""
        )
    return by_order([str(index) for index in range(1, dimension + 1)], absent=0.0)


def by_name(features: Raw) -> Features:
    """Named features, without those that are missing.

    >>> by_name({"a": 1, "b": None, "c": "red"})
    {'a': 1, 'c': 'red'}
    """
    if isinstance(features, list):
        raise CommandFailed("the model takes features with names, and the file has lists of numbers")
    kept = {name: value for name, value in features.items() if not _is_missing(value)}
    for name, value in kept.items():
        if isinstance(value, int | float):
            _number(name, value)
    return kept


def by_order(names: Sequence[str], *, absent: float | None = None) -> Shape:
    """Lists of numbers in the order of these names; one may be left out if `absent` is its value then.

    >>> by_order(["b", "a"])({"a": 3, "b": 4.5}), by_order(["1", "2"], absent=0.0)({"2": 0.5})
    ([4.5, 3.0], [0.0, 0.5])
    """
    places = {name: place for place, name in enumerate(names)}

    def shape(features: Raw) -> Features:
        if isinstance(features, list):
            return [_number(name, value) for name, value in _pairs(features)]
        values = [absent] * len(places)
        for name, value in features.items():
            if name not in places:
                raise CommandFailed(
                    f"`{name}` is not a feature of the model or of the first example; {NAMED_HINT}"
                )
            values[places[name]] = _number(name, value)
        if absent is None and len(features) < len(places):
            _number(next(name for name in names if name not in features), None)
        return cast(list[float], values)

    return shape


def odd_cell(features: Raw) -> str | None:
    """Why a list of numbers cannot hold these features; None if it can.

    >>> odd_cell({"a": 1, "b": 2.5}), odd_cell([1.5, float("inf")])
    (None, '`features[1]` is not a finite number')
    """
    try:
        for name, value in _pairs(features):
            _number(name, value)
    except CommandFailed as error:
        return str(error)
    return None


def _pairs(features: Raw) -> Iterable[tuple[str, Any]]:
    if isinstance(features, dict):
        return features.items()
    return ((f"features[{i}]", value) for i, value in enumerate(features))


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _number(name: str, value: Any) -> float:
    if _is_missing(value):
        raise CommandFailed(f"`{name}` is missing, but a list needs every value; {NAMED_HINT}")
    if not isinstance(value, int | float):
        raise CommandFailed(
            f"`{name}` is not a number but {value!r}; {NAMED_HINT}, or choose others with --features"
        )
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise CommandFailed(f"`{name}` is not a finite number")
    return number
