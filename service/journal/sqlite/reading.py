"""What the SQLite journal answers. Each function runs in a reader thread, on a connection to itself."""

import logging
import sqlite3
from typing import Any

import msgspec

from service.events import ModelCreated, ModelImported
from service.journal.codec import decode_event, decode_prediction
from service.journal.protocol import (
    Listed,
    Overdue,
    Page,
    Recorded,
    StoredModel,
    Summary,
    Totals,
    WaitingPrediction,
)
from service.journal.seals import Damaged, unseal

log = logging.getLogger(__name__)


def newest_time(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT body FROM event ORDER BY seq DESC LIMIT 1").fetchone()
    return decode_event(row[0]).at if row else 0


def find(connection: sqlite3.Connection, prediction_id: str) -> WaitingPrediction | Recorded | None:
    row = connection.execute(
        "SELECT seq, body FROM event WHERE prediction_id = ?", (prediction_id,)
    ).fetchone()
    if row is not None:
        return Recorded(row[0], decode_event(row[1]))
    row = connection.execute(
        "SELECT body, model FROM pending WHERE prediction_id = ?", (prediction_id,)
    ).fetchone()
    return WaitingPrediction(decode_prediction(row[0]), row[1]) if row is not None else None


def overdue(
    connection: sqlite3.Connection, after: int, through: int, limit: int
) -> tuple[list[Overdue], int]:
    found: dict[int, Overdue] = {}
    newest = after
    for life, at, name, voided_through in connection.execute(
        "SELECT p.model, p.at, m.name, m.voided_through FROM"
        " (SELECT model, at FROM pending WHERE at > ? AND at <= ? ORDER BY at LIMIT ?) p"
        " LEFT JOIN model m ON m.id = p.model ORDER BY p.at",
        (after, through, limit),
    ):
        newest = at
        if name is not None and at > voided_through:
            before = found.get(life)
            found[life] = Overdue(name, life, before.count + 1 if before else 1, at)
    return list(found.values()), newest


def load(connection: sqlite3.Connection, model: str) -> StoredModel | None:
    connection.execute("BEGIN")  # one view for all four questions
    try:
        row = connection.execute("SELECT id, voided_through FROM model WHERE name = ?", (model,)).fetchone()
        if row is None:
            return None
        number, voided_through = row
        seq, state = _snapshot(connection, number, model)
        tail = _events(connection, number, after=seq, limit=-1)
        waiting = connection.execute(
            "SELECT body FROM pending WHERE model = ? AND at > ? ORDER BY at", (number, voided_through)
        )
        pending = [decode_prediction(body) for (body,) in waiting]
        return StoredModel(state, seq, tail, pending, voided_through, number)
    finally:
        connection.execute("COMMIT")


def _snapshot(connection: sqlite3.Connection, number: int, model: str) -> tuple[int, bytes | None]:
    """The newest snapshot that is what was saved, if the events after it are all there; 0 and None for none."""
    is_newest = True
    for seq, sealed in connection.execute(
        "SELECT seq, state FROM snapshot WHERE model = ? ORDER BY seq DESC", (number,)
    ):
        try:
            state = unseal(sealed)
        except Damaged as error:
            fields = {"model": model, "seq": seq}
            log.error("the snapshot of %s after event %d is damaged: %s", model, seq, error, extra=fields)
            is_newest = False
            continue
        if is_newest or _is_followed(connection, number, seq):
            return seq, state
    first = connection.execute(
        "SELECT body FROM event WHERE model = ? ORDER BY seq LIMIT 1", (number,)
    ).fetchone()
    if is_newest or (first and isinstance(decode_event(first[0]), ModelCreated | ModelImported)):
        return 0, None
    raise Damaged(f"the snapshots of {model} are damaged, and the events before them are no longer kept")


def _is_followed(connection: sqlite3.Connection, number: int, seq: int) -> bool:
    """Whether no event after a snapshot was trimmed: trimming one takes the snapshot's outcomes along."""
    row = connection.execute(
        "SELECT 1 FROM outcome WHERE model = ? AND through = ?", (number, seq)
    ).fetchone()
    return row is not None


def outcomes(connection: sqlite3.Connection, model: str, seq: int) -> bytes | None:
    row = connection.execute(
        "SELECT body FROM outcome WHERE through >= ? AND model = (SELECT id FROM model WHERE name = ?)"
        " ORDER BY through LIMIT 1",
        (seq, model),
    ).fetchone()
    return unseal(row[0]) if row else None


SORTS = {
    "name": "name",
    "rounds": "revealed",
    "mistakes": "mistakes",
    "updated_at": "updated_at",
    "error_rate": "CASE revealed WHEN 0 THEN -1.0 ELSE 1.0 * mistakes / revealed END",
}
"""What lists of models can be sorted by, as SQL; numbers largest first, equal ones by name."""

_WITH_PREFIX = "name >= :prefix AND name < :prefix || '~'"
"""A range of the index: whatever follows in a name comes before `~`."""


def models(connection: sqlite3.Connection, page: Page) -> list[Listed]:
    key = SORTS[page.sort]
    seen = "name > :name" if page.sort == "name" else f"({key} < :key OR ({key} = :key AND name > :name))"
    order = "name" if page.sort == "name" else f"{key} DESC, name"
    last_key, last_name = page.after or (None, "")
    rows = connection.execute(
        f"SELECT name, created_at, settings, {key} FROM model WHERE {_WITH_PREFIX}"
        f" AND {seen if page.after else 1} ORDER BY {order} LIMIT :limit",
        {"prefix": page.prefix, "key": last_key, "name": last_name, "limit": page.limit},
    )
    return [Listed(name, at, _settings(name, settings), key) for name, at, settings, key in rows]


def _settings(name: str, encoded: bytes) -> dict[str, Any] | None:
    """None for a damaged line, which leaves the others of its page well."""
    try:
        return msgspec.msgpack.decode(encoded, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        log.error("the settings of %s are damaged: %s", name, error, extra={"model": name})
        return None


def totals(connection: sqlite3.Connection, prefix: str) -> Totals:
    row = connection.execute(
        "SELECT count(*), total(revealed), total(mistakes), total(updates), total(pending), total(expired)"
        f" FROM model WHERE {_WITH_PREFIX}",
        {"prefix": prefix},
    ).fetchone()
    return Totals(*map(int, row))


def summary(connection: sqlite3.Connection, model: str) -> Summary | None:
    row = connection.execute(
        "SELECT name, id, updated_at, revealed, mistakes, updates, pending, expired FROM model WHERE name = ?",
        (model,),
    ).fetchone()
    return Summary(*row) if row else None


def unsummarised(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute(
        "SELECT name FROM model WHERE id IN"
        " (SELECT model FROM event WHERE seq > (SELECT through FROM summarised))"
    )
    return [name for (name,) in rows]


def events(connection: sqlite3.Connection, model: str, after: int, limit: int) -> list[Recorded]:
    row = connection.execute("SELECT id FROM model WHERE name = ?", (model,)).fetchone()
    return _events(connection, row[0], after=after, limit=limit) if row else []


def _events(connection: sqlite3.Connection, number: int, *, after: int, limit: int) -> list[Recorded]:
    rows = connection.execute(
        "SELECT seq, body FROM event WHERE model = ? AND seq > ? ORDER BY seq LIMIT ?", (number, after, limit)
    )
    return [Recorded(seq, decode_event(body)) for seq, body in rows]
