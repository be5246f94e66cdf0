"""What the SQLite journal answers. Each function runs in a reader thread, on a connection to itself."""

import sqlite3

import msgspec

from service.events import Prediction
from service.journal.codec import decode_event, decode_prediction
from service.journal.protocol import Listed, Recorded, Stored


def newest_time(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT body FROM event ORDER BY seq DESC LIMIT 1").fetchone()
    return decode_event(row[0]).at if row else 0


def find(connection: sqlite3.Connection, prediction_id: str) -> Prediction | Recorded | None:
    row = connection.execute(
        "SELECT seq, body FROM event WHERE prediction_id = ?", (prediction_id,)
    ).fetchone()
    if row is not None:
        return Recorded(row[0], decode_event(row[1]))
    row = connection.execute("SELECT body FROM pending WHERE prediction_id = ?", (prediction_id,)).fetchone()
    return decode_prediction(row[0]) if row is not None else None


def load(connection: sqlite3.Connection, model: str) -> Stored | None:
    connection.execute("BEGIN")  # one view for all four questions
    try:
        row = connection.execute("SELECT id, voided_through FROM model WHERE name = ?", (model,)).fetchone()
        if row is None:
            return None
        number, voided_through = row
        seq, state = connection.execute(
            "SELECT seq, state FROM snapshot WHERE model = ? ORDER BY seq DESC LIMIT 1", (number,)
        ).fetchone() or (0, None)
        tail = _events(connection, number, after=seq, limit=-1)
        waiting = connection.execute(
            "SELECT body FROM pending WHERE model = ? AND at > ? ORDER BY at", (number, voided_through)
        )
        return Stored(state, seq, tail, [decode_prediction(body) for (body,) in waiting])
    finally:
        connection.execute("COMMIT")


def outcomes(connection: sqlite3.Connection, model: str, seq: int) -> bytes | None:
    row = connection.execute(
        "SELECT body FROM outcome WHERE through >= ? AND model = (SELECT id FROM model WHERE name = ?)"
        " ORDER BY through LIMIT 1",
        (seq, model),
    ).fetchone()
    return row[0] if row else None


def models(connection: sqlite3.Connection, prefix: str, after: str, limit: int) -> list[Listed]:
    rows = connection.execute(
        "SELECT name, created_at, settings FROM model WHERE name > ? AND name >= ? AND substr(name, 1, ?) = ?"
        " ORDER BY name LIMIT ?",
        (after, prefix, len(prefix), prefix, limit),
    )
    return [Listed(name, created_at, msgspec.msgpack.decode(settings)) for name, created_at, settings in rows]


def events(connection: sqlite3.Connection, model: str, after: int, limit: int) -> list[Recorded]:
    row = connection.execute("SELECT id FROM model WHERE name = ?", (model,)).fetchone()
    return _events(connection, row[0], after=after, limit=limit) if row else []


def _events(connection: sqlite3.Connection, number: int, *, after: int, limit: int) -> list[Recorded]:
    rows = connection.execute(
        "SELECT seq, body FROM event WHERE model = ? AND seq > ? ORDER BY seq LIMIT ?", (number, after, limit)
    )
    return [Recorded(seq, decode_event(body)) for seq, body in rows]
