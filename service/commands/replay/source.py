"""The examples of a file, and a survey of them: how many, which labels, which features."""

from collections.abc import Iterator, Sequence, Set
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice
from typing import BinaryIO, NamedTuple

from service.answers import Label
from service.commands.console import CommandFailed
from service.commands.replay.formats import FORMATS, Record
from service.commands.replay.layout import Layout, Raw, choose
from service.commands.replay.opening import guess_format, open_examples, readable
from service.commands.replay.shape import is_plain

PEEKED_ROWS = 1_000
LABELS_MAX = 1_000
NAMES_MAX = 1_000_000


class Example(NamedTuple):
    row: int
    features: Raw
    label: Label


@dataclass(slots=True)
class Survey:
    """What the examples of a file are like."""

    rows: int | None
    """None if only the first were read."""
    labels: list[Label]
    features: int
    """How many names there are."""
    is_plain: bool
    """Whether all features are numbers under the same names, so that dense features can hold them."""


class Source:
    """A file's examples in their order. Standard input can be gone through once, a file again and again."""

    def __init__(self, file: str, format: str | None, label: str | None, features: Sequence[str]) -> None:
        self.file = file
        self._stream = open_examples(file)
        try:
            with readable(file):
                self.format = format or guess_format(file, self._stream)
            self._records = self._read(self._stream)
            self._peeked = list(islice(self._records, 1))
            if not self._peeked:
                raise CommandFailed(f"{file} has no examples")
            self.layout: Layout = choose(self._peeked[0], label, features)
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

    def examples(self) -> Iterator[Example]:
        yield from self._split(chain(self._peeked, self._records))

    def survey(self) -> Survey:
        """Survey the whole file, or the first PEEKED_ROWS of standard input."""
        if self.is_stream:
            self._peeked += islice(self._records, PEEKED_ROWS - len(self._peeked))
            survey = _survey(self._split(iter(self._peeked)))
            survey.rows = None
            return survey
        with closing(open_examples(self.file)) as stream:
            return _survey(self._split(self._read(stream)))

    def _read(self, stream: BinaryIO) -> Iterator[Record]:
        with readable(self.file):
            yield from FORMATS[self.format](stream)

    def _split(self, records: Iterator[Record]) -> Iterator[Example]:
        for row, record in enumerate(records, 1):
            try:
                yield Example(row, *self.layout.split(record))
            except CommandFailed as error:
                raise CommandFailed(f"row {row}: {error}") from None


def _survey(examples: Iterator[Example]) -> Survey:
    first = next(examples)
    survey = Survey(0, [], len(first.features), is_plain=True)
    names = set(_names(first.features))
    labels: dict[tuple[type, Label], Label] = {}
    for example in chain([first], examples):
        survey.rows = example.row
        if len(labels) < LABELS_MAX:
            labels[type(example.label), example.label] = example.label
        if survey.is_plain:
            survey.is_plain = is_plain(example.features) and _names(example.features) == names
        if len(names) < NAMES_MAX:
            names |= _names(example.features)
    survey.features = len(names) or len(first.features)
    survey.labels = sorted(labels.values(), key=_order)
    return survey


def _names(features: Raw) -> Set[str]:
    return features.keys() if isinstance(features, dict) else frozenset()


def _order(label: Label) -> tuple[str, float, str]:
    """
    >>> sorted(["b", 10, 9, "a", True], key=_order)
    [True, 9, 10, 'a', 'b']
    """
    number = label if isinstance(label, int) else 0
    return type(label).__name__, number, str(label)
