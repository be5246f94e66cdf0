"""The same examples in every format."""

import csv
import gzip
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

NAMES = ("1", "2", "3")
"""Numbers, so that svmlight can have the same."""


def make_examples(count: int) -> list[tuple[list[float], int]]:
    """Small whole numbers: their sums are exact in any order."""
    chance = random.Random(7)
    rows = [[float(chance.randint(-3, 3)) for _ in NAMES] for _ in range(count)]
    return [(row, 1 if row[0] - row[1] + chance.randint(-2, 2) > 0 else -1) for row in rows]


def as_table(examples: list[tuple[list[float], int]], delimiter: str = ",") -> str:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerow([*NAMES, "y"])
    writer.writerows([*features, label] for features, label in examples)
    return text.getvalue()


def as_lines(documents: list[Any]) -> bytes:
    return b"".join(json.dumps(document).encode() + b"\n" for document in documents)


def as_parquet(examples: list[tuple[list[float], int]]) -> bytes:
    columns = {name: [features[i] for features, _ in examples] for i, name in enumerate(NAMES)}
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table({**columns, "y": [label for _, label in examples]}), buffer)
    return buffer.getvalue()


WRITERS: dict[str, Callable[[list[tuple[list[float], int]]], bytes]] = {
    "table.csv": lambda examples: as_table(examples).encode(),
    "semicolons.csv": lambda examples: as_table(examples, ";").encode(),
    "headless.csv": lambda examples: as_table(examples).split("\n", 1)[1].encode(),
    "zipped.csv.gz": lambda examples: gzip.compress(as_table(examples).encode()),
    "flat.jsonl": lambda examples: as_lines(
        [{"y": y, **dict(zip(NAMES, x, strict=True))} for x, y in examples]
    ),
    "packed.jsonl": lambda examples: as_lines(
        [{"features": dict(zip(NAMES, x, strict=True)), "label": y} for x, y in examples]
    ),
    "lists.ndjson": lambda examples: as_lines([{"features": x, "label": y} for x, y in examples]),
    "pairs.svmlight": lambda examples: "".join(
        f"{y:+d} qid:1 {' '.join(f'{n}:{v}' for n, v in zip(NAMES, x, strict=True) if v)} # a comment\n"
        for x, y in examples
    ).encode(),
    "columns.parquet": as_parquet,
    "zipped.parquet.gz": lambda examples: gzip.compress(as_parquet(examples)),
}


def write(folder: Path, file: str, examples: list[tuple[list[float], int]]) -> Path:
    path = folder / file
    path.write_bytes(WRITERS[file](examples))
    return path
