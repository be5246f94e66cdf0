"""Lists of models and their sums, read from one line for each. Each function runs in a reader thread."""

import logging
import sqlite3
from typing import Any

import msgspec

from service.journal.protocol import Listed, Page, Totals
from service.journal.seals import Damaged
from service.journal.sqlite.sealing import MODEL_COLUMNS, check_model

log = logging.getLogger(__name__)

_ERROR_RATE = "CASE revealed WHEN 0 THEN -1.0 ELSE 1.0 * mistakes / revealed END"

SORTS = {
    "name": "name",
    "rounds": "revealed",
    "mistakes": "mistakes",
    "updated_at": "updated_at",
    "pending": "pending",
    "error_rate": _ERROR_RATE,
    "ewma_error_rate": f"coalesce(ewma_error_rate, {_ERROR_RATE})",
}
"""What lists of models can be sorted by, as SQL; numbers largest first, equal ones by name."""

_WITH_PREFIX = "name >= :prefix AND name < :prefix || '~'"
"""A range of the index: whatever follows in a name comes before `~`."""

_CONTAINING = "instr(lower(name), :contains)"
"""Names have letters of ASCII only, which are what `lower` knows."""


def models(connection: sqlite3.Connection, page: Page) -> list[Listed]:
    key = SORTS[page.sort]
    later, down, up = (">", "DESC", "ASC") if not page.is_reversed else ("<", "ASC", "DESC")
    lower = "<" if not page.is_reversed else ">"
    seen, order = f"name {later} :name", f"name {up}"
    if page.sort != "name":
        seen, order = f"({key} {lower} :key OR ({key} = :key AND {seen}))", f"{key} {down}, {order}"
    last_key, last_name = page.after or (None, "")
    rows = connection.execute(
        f"SELECT {key}, {MODEL_COLUMNS}, digest FROM model WHERE {_WITH_PREFIX}"
        f" AND {_CONTAINING if page.contains else 1} AND {seen if page.after else 1}"
        f" ORDER BY {order} LIMIT :limit",
        {
            "prefix": page.prefix, "contains": page.contains, "key": last_key, "name": last_name,
            "limit": page.limit,
        },
    )  # fmt: skip
    return [Listed(row[2], row[3], _settings(row[1:]), row[0]) for row in rows]


def _settings(row: tuple[Any, ...]) -> dict[str, Any] | None:
    """None for a damaged line, which leaves the others of its page well."""
    name, settings = row[1], row[3]
    try:
        check_model(row)
        return msgspec.msgpack.decode(settings, type=dict[str, Any])
    except (msgspec.MsgspecError, Damaged) as error:
        log.error("the settings of %s are damaged: %s", name, error, extra={"model": name})
        return None


def totals(connection: sqlite3.Connection, prefix: str) -> Totals:
    row = connection.execute(
        "SELECT count(*), total(revealed), total(mistakes), total(updates), total(pending), total(expired)"
        f" FROM model WHERE {_WITH_PREFIX}",
        {"prefix": prefix},
    ).fetchone()
    return Totals(*map(int, row))
