"""Every table of the file: the order of its rows and of its indexes, and what has to hold for a row.

The check at the start, the scrub of a running service and `novikoff doctor` go by this.
"""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from service.journal.seals import Damaged
from service.journal.sqlite.large_snapshots import state_of
from service.journal.sqlite.sealing import check_model, unseal_event, unseal_outcomes, unseal_pending

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    key: tuple[str, ...]
    """Columns that name a row, and by whose order the table is read from end to end."""
    check: Callable[[sqlite3.Connection, Row], object] = lambda connection, row: None
    """Damaged unless a row, all columns of it, is as it was written."""
    indexes: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def rows(self, connection: sqlite3.Connection, where: str = "", *values: object) -> sqlite3.Cursor:
        """Rows with their keys before the columns, without the help of an index."""
        select = f"SELECT {', '.join(self.key)}, * FROM {self.name} NOT INDEXED {where}"
        return connection.execute(select, values)

    def check_indexes(self, connection: sqlite3.Connection, names: list[str], row: Row) -> None:
        """Damaged unless each index leads to the row, whose columns have these names."""
        values = dict(zip(names, row, strict=True))
        for index, columns in self.indexes.items():
            wanted = {column: values[column] for column in (*columns, *self.key)}
            if values[columns[0]] is None:
                continue
            where = " AND ".join(f"{column} = ?" for column in wanted)
            select = f"SELECT 1 FROM {self.name} INDEXED BY {index} WHERE {where}"
            if connection.execute(select, tuple(wanted.values())).fetchone() is None:
                key = ", ".join(repr(values[column]) for column in self.key)
                raise Damaged(f"row {key} of {self.name} is missing in the index {index}")


def _check_event(_: sqlite3.Connection, row: Row) -> None:
    seq, life, prediction_id, body, previous = row
    unseal_event(body, seq, life, prediction_id, previous)


def _check_pending(_: sqlite3.Connection, row: Row) -> None:
    prediction_id, life, at, body = row
    unseal_pending(body, prediction_id, life, at)


def _check_outcomes(_: sqlite3.Connection, row: Row) -> None:
    life, through, version, body = row
    unseal_outcomes(body, life, through, version)


TABLES = (
    Table("model", ("id",), lambda _, row: check_model((*row[:12], row[13], row[12])),
          {"sqlite_autoindex_model_1": ("name",)}),
    Table("event", ("seq",), _check_event,
          {"event_of_model": ("model", "seq"), "sqlite_autoindex_event_1": ("prediction_id",)}),
    Table("pending", ("prediction_id",), _check_pending,
          {"pending_of_model": ("model", "at"), "pending_by_time": ("at",)}),
    Table("snapshot", ("rowid",), lambda connection, row: state_of(connection, *row),
          {"sqlite_autoindex_snapshot_1": ("model", "seq")}),
    # The parts of a large snapshot have one digest, which its row in `snapshot` is checked by.
    Table("snapshot_part", ("rowid",), indexes={"sqlite_autoindex_snapshot_part_1": ("model", "seq", "part")}),
    Table("outcome", ("model", "through"), _check_outcomes),
    Table("ended", ("life",)),
)  # fmt: skip
