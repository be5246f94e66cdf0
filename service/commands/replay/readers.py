"""Reads CSV, JSON lines, svmlight and Parquet from a file or standard input, gzipped or not."""

import csv
import gzip
import io
import os
import select
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, TypeGuard, cast

import msgspec

from service.commands.console import CommandFailed, counted

Record = dict[str, Any]
Numbered = tuple[int, Record]
"""A record and the number of its first line; Parquet has no lines, so there it is the number of the row."""
Stream = io.BufferedReader | gzip.GzipFile

SVMLIGHT_LABEL = "label"
BYTE_ORDER_MARK = "\ufeff"
DELIMITERS = ",;\t"
FIELD_BYTES_MAX = 1 << 20
PIPE_BYTES = 65_536
GZIP_MAGIC = b"\x1f\x8b"
PARQUET_MAGIC = b"PAR1"
CONTROL_CHARACTERS = bytes({*range(32)} - {*b"\t\n\v\f\r\x1a\x1b"})
"""Those that no text file has; it may have the end-of-file character of DOS and colour codes."""


class Format(StrEnum):
    csv = "csv"
    jsonl = "jsonl"
    svmlight = "svmlight"
    parquet = "parquet"


SUFFIXES = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), Format.csv),
    **dict.fromkeys((".jsonl", ".ndjson"), Format.jsonl),
    **dict.fromkeys((".svm", ".svmlight", ".libsvm"), Format.svmlight),
    **dict.fromkeys((".parquet", ".pq"), Format.parquet),
}


@contextmanager
def readable(file: str) -> Iterator[None]:
    """Turn errors of reading a file into CommandFailed with its name."""
    try:
        yield
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        why = getattr(error, "strerror", None) or str(error).split(" - ")[0]  # after it: advice for programs
        raise CommandFailed(f"{file} cannot be read: {why}") from None


def open_stream(file: str) -> Stream:
    """Open a file, or standard input for `-`; gzipped data is unpacked, whatever the file's name."""
    with readable(file):
        stream = _standard_input() if file == "-" else Path(file).open("rb")  # noqa: SIM115
        if stream.peek(2)[:2] != GZIP_MAGIC:
            return stream
        if file == "-":
            return gzip.GzipFile(fileobj=stream)
        stream.close()
        return gzip.GzipFile(file)


def _standard_input() -> io.BufferedReader:
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except io.UnsupportedOperation:  # replaced by an object that is not a file
        return io.BufferedReader(cast(Any, sys.stdin.buffer))


class PipedLines:
    """The lines of a pipe; `is_ready` tells whether the next one can be read without waiting.

    A BufferedReader does not tell whether its buffer is empty, and reading an empty pipe waits.
    """

    def __init__(self, stream: io.BufferedReader) -> None:
        self._file = stream.fileno()
        self._buffer = stream.read1(len(stream.peek()))
        self._is_over = False

    @property
    def is_ready(self) -> bool:
        return self._is_over or b"\n" in self._buffer or bool(select.select([self._file], [], [], 0)[0])

    def __iter__(self) -> Iterator[bytes]:
        while True:
            end = self._buffer.find(b"\n") + 1
            if not end and not self._is_over:
                more = os.read(self._file, PIPE_BYTES)
                self._is_over = not more
                self._buffer += more
                continue
            if not self._buffer:
                return
            end = end or len(self._buffer)
            line, self._buffer = self._buffer[:end], self._buffer[end:]
            yield line


def is_pipe(stream: Stream) -> TypeGuard[io.BufferedReader]:
    return (
        isinstance(stream, io.BufferedReader) and isinstance(stream.raw, io.FileIO) and not stream.seekable()
    )


def guess_format(file: str, stream: Stream) -> Format:
    """The format by the file's name, else by its first bytes.

    >>> guess_format("mails.jsonl.gz", io.BufferedReader(io.BytesIO()))
    <Format.jsonl: 'jsonl'>
    """
    name = Path(file.lower())
    suffix = Path(name.stem).suffix if name.suffix == ".gz" else name.suffix
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    head = stream.peek(4)
    if head.startswith(PARQUET_MAGIC):
        return Format.parquet
    if head.startswith(b"{"):
        return Format.jsonl
    raise CommandFailed(f"unknown format of {file}: choose one with --format")


