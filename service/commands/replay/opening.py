"""A file, a gzipped file or standard input as a stream of bytes."""

from __future__ import annotations

import csv
import gzip
import io
import os
import select
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from service.commands.console import CommandFailed

PIPE_BYTES = 65_536
GZIP = b"\x1f\x8b"
PARQUET = b"PAR1"
NOT_IN_TEXT = bytes({*range(32)} - {*b"\t\n\v\f\r\x1a\x1b"})
"""Control characters that no table has. The last two are an end that DOS wrote, and colours."""
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
        why = getattr(error, "strerror", None) or str(error).split(" - ")[0]  # after it: advice for programs
        raise CommandFailed(f"{file} cannot be read: {why}") from None


def open_examples(file: str) -> BinaryIO:
    """The bytes of a file, `-` being standard input; what is gzipped is unpacked, whatever its name."""
    with readable(file):
        if file == "-":
            try:
                piped: Any = Piped(sys.stdin.fileno())
            except io.UnsupportedOperation:  # something in its place that is no file, and has all that comes
                piped = io.BufferedReader(cast(Any, sys.stdin.buffer))
            return cast(
                BinaryIO, gzip.GzipFile(fileobj=cast(BinaryIO, piped)) if _is_packed(piped) else piped
            )
        stream = Path(file).open("rb")  # noqa: SIM115  (whoever asked closes it)
        if _is_packed(stream):
            stream.close()
            return cast(BinaryIO, gzip.open(file))
    return stream


class Piped:
    """Standard input by lines, of which it is known whether the next is here.

    A buffer of Python's does not tell whether it has something left, and a read of an empty pipe waits.
    """

    def __init__(self, file: int) -> None:
        self._file = file
        self._buffer = b""
        self._is_over = False

    @property
    def has_line(self) -> bool:
        """Whether a line, or at least a part of one, can be had without waiting."""
        return self._is_over or b"\n" in self._buffer or bool(select.select([self._file], [], [], 0)[0])

    def peek(self, size: int) -> bytes:
        while len(self._buffer) < size and self._fill():
            pass
        return self._buffer

    def read(self, size: int = -1) -> bytes:
        while (size < 0 or not self._buffer) and self._fill():
            pass
        end = len(self._buffer) if size < 0 else size
        found, self._buffer = self._buffer[:end], self._buffer[end:]
        return found

    def __iter__(self) -> Iterator[bytes]:
        while True:
            end = self._buffer.find(b"\n") + 1
            if end == 0:
                if self._fill():
                    continue
                end = len(self._buffer)
            if end == 0:
                return
            line, self._buffer = self._buffer[:end], self._buffer[end:]
            yield line

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        """It is not ours to close."""

    def _fill(self) -> bool:
        more = b"" if self._is_over else os.read(self._file, PIPE_BYTES)
        self._is_over = not more
        self._buffer += more
        return bool(more)


def _is_packed(stream: io.BufferedReader[Any] | Piped) -> bool:
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


def check_text(file: str, format: str, stream: BinaryIO) -> None:
    """CommandFailed for a picture or a program, whose bytes make odd rows, or none at all.

    >>> check_text("a.csv", "csv", io.BufferedReader(io.BytesIO(b"PK\\x03\\x04")))
    Traceback (most recent call last):
    service.commands.console.CommandFailed: a.csv is a binary file, and cannot be read as csv
    """
    peek = getattr(stream, "peek", None)
    begin: bytes = peek(1) if peek and format != "parquet" else b""
    if begin.translate(None, NOT_IN_TEXT) != begin:
        raise CommandFailed(f"{file} is a binary file, and cannot be read as {format}")
