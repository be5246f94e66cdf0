"""Where the history of a model can be replayed from, and its events from there on. See `reading`."""

import sqlite3

from service.journal.protocol import Milestone, Recorded
from service.journal.seals import Damaged
from service.journal.sqlite.large_snapshots import state_of
from service.journal.sqlite.reading import chained_events, model_row


def milestone(connection: sqlite3.Connection, model: str, version: int | None) -> Milestone | None:
    connection.execute("BEGIN")  # one view for all questions
    try:
        row = model_row(connection, model)
        return _milestone(connection, row[0], version) if row is not None else None
    finally:
        connection.execute("COMMIT")


def _milestone(connection: sqlite3.Connection, life: int, version: int | None) -> Milestone | None:
    snapshots = connection.execute(
        "SELECT s.seq, s.state, o.version FROM snapshot s LEFT JOIN outcome o"
        " ON o.model = s.model AND o.through = s.seq WHERE s.model = ?"
        f" ORDER BY s.seq {'DESC' if version is not None else ''}",
        (life,),
    )
    beginning = Milestone(life, 0, None) if _is_followed(connection, life, 0) else None
    if beginning is not None and version is None:
        return beginning
    for seq, sealed, of_version in snapshots:
        if version is not None and of_version is not None and of_version > version:
            continue
        if not _is_followed(connection, life, seq):
            continue
        try:
            state = state_of(connection, life, seq, sealed)
        except Damaged:  # a load tells of it
            continue
        return Milestone(life, seq, state)
    return beginning


def _is_followed(connection: sqlite3.Connection, life: int, seq: int) -> bool:
    """Whether the event after this one is kept, or it is the newest. Those after that are, too: the oldest go first."""
    following = connection.execute(
        "SELECT previous FROM event WHERE model = ? AND seq > ? ORDER BY seq LIMIT 1", (life, seq)
    ).fetchone()
    return (following is None and seq > 0) or (following is not None and following[0] == seq)


def history(connection: sqlite3.Connection, life: int, after: int, limit: int) -> list[Recorded] | None:
    connection.execute("BEGIN")
    try:
        is_there = connection.execute("SELECT 1 FROM model WHERE id = ?", (life,)).fetchone()
        if not is_there or not _is_followed(connection, life, after):
            return None
        return chained_events(connection, life, after=after, limit=limit, follows=after)
    finally:
        connection.execute("COMMIT")
