"""The rows of a damaged table: which can be read, which are as they were written, and which are known to be missing."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from service.journal.seals import Damaged
from service.journal.sqlite.sealing import (
    check_model,
    unseal_event,
    unseal_outcomes,
    unseal_pending,
    unseal_snapshot,
)

Row = tuple[Any, ...]
Key = Any


@dataclass(frozen=True, slots=True)
class Table:
    """How to go through a table: its key, the order of its rows, and the order of each index that has its keys."""

    name: str
    key: str
    order: str
    indexes: dict[str, str] = field(default_factory=dict)


TABLES = [
    Table("model", "id", "id", {"sqlite_autoindex_model_1": "name"}),
    Table("event", "seq", "seq", {"event_of_model": "model, seq", "sqlite_autoindex_event_1": "prediction_id"}),
    Table("pending", "prediction_id", "prediction_id", {"pending_of_model": "model, at", "pending_by_time": "at"}),
    Table("snapshot", "rowid", "rowid", {"sqlite_autoindex_snapshot_1": "model, seq"}),
    Table("snapshot_part", "rowid", "rowid", {"sqlite_autoindex_snapshot_part_1": "model, seq, part"}),
    Table("outcome", "model || ' ' || through", "model, through"),
    Table("ended", "life", "life"),
]  # fmt: skip


@dataclass(slots=True)
class Copied:
    """What became of the rows of a table."""

    sound: set[Key] = field(default_factory=set)
    """The keys of those that are as they were written."""
    damaged: set[Key] = field(default_factory=set)
    """The keys of rows that can be read and do not fit their digest."""
    missing: set[Key] = field(default_factory=set)
    """Keys that an index has, and whose rows are gone."""
    is_accounted_for: bool = False
    """Whether all keys are known: the table, or an index of it, could be read from end to end."""


def copy_rows(old: sqlite3.Connection, copy: sqlite3.Connection, table: Table) -> Copied:
    """Copy the rows that are as they were written.

    Rows are read as they stand, not looked up by their keys: beside a key that has changed a search goes astray. Where
    that meets a torn page it goes on from the other end, and then the indexes tell which rows are between.
    """
    copied = Copied()
    for order in (table.order, _backwards(table.order)):
        rows = _Rows(old, f"SELECT {table.key}, * FROM {table.name} NOT INDEXED ORDER BY {order}")
        for key, *columns in rows:
            _take(copy, table, key, tuple(columns), copied)
        if rows.is_all:
            copied.is_accounted_for = True
            break
    for index, order in table.indexes.items():
        keys, is_all = _keys(old, table, index, order)
        copied.is_accounted_for |= is_all
        unknown = keys - copied.sound - copied.damaged
        absent = {key for key in unknown if not _look_up(old, copy, table, key, copied)}
        # An entry of an index that has changed leads to no row, and another row has no entry then: nothing is lost.
        unlisted = len(copied.sound - keys) if is_all else 0
        if len(absent) > unlisted:
            copied.missing |= absent
    return copied


def insert(copy: sqlite3.Connection, table: str, row: Row) -> bool:
    """Whether the row has found its place; not if a column has no value, or another row has its key."""
    marks = ",".join("?" * len(row))
    try:
        return copy.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", row).rowcount > 0
    except (sqlite3.Error, OverflowError):
        return False


class _Rows:
    """The rows that a statement gives, up to the first that cannot be read."""

    def __init__(self, connection: sqlite3.Connection, select: str) -> None:
        self._connection, self._select = connection, select
        self.is_all = False

    def __iter__(self) -> Iterator[Row]:
        try:
            yield from self._connection.execute(self._select)
            self.is_all = True
        except sqlite3.Error:
            return


def _keys(old: sqlite3.Connection, table: Table, index: str, order: str) -> tuple[set[Key], bool]:
    keys: set[Key] = set()
    for direction in (order, _backwards(order)):
        select = f"SELECT {table.key} FROM {table.name} INDEXED BY {index} ORDER BY {direction}"
        rows = _Rows(old, select)
        keys |= {key for (key,) in rows}
        if rows.is_all:
            return keys, True
    return keys, False


def _look_up(
    old: sqlite3.Connection, copy: sqlite3.Connection, table: Table, key: Key, copied: Copied
) -> bool:
    select = f"SELECT * FROM {table.name} NOT INDEXED WHERE {table.key} = ?"
    try:
        row = old.execute(select, (key,)).fetchone()
    except sqlite3.Error:
        return False
    if row is not None:
        _take(copy, table, key, row, copied)
    return row is not None


def _take(copy: sqlite3.Connection, table: Table, key: Key, row: Row, copied: Copied) -> None:
    if not is_sound(table.name, row):
        copied.damaged.add(key)
    elif insert(copy, table.name, row):
        copied.sound.add(key)


def is_sound(table: str, row: Row) -> bool:
    """Whether the row is as it was written, as far as it has a digest."""
    try:
        match table:
            case "event":
                seq, life, prediction_id, body, previous = row
                unseal_event(body, seq, life, prediction_id, previous)
            case "pending":
                prediction_id, life, at, body = row
                unseal_pending(body, prediction_id, life, at)
            case "snapshot" if row[2]:  # the parts of a large one are sealed together
                unseal_snapshot(row[2], row[0], row[1])
            case "outcome":
                life, through, version, body = row
                unseal_outcomes(body, life, through, version)
            case "model":
                check_model((*row[:12], row[13], row[12]))
    except Damaged:
        return False
    return True


def _backwards(order: str) -> str:
    return ", ".join(f"{column} DESC" for column in order.split(", "))
