"""The examples of a file in their order, and a survey of them."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import chain, islice
from typing import BinaryIO

from service.commands.console import CommandFailed
from service.commands.replay.formats import FORMATS, Numbered
from service.commands.replay.layout import Layout, Raw, choose
from service.commands.replay.opening import Piped, check_text, guess_format, open_examples, readable
from service.commands.replay.survey import Example, Survey, survey_of

PEEKED_ROWS = 1_000


class Source:
    """A file's examples in their order. Standard input can be gone through once, a file again and again."""

    def __init__(self, file: str, format: str | None, label: str | None, features: Sequence[str]) -> None:
        self.file = file
        self._stream = open_examples(file)
        try:
            with readable(file):
                self.format = format or guess_format(file, self._stream)
                check_text(file, self.format, self._stream)
            self._records = self._read(self._stream)
            self._peeked = list(islice(self._records, 1))
            if not self._peeked:
                raise CommandFailed(f"{file} has no examples")
            self.layout: Layout = choose(self._peeked[0][1], label, features)
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
        """Whether the next example is likely to be here without waiting for it."""
        return not isinstance(self._stream, Piped) or self._stream.has_line

    def examples(self) -> Iterator[Example]:
        yield from self._split(chain(self._peeked, self._records))

    def survey(self) -> Survey:
        """Survey the whole file, or the first PEEKED_ROWS of standard input."""
        if self.is_stream:
            self._peeked += islice(self._records, PEEKED_ROWS - len(self._peeked))
            survey = survey_of(self._split(iter(self._peeked)))
            survey.rows = None
            return survey
        with closing(open_examples(self.file)) as stream:
            return survey_of(self._split(self._read(stream)))

    def _read(self, stream: BinaryIO) -> Iterator[Numbered]:
        with readable(self.file):
            yield from FORMATS[self.format](stream)

    def _split(self, records: Iterator[Numbered]) -> Iterator[Example]:
        unit = "row" if self.format == "parquet" else "line"
        for row, (line, record) in enumerate(records, 1):
            try:
                yield Example(row, *self.layout.split(record), f"{unit} {line}")
            except CommandFailed as error:
                raise CommandFailed(f"{unit} {line}: {error}") from None
