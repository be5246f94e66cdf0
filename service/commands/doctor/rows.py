"""The rows of a damaged table: which can be read, which are as they were written, and which are known to be missing."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from service.journal.codec import decode_prediction
from service.journal.seals import SEAL_BYTES, Damaged
from service.journal.sqlite.sealing import (
    check_model,
    unseal_event,
    unseal_outcomes,
    unseal_pending,
    unseal_snapshot,
)

SEALED = ("model", "event", "pending", "snapshot", "outcome")
"""Tables whose rows have a digest; a snapshot that is in parts has one over all of them."""

PROVEN = ("model", "event", "pending", "outcome")
"""Tables whose rows all have a digest."""

DAMAGED_TRIED_MAX = 10_000
"""How many damaged rows of a table are tried to be mended: if there are more, it is not a bit that has turned."""

COUNTED_MAX = 1_000
"""How many rows of each table tell well enough whether it is that table."""

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
    damaged: dict[Row, Key] = field(default_factory=dict)
    """Rows that can be read and do not fit their digest, each with its key, which another may have, too."""
    unfound: set[Key] = field(default_factory=set)
    """Keys that an index has, and that lead to no row."""
    missing: set[Key] = field(default_factory=set)
    """Those of them whose rows are gone."""
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
        unknown = keys - copied.sound - set(copied.damaged.values())
        absent = {key for key in unknown if not _look_up(old, copy, table, key, copied)}
        copied.unfound |= absent
        # An entry of an index that has changed leads to no row, and another row has no entry then: nothing is lost.
        unlisted = len(copied.sound - keys) if is_all else 0
        if len(absent) > unlisted:
            copied.missing |= absent
    return copied


def count_sound(old: sqlite3.Connection) -> int:
    """How many rows fit their digests, of the first in each table."""
    return sum(
        is_sound(table, row)
        for table in PROVEN
        for row in _Rows(old, f"SELECT * FROM {table} NOT INDEXED LIMIT {COUNTED_MAX}")
    )


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
        mended = turned_back(table.name, row) or (_with_its_own_key(row) if table.name == "pending" else None)
        if mended is None:
            copied.damaged[row] = key
            return
        key, row = _key(table, mended, key), mended
    if insert(copy, table.name, row):
        copied.sound.add(key)


def _mended(table: str, row: Row) -> Row | None:
    return turned_back(table, row) or (_with_its_own_key(row) if table == "pending" else None)


def turned_back(table: str, row: Row) -> Row | None:
    """The row with one bit of a number in it turned back, if its digest fits then."""
    if table not in SEALED:
        return None
    tried = (
        (*row[:column], number, *row[column + 1 :])
        for column, value in enumerate(row)
        for number in turned(value)
    )
    return next((one for one in tried if is_sound(table, one)), None)


def turned(value: object) -> list[int]:
    """The numbers that differ from this one by one bit."""
    return [value ^ 1 << bit for bit in range(63)] if isinstance(value, int) else []


def _key(table: Table, row: Row, key: Key) -> Key:
    """The key of a row that was mended; one that is no column stays."""
    match table.name:
        case "outcome":
            return f"{row[0]} {row[1]}"
        case "snapshot":
            return key
    return row[0]


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


def _with_its_own_key(row: Row) -> Row | None:
    """A waiting prediction whose key has changed, with the one that its body has, if its digest says so."""
    _, life, _, body = row
    try:
        prediction = decode_prediction(body[:-SEAL_BYTES])
        unseal_pending(body, prediction.prediction_id, life, prediction.at)
    except (Damaged, msgspec.MsgspecError, TypeError, ValueError):
        return None
    return prediction.prediction_id, life, prediction.at, body


def _backwards(order: str) -> str:
    return ", ".join(f"{column} DESC" for column in order.split(", "))