def check_text(file: str, format: Format, stream: Stream) -> None:
    """Refuse binary files, such as pictures, which would be read as strange rows.

    >>> check_text("a.csv", Format.csv, io.BufferedReader(io.BytesIO(b"PK\x03\x04")))
    Traceback (most recent call last):
    service.commands.console.CommandFailed: a.csv is a binary file, and cannot be read as csv
    """
    head = b"" if format is Format.parquet else stream.peek(1)
    if head.translate(None, CONTROL_CHARACTERS) != head:
        raise CommandFailed(f"{file} is a binary file, and cannot be read as {format}")


def cell(text: str) -> bool | int | float | str | None:
    """The value of a cell of a table.

    >>> [cell(text) for text in ("7", "-1.50", "", "spam", "true", "1e3")]
    [7, -1.5, None, 'spam', True, 1000.0]
    """
    text = text.strip()
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            pass
    return {"": None, "true": True, "false": False}.get(text.lower(), text)


def csv_records(lines: Iterable[bytes]) -> Iterator[Numbered]:
    """Rows of a table. Without a header (if the first row has only numbers) the columns are called 0, 1, 2 …"""
    csv.field_size_limit(FIELD_BYTES_MAX)
    text = (line.decode("utf-8", "replace") for line in lines)
    head = next(text, "").removeprefix(BYTE_ORDER_MARK)
    delimiter = max(DELIMITERS, key=head.count)
    names = next(csv.reader([head], delimiter=delimiter), [])
    rows, lines_before = csv.reader(text, delimiter=delimiter), 1
    if names and all(isinstance(cell(name), int | float) for name in names):
        names = [str(i) for i in range(len(names))]
        rows, lines_before = csv.reader(chain([head], text), delimiter=delimiter), 0
    if len(set(names)) < len(names):
        raise CommandFailed("two columns of the table have the same name")
    line = lines_before + 1
    for values in rows:
        if values:
            if len(values) != len(names):
                cells = counted(len(values), "cell")
                raise CommandFailed(f"line {line}: a row has {cells}, the header has {len(names)}: {values}")
            yield line, dict(zip(names, map(cell, values), strict=True))
        line = lines_before + rows.line_num + 1  # a cell in quotes may have several lines


def jsonl_records(lines: Iterable[bytes]) -> Iterator[Numbered]:
    decode = msgspec.json.Decoder(Record).decode
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield number, decode(line)
            except (msgspec.MsgspecError, RecursionError) as error:
                raise CommandFailed(f"line {number}: not a JSON object: {error}") from None


def svmlight_records(lines: Iterable[bytes]) -> Iterator[Numbered]:
    """`label index:value …`: the label as a column, the indices as names."""
    for number, line in enumerate(lines, 1):
        parts = line.split(b"#", 1)[0].decode("utf-8", "replace").split()
        if parts:
            try:
                pairs = (part.split(":", 1) for part in parts[1:])
                values = {name: float(value) for name, value in pairs if name != "qid"}
            except ValueError:
                raise CommandFailed(f"line {number}: not svmlight: {line[:60]!r}") from None
            yield number, {SVMLIGHT_LABEL: cell(parts[0]), **values}


def parquet_records(stream: Stream) -> Iterator[Numbered]:
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError:
        raise CommandFailed("Parquet needs pyarrow: pip install pyarrow") from None
    is_file = isinstance(stream, io.BufferedReader) and stream.seekable()
    try:
        batches = parquet.ParquetFile(stream if is_file else io.BytesIO(stream.read())).iter_batches()
        yield from enumerate((row for batch in batches for row in batch.to_pylist()), 1)
    except Exception as error:
        raise CommandFailed(f"not a Parquet file, or a damaged one: {error}") from None


TEXT_READERS: dict[Format, Callable[[Iterable[bytes]], Iterator[Numbered]]] = {
    Format.csv: csv_records,
    Format.jsonl: jsonl_records,
    Format.svmlight: svmlight_records,
}
