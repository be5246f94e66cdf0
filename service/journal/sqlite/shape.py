"""Whether the file has the tables, columns and indexes of this version; and its first page, which has them, anew.

SQLite believes whatever that page says: after one turned bit a column has another name, or no table can be read at all.
"""

import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path

from service.journal.sqlite.schema import PAGE_BYTES, TABLES, legible_errors
from service.journal.sqlite.sealing import add_functions

Shape = dict[str, list[tuple[object, ...]]]

Roots = dict[str, int]
"""The page on which each table and index begins."""


def why_misshapen(connection: sqlite3.Connection) -> str | None:
    """In words, if a table or an index is missing or is not as this version makes it."""
    try:
        with legible_errors():
            found = _shape(connection)
    except sqlite3.DatabaseError as error:
        return f"its schema cannot be read: {error}"
    wrong = [name for name, columns in _ours().items() if found.get(name) != columns]
    return f"its schema is damaged: {', '.join(wrong)} is not as it was made" if wrong else None


def replace_first_page(file: Path, roots: Roots) -> None:
    """Write the first page as this version makes it, for tables that begin on these pages.

    If they are those of another journal, the rows that are found there do not fit their digests.
    """
    with closing(_sample()) as sample:
        sample.execute("PRAGMA writable_schema=ON")
        sample.executemany(
            "UPDATE sqlite_master SET rootpage = ? WHERE name = ?",
            [(page, name) for name, page in roots.items()],
        )
        page = sample.serialize()[:PAGE_BYTES]
    with file.open("rb+") as opened:
        opened.write(page)
    count_pages(file)


def count_pages(file: Path) -> None:
    """Let the first page tell how many pages there are. What it says is believed: those behind cannot be read."""
    with file.open("rb+") as opened:
        opened.seek(28)
        opened.write((file.stat().st_size // PAGE_BYTES).to_bytes(4, "big"))


def roots_of(connection: sqlite3.Connection) -> Roots:
    return dict(connection.execute("SELECT name, rootpage FROM sqlite_master ORDER BY name").fetchall())


@cache
def roots_of_new() -> Roots:
    """Those of a journal that this version makes."""
    with closing(_sample()) as sample:
        return roots_of(sample)


@cache
def _ours() -> Shape:
    with closing(_sample()) as sample:
        return _shape(sample)


def _sample() -> sqlite3.Connection:
    sample = sqlite3.connect(":memory:", isolation_level=None)
    sample.execute(f"PRAGMA page_size={PAGE_BYTES}")
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
