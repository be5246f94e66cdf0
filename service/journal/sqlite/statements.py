"""Statements over many rows at once: few of them, which stay prepared."""

import sqlite3
from functools import lru_cache
from typing import Any

CHUNKS = (256, 64, 16, 4, 1)
"""How many rows a statement may have."""


def run_many(connection: sqlite3.Connection, head: str, row: str, values: list[Any], tail: str) -> int:
    """Run a statement over all rows, some at a time; how many rows it has changed.

    `row` is what stands in it for one row, and `values` are those of all rows, one after the other.
    """
    changed = start = 0
    width = row.count("?")
    for size in CHUNKS:
        while len(values) - start >= size * width:
            end = start + size * width
            changed += connection.execute(_statement(head, row, size, tail), values[start:end]).rowcount
            start = end
    return changed


@lru_cache(maxsize=64)
def _statement(head: str, row: str, size: int, tail: str) -> str:
    """The same string each time, which the connection's cache of statements finds sooner."""
    return head + ",".join([row] * size) + tail
