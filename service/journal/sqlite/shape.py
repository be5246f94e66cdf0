"""Whether the file has the tables, columns and indexes of this version.

SQLite believes whatever that page says: after one turned bit a column has another name, or no table can be read at all.
"""

import sqlite3
from contextlib import closing
from functools import cache

from service.journal.sqlite.schema import TABLES, legible_errors
from service.journal.sqlite.sealing import add_functions

Shape = dict[str, list[tuple[object, ...]]]


def why_misshapen(connection: sqlite3.Connection) -> str | None:
    """In words, if a table or an index is missing or is not as this version makes it."""
    try:
        with legible_errors():
            found = _shape(connection)
    except sqlite3.DatabaseError as error:
        return f"its schema cannot be read: {error}"
    wrong = [name for name, columns in _ours().items() if found.get(name) != columns]
    return f"its schema is damaged: {', '.join(wrong)} is not as it was made" if wrong else None


@cache
def _ours() -> Shape:
    with closing(_sample()) as sample:
        return _shape(sample)


def _sample() -> sqlite3.Connection:
    sample = sqlite3.connect(":memory:", isolation_level=None)
    add_functions(sample)
    sample.executescript(TABLES)
    return sample


def _shape(connection: sqlite3.Connection) -> Shape:
    """Columns by the name of their table or index. Types and keys count: they decide how a row is read."""
    shape: Shape = {}
    for kind, name in connection.execute("SELECT type, name FROM sqlite_master").fetchall():
        if kind == "table":
            info = connection.execute('SELECT name, type, "notnull", pk FROM pragma_table_info(?)', (name,))
        else:
            info = connection.execute("SELECT name FROM pragma_index_info(?)", (name,))
        shape[name] = info.fetchall()
    return shape
