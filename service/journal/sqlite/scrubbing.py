"""Reads the whole journal, slowly and over and over, so that damage is found before somebody needs what it hit.

Each slice is one view of the file, of some hundred rows. Every row is checked by its digest and looked for in each
index of its table, and for each event it is seen whether the one before it is there.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from service.errors import JournalUnavailable
from service.journal.seals import Damaged
from service.journal.sqlite.tables import TABLES, Row, Table
from service.runtime.cooperative import end, keep_running

SLICE_ROWS = 100
PAUSE_SECONDS = 600.0
"""Between the end of the journal and its beginning, at least."""

TOLD_MAX = 1_000
"""Damaged rows that are reported, each once; after so many, no more are."""


class Slice(NamedTuple):
    """What came of looking at some rows."""

    last: Row | None
    """The key of the last of them; None at the end of the table."""
    rows: int
    damage: list[str]


def look(connection: sqlite3.Connection, table: Table, after: Row | None, limit: int) -> Slice:
    """Look at the rows of a table after a key; one that cannot be read ends the table for this time."""
    keys, size = ", ".join(table.key), len(table.key)
    where = f"WHERE ({keys}) > ({', '.join('?' * size)})" if after else ""
    last: Row | None = None
    rows = 0
    damage: list[str] = []
    connection.execute("BEGIN")
    try:
        found = table.rows(connection, f"{where} ORDER BY {keys} LIMIT ?", *(after or ()), limit)
        names = [column[0] for column in found.description]
        for row in found:
            rows += 1
            last = row[:size]
            try:
                table.check(connection, row[size:])
                table.check_indexes(connection, names, row)
                if table.name == "event":
                    _check_predecessor(connection, *row[size:])
            except Damaged as error:
                damage.append(str(error))
    except sqlite3.DatabaseError as error:
        if type(error) is not sqlite3.DatabaseError:  # it cannot be read at the moment, whatever is in it
            raise
        damage.append(f"the table {table.name} cannot be read after {last or after}: {error}")
        last = None
    finally:
        connection.execute("COMMIT")
    return Slice(last if rows == limit else None, rows, damage)


def _check_predecessor(
    connection: sqlite3.Connection, seq: int, life: int, _id: str | None, _body: bytes, previous: int
) -> None:
    (before,) = connection.execute(
        "SELECT max(seq) FROM event WHERE model = ? AND seq < ? AND model NOT IN (SELECT life FROM ended)",
        (life, seq),
    ).fetchone()
    if before is None:  # trimmed, the first, or of a deleted model
        return
    is_there = connection.execute("SELECT 1 FROM event NOT INDEXED WHERE seq = ?", (before,)).fetchone()
    if before != previous or not is_there:
        raise Damaged(f"event {previous}, the one before event {seq}, is missing")


class Scrub:
    """Looks at a certain number of rows a second. `read` asks in a reader thread; `tell` is called with each damage."""

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
        except JournalUnavailable:  # which other readers report; the table has its turn again later
            return None
        for one in found.damage:
            if one not in self._told and len(self._told) < TOLD_MAX:
                self._told.add(one)
                self._tell(one)
        await asyncio.sleep(max(found.rows, 1) / self._rows_per_second)
        return found.last
