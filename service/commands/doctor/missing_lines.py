"""Models that have events or snapshots and no line in the list of models: from these the line can be made anew."""

import sqlite3
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from service.commands.doctor.findings import Finding
from service.engine.models.model import Model
from service.events import ModelCreated, ModelImported
from service.journal.codec import decode_event, encode
from service.journal.sqlite.large_snapshots import state_of
from service.journal.sqlite.sealing import unseal_event

NOBODYS = "model NOT IN (SELECT id FROM model UNION ALL SELECT life FROM ended)"
# What deleted models have left is removed by the service, when it has nothing else to do.


class Line(NamedTuple):
    """What makes a line: the counts are made anew by the checks of lines, since its digest does not fit."""

    name: str
    created_at: int
    settings: dict[str, Any]


def missing_lines(connection: sqlite3.Connection) -> dict[int, Line]:
    """By the life of each model."""
    lives = (
        f"SELECT model FROM event WHERE {NOBODYS} UNION SELECT model FROM snapshot WHERE {NOBODYS}"
        " ORDER BY model DESC"
    )
    taken = {
        name for (name,) in connection.execute(
            "SELECT name FROM model WHERE id IN (SELECT model FROM event UNION SELECT model FROM snapshot)"
        )
    }  # fmt: skip
    lines: dict[int, Line] = {}
    for (life,) in connection.execute(lives).fetchall():
        line = _from_event(connection, life) or _from_snapshot(connection, life)
        if line is not None and line.name not in taken:
            taken.add(line.name)
            lines[life] = line
    return lines


def examine_missing_lines(lines: dict[int, Line]) -> Iterator[Finding]:
    for life, line in lines.items():
        yield Finding(
            line.name,
            "its line in the list of models is missing",
            "--repair makes it anew.",
            partial(_write, life=life, line=line),
        )


def _write(connection: sqlite3.Connection, life: int, line: Line) -> None:
    # A line of this name that nothing belongs to is this one, with a number that has changed.
    connection.execute("DELETE FROM model WHERE name = ?", (line.name,))
    connection.execute(
        "INSERT INTO model (id, name, created_at, settings, updated_at) VALUES (?,?,?,?,?)",
        (life, line.name, line.created_at, encode(line.settings), line.created_at),
    )


def _from_event(connection: sqlite3.Connection, life: int) -> Line | None:
    select = "SELECT body, seq, model, prediction_id, previous FROM event WHERE seq = ?"
    row = connection.execute(select, (life,)).fetchone()
    try:
        event = None if row is None else decode_event(unseal_event(*row))
    except ValueError:
        return None
    if not isinstance(event, ModelCreated | ModelImported) or row[2] != life:
        return None
    return Line(event.model, event.at, event.settings)


def _from_snapshot(connection: sqlite3.Connection, life: int) -> Line | None:
    select = "SELECT seq, state FROM snapshot WHERE model = ? ORDER BY seq DESC"
    for seq, state in connection.execute(select, (life,)).fetchall():
        try:
            model = Model.from_bytes(state_of(connection, life, seq, state))
        except (ValueError, LookupError, TypeError):
            continue
        return Line(model.name, model.created_at, model.settings)
    return None
