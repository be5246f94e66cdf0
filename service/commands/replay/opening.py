"""A file, a gzipped file or standard input as a stream of bytes."""

from __future__ import annotations

import csv
import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from service.commands.console import CommandFailed

GZIP = b"\x1f\x8b"
PARQUET = b"PAR1"
SUFFIXES = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".svm": "svmlight",
    ".svmlight": "svmlight", ".libsvm": "svmlight", ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip


@contextmanager
def readable(file: str) -> Iterator[None]:
    """Turn errors of reading a file into CommandFailed with its name."""
    try:
        yield
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise CommandFailed(f"{file} cannot be read: {why}") from None


def open_examples(file: str) -> BinaryIO:
    """The bytes of a file, `-` being standard input; what is gzipped is unpacked, whatever its name."""
    with readable(file):
        if file == "-":
            given = sys.stdin.buffer
            # A buffer around a buffer would wait until it is full.
            piped = given if isinstance(given, io.BufferedReader) else io.BufferedReader(cast(Any, given))
            return cast(BinaryIO, gzip.GzipFile(fileobj=piped)) if _is_packed(piped) else piped
        stream = Path(file).open("rb")  # noqa: SIM115  (whoever asked closes it)
        if _is_packed(stream):
            stream.close()
            return cast(BinaryIO, gzip.open(file))
    return stream


def _is_packed(stream: io.BufferedReader[Any]) -> bool:
    return stream.peek(2)[:2] == GZIP


def guess_format(file: str, stream: BinaryIO) -> str:
    """By the name; else by the first bytes, where they tell.

    >>> guess_format("mails.jsonl.gz", io.BytesIO(b""))
    'jsonl'
    """
    for suffix in reversed(Path(file.lower()).suffixes):
        if suffix in SUFFIXES:
            return SUFFIXES[suffix]
        if suffix != ".gz":
            break
    peek = getattr(stream, "peek", None)
    begin: bytes = peek(4)[:4] if peek else b""
    if begin == PARQUET:
        return "parquet"
    if begin[:1] == b"{":
        return "jsonl"
    raise CommandFailed(f"the format of {file} cannot be told by its name: choose one with --format")
