"""Reads the whole journal, slowly and over and over, so that damage is found before somebody needs what it hit.

Each slice is one view of the file, of some hundred rows. Every row is checked by its digest and looked for in each
index of its table, and for each event it is seen whether the one before it is there.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from service.errors import JournalUnavailable
from service.journal.seals import Damaged
from service.journal.sqlite.large_snapshots import state_of
from service.journal.sqlite.sealing import (
    MODEL_COLUMNS,
    check_model,
    unseal_event,
    unseal_outcomes,
    unseal_pending,
)
from service.runtime.cooperative import end, keep_running

SLICE_ROWS = 100
PAUSE_SECONDS = 600.0
"""Between the end of the journal and its beginning, at least."""

TOLD_MAX = 1_000
"""Damaged rows that are told, each once; after so many, no more are."""

Row = tuple[Any, ...]


class Slice(NamedTuple):
    """What came of looking at some rows."""

    last: Row | None
    """The key of the last of them; None at the end of the table."""
    rows: int
    damage: list[str]


class Table(NamedTuple):
    """How a table is read in the order of its keys, and what has to hold for each row."""

    name: str
    columns: str
    key: tuple[str, ...]
    """Columns that are first among the columns."""
    check: Callable[[sqlite3.Connection, Row], None]


def look(connection: sqlite3.Connection, table: Table, after: Row | None, limit: int) -> Slice:
    """Look at the rows of a table after a key; one that cannot be read ends the table for this time."""
    keys = ", ".join(table.key)
    where = f"WHERE ({keys}) > ({', '.join('?' * len(table.key))})" if after else ""
    last: Row | None = None
    rows = 0
    damage: list[str] = []
    connection.execute("BEGIN")
    try:
        select = f"SELECT {table.columns} FROM {table.name} NOT INDEXED {where} ORDER BY {keys} LIMIT ?"
        for row in connection.execute(select, (*(after or ()), limit)):
            rows += 1
            last = row[: len(table.key)]
            try:
                table.check(connection, row)
            except Damaged as error:
                damage.append(str(error))
    except sqlite3.DatabaseError as error:
        if type(error) is not sqlite3.DatabaseError:  # it cannot be read just now, whatever is in it
            raise
        damage.append(f"the table {table.name} cannot be read after {last or after}: {error}")
        last = None
    finally:
        connection.execute("COMMIT")
    return Slice(last if rows == limit else None, rows, damage)


def _indexed(connection: sqlite3.Connection, what: str, index: str, where: str, *values: object) -> None:
    """Damaged unless an index leads to the row; the index alone is asked."""
    table = what.split()[0]
    if (
        connection.execute(f"SELECT 1 FROM {table} INDEXED BY {index} WHERE {where}", values).fetchone()
        is None
    ):
        raise Damaged(f"{what} is missing in the index {index}")


def _check_event(connection: sqlite3.Connection, row: Row) -> None:
    seq, life, prediction_id, previous, sealed = row
    unseal_event(sealed, seq, life, prediction_id, previous)
    _indexed(connection, f"event {seq}", "event_of_model", "model = ? AND seq = ?", life, seq)
    if prediction_id is not None:
        where = "prediction_id = ? AND seq = ?"
        _indexed(connection, f"event {seq}", "sqlite_autoindex_event_1", where, prediction_id, seq)
    (before,) = connection.execute(
        "SELECT max(seq) FROM event WHERE model = ? AND seq < ? AND model NOT IN (SELECT life FROM ended)",
        (life, seq),
    ).fetchone()
    if before is None:  # trimmed, the first, or of a deleted model
        return
    is_there = connection.execute("SELECT 1 FROM event NOT INDEXED WHERE seq = ?", (before,)).fetchone()
    if before != previous or not is_there:
        raise Damaged(f"event {previous}, the one before event {seq}, is missing")


def _check_pending(connection: sqlite3.Connection, row: Row) -> None:
    prediction_id, life, at, sealed = row
    unseal_pending(sealed, prediction_id, life, at)
    what = f"pending prediction {prediction_id!r}"
    where = "model = ? AND at = ? AND prediction_id = ?"
    _indexed(connection, what, "pending_of_model", where, life, at, prediction_id)
    _indexed(connection, what, "pending_by_time", "at = ? AND prediction_id = ?", at, prediction_id)


def _check_model(connection: sqlite3.Connection, row: Row) -> None:
    check_model(row)
    _indexed(
        connection, f"model {row[1]!r}", "sqlite_autoindex_model_1", "name = ? AND id = ?", row[1], row[0]
    )


def _check_snapshot(connection: sqlite3.Connection, row: Row) -> None:
    _, state, life, seq = row
    state_of(connection, life, seq, state)


def _check_outcomes(connection: sqlite3.Connection, row: Row) -> None:
    unseal_outcomes(row[3], *row[:3])


TABLES = (
    Table("model", f"{MODEL_COLUMNS}, digest", ("id",), _check_model),
    Table("event", "seq, model, prediction_id, previous, body", ("seq",), _check_event),
    Table("pending", "prediction_id, model, at, body", ("prediction_id",), _check_pending),
    Table("snapshot", "rowid, state, model, seq", ("rowid",), _check_snapshot),
    Table("outcome", "model, through, version, body", ("model", "through"), _check_outcomes),
)


class Scrub:
    """Looks at a certain number of rows a second. `read` asks in a reader thread; `tell` is told of each damage."""

    def __init__(
        self,
        read: Callable[..., Awaitable[Slice]],
        tell: Callable[[str], None],
        *,
        rows_per_second: int,
    ) -> None:
        self._read = read
        self._tell = tell
        self._rows_per_second = rows_per_second
        self._told: set[str] = set()

    def start(self) -> None:
        self._task = keep_running("looking for damage", self._run())

    async def stop(self) -> None:
        await end([self._task])

    async def _run(self) -> None:
        while self._rows_per_second:
            for table in TABLES:
                after = await self._look(table, None)
                while after is not None:
                    after = await self._look(table, after)
            await asyncio.sleep(PAUSE_SECONDS)
        await asyncio.Event().wait()

    async def _look(self, table: Table, after: Row | None) -> Row | None:
        """Look at the next rows; the key of the last of them, None at the end of the table."""
        try:
            found = await self._read(look, table, after, min(SLICE_ROWS, self._rows_per_second))
        except JournalUnavailable:  # which is told by whoever reads; the table has its turn again later
            return None
        for one in found.damage:
            if one not in self._told and len(self._told) < TOLD_MAX:
                self._told.add(one)
                self._tell(one)
        await asyncio.sleep(max(found.rows, 1) / self._rows_per_second)
        return found.last
