"""Records out of bytes: one function a format, each yielding the number of a line, and a dictionary an example."""

import csv
import io
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import chain
from typing import Any, BinaryIO

import msgspec

from service.commands.console import CommandFailed

Record = dict[str, Any]
Numbered = tuple[int, Record]
"""The line at which a record begins, or its row where a format has no lines; both from 1 on."""

SVMLIGHT_LABEL = "label"
BYTE_ORDER_MARK = "\ufeff"
DELIMITERS = ",;\t"
FIELD_BYTES_MAX = 1 << 20


def csv_records(stream: BinaryIO) -> Iterator[Numbered]:
    """Rows of a table. Without a head line (all its cells are numbers) columns are called 0, 1, 2 …"""
    csv.field_size_limit(FIELD_BYTES_MAX)
    text = (line.decode("utf-8", "replace") for line in stream)
    head = next(text, "").removeprefix(BYTE_ORDER_MARK)
    delimiter = max(DELIMITERS, key=head.count)
    names = next(csv.reader([head], delimiter=delimiter), [])
    lines: Iterator[str] = text
    lines_before = 1
    if names and all(isinstance(cell(name), int | float) for name in names):
        names = [str(i) for i in range(len(names))]
        lines = chain([head], text)
        lines_before = 0
    if len(set(names)) < len(names):
        raise CommandFailed("two columns of the table have the same name")
    rows = csv.reader(lines, delimiter=delimiter)
    line = lines_before + 1
    for values in rows:
        if values:
            if len(values) != len(names):
                cells = "1 cell" if len(values) == 1 else f"{len(values)} cells"
                raise CommandFailed(f"line {line}: a row has {cells} and the head has {len(names)}: {values}")
            yield line, dict(zip(names, map(cell, values), strict=True))
        line = lines_before + rows.line_num + 1  # a cell in quotes may have several lines


def cell(text: str) -> bool | int | float | str | None:
    """What a cell of a table means.

    >>> [cell(text) for text in ("7", "-1.50", "", "spam", "true", "1e3")]
    [7, -1.5, None, 'spam', True, 1000.0]
    """
    text = text.strip()
    for meaning in (int, float):
        try:
            return meaning(text)
        except ValueError:
            pass
    return {"": None, "true": True, "false": False}.get(text.lower(), text)


def jsonl_records(stream: BinaryIO) -> Iterator[Numbered]:
    decode = msgspec.json.Decoder(Record).decode
    for number, line in enumerate(stream, 1):
        if line.strip():
            try:
                yield number, decode(line)
            except (msgspec.MsgspecError, RecursionError) as error:
                raise CommandFailed(f"line {number}: not a JSON object: {error}") from None


def svmlight_records(stream: BinaryIO) -> Iterator[Numbered]:
    """`label index:value …`: the label as a column of its own, the indices as names."""
    for number, line in enumerate(stream, 1):
        parts = line.split(b"#", 1)[0].decode("utf-8", "replace").split()
        if parts:
            try:
                pairs = (part.split(":", 1) for part in parts[1:])
                values = {name: float(value) for name, value in pairs if name != "qid"}
            except ValueError:
                raise CommandFailed(f"line {number}: not svmlight: {line[:60]!r}") from None
            yield number, {SVMLIGHT_LABEL: cell(parts[0]), **values}


def parquet_records(stream: BinaryIO) -> Iterator[Numbered]:
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError:
        raise CommandFailed("Parquet needs pyarrow: pip install pyarrow") from None
    seekable = stream if stream.seekable() else io.BytesIO(stream.read())
    try:
        batches = parquet.ParquetFile(seekable).iter_batches()
        yield from enumerate((row for batch in batches for row in batch.to_pylist()), 1)
    except Exception as error:
        raise CommandFailed(f"this is not a Parquet file, or a damaged one: {error}") from None


FORMATS: dict[str, Callable[[BinaryIO], Iterator[Numbered]]] = {
    "csv": csv_records,
    "jsonl": jsonl_records,
    "svmlight": svmlight_records,
    "parquet": parquet_records,
}
