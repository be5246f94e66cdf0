"""Records out of bytes: one function a format, each yielding a dictionary an example."""

import csv
import io
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import chain
from typing import Any, BinaryIO

import msgspec

from service.commands.console import CommandFailed

Record = dict[str, Any]

SVMLIGHT_LABEL = "label"
BYTE_ORDER_MARK = "\ufeff"
DELIMITERS = ",;\t"
FIELD_BYTES_MAX = 1 << 20


def csv_records(stream: BinaryIO) -> Iterator[Record]:
    """Rows of a table. Without a head line (all its cells are numbers) columns are called 0, 1, 2 …"""
    csv.field_size_limit(FIELD_BYTES_MAX)
    text = (line.decode("utf-8", "replace") for line in stream)
    head = next(text, "").removeprefix(BYTE_ORDER_MARK)
    delimiter = max(DELIMITERS, key=head.count)
    names = next(csv.reader([head], delimiter=delimiter), [])
    lines: Iterator[str] = text
    if names and all(isinstance(cell(name), int | float) for name in names):
        names = [str(i) for i in range(len(names))]
        lines = chain([head], text)
    if len(set(names)) < len(names):
        raise CommandFailed("two columns of the table have the same name")
    for values in csv.reader(lines, delimiter=delimiter):
        if values:
            if len(values) != len(names):
                raise CommandFailed(f"a row has {len(values)} cells and the head has {len(names)}: {values}")
            yield dict(zip(names, map(cell, values), strict=True))


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


def jsonl_records(stream: BinaryIO) -> Iterator[Record]:
    decode = msgspec.json.Decoder(Record).decode
    for number, line in enumerate(stream, 1):
        if line.strip():
            try:
                yield decode(line)
            except (msgspec.MsgspecError, RecursionError) as error:
                raise CommandFailed(f"line {number} is not a JSON object: {error}") from None


def svmlight_records(stream: BinaryIO) -> Iterator[Record]:
    """`label index:value …`: the label as a column of its own, the indices as names."""
    for number, line in enumerate(stream, 1):
        parts = line.split(b"#", 1)[0].decode("utf-8", "replace").split()
        if parts:
            try:
                pairs = (part.split(":", 1) for part in parts[1:])
                values = {name: float(value) for name, value in pairs if name != "qid"}
            except ValueError:
                raise CommandFailed(f"line {number} is not svmlight: {line[:60]!r}") from None
            yield {SVMLIGHT_LABEL: cell(parts[0]), **values}


def parquet_records(stream: BinaryIO) -> Iterator[Record]:
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError:
        raise CommandFailed("Parquet needs pyarrow: pip install 'novikoff[arrow]'") from None
    seekable = stream if stream.seekable() else io.BytesIO(stream.read())
    try:
        for batch in parquet.ParquetFile(seekable).iter_batches():
            yield from batch.to_pylist()
    except Exception as error:
        raise CommandFailed(f"this is not a Parquet file, or a damaged one: {error}") from None


FORMATS: dict[str, Callable[[BinaryIO], Iterator[Record]]] = {
    "csv": csv_records,
    "jsonl": jsonl_records,
    "svmlight": svmlight_records,
    "parquet": parquet_records,
}
