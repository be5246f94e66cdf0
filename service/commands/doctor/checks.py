"""Findings, and the checks of the SQLite file, of its permissions and of the tables besides the events."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from service.journal.codec import decode_prediction
from service.journal.seals import Damaged
from service.journal.sqlite.directory import (
    identity_beside,
    identity_in,
    is_replacing,
    why_not_its_own,
)
from service.journal.sqlite.schema import APPLICATION_ID, LARGEST_NUMBER, SCHEMA_VERSION
from service.journal.sqlite.sealing import unseal_pending
from service.journal.sqlite.soundness import (
    why_log_damaged,
    why_misshapen,
    why_newest_missing,
    why_numbering_damaged,
    why_read_only,
    why_wrong_size,
)

COMPLAINTS_MAX = 20
NAMED_MAX = 20
BACKUP = "Restore a backup."
COPY = "--repair copies everything readable into a new file and reports the rest."
DROP = "--repair drops it."
END = "--repair, or a start of the service, puts the copy in its place; the old file stays beside it."

UNLISTED = "model NOT IN (SELECT id FROM model UNION ALL SELECT life FROM ended)"
"""Rows of no model. What deleted models have left is removed by the service, when it has nothing else to do."""

Repair = Callable[[sqlite3.Connection], object]


class Severity(StrEnum):
    problem = "problem"
    note = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong, or worth a note."""

    where: str
    """The name of a model, or `file`."""
    message: str
    remedy: str = ""
    """What the user can do, in words."""
    repair: Repair | None = None
    """What --repair does on the copy, if it can do anything."""
    loses: str = ""
    """What the repair gives up, in words."""
    severity: Severity = Severity.problem
    """A problem makes the exit status 1, a note does not."""


def by_copying(connection: sqlite3.Connection) -> None:
    """The repair of what a copy of all sound rows does not have any more."""


def statement(sql: str, *values: object) -> Repair:
    """A repair that is one statement."""
    return lambda connection: connection.execute(sql, values)


def named(keys: Iterable[object]) -> str:
    """
    >>> named({12, 7}), named(["w11"])
    ('7, 12', "'w11'")
    """
    ordered = sorted(keys, key=lambda key: (str(type(key)), key))
    names = ", ".join(map(repr, ordered[:NAMED_MAX]))
    return names + (f" and {len(ordered) - NAMED_MAX} more" if len(ordered) > NAMED_MAX else "")


def examine_file(connection: sqlite3.Connection, path: Path) -> list[Finding]:
    """Findings if this is no journal of this version, or if a page cannot be read. Then nothing else is checked."""
    if is_replacing(path):
        return [Finding("file", "a repair was interrupted after its copy was complete", END)]
    if (why := why_log_damaged(path, "power")) is not None:
        return [Finding("file", why, COPY, by_copying)]
    try:
        if (other := examine_version(connection)) is not None:
            return [other]
        if (why := why_misshapen(connection)) is not None:
            return [Finding("file", why, BACKUP)]
        identity = identity_in(connection)
        if identity and identity_beside(path) not in (None, identity):
            return [Finding("file", why_not_its_own(path))]
        if identity is None:
            why = "its identity is missing"
        else:
            why = (
                why_wrong_size(connection, path)
                or why_read_only(path)
                or why_newest_missing(connection, path)
            )
        if why is not None:
            return [Finding("file", why, COPY, by_copying)]
        complaints = [row[0] for row in connection.execute(f"PRAGMA integrity_check({COMPLAINTS_MAX})")]
    except sqlite3.DatabaseError as error:
        complaints = [f"it cannot be read: {error}"]
    if complaints == ["ok"]:
        return []
    return [Finding("file", each.replace("\n", " "), COPY, by_copying) for each in complaints]


def examine_version(connection: sqlite3.Connection) -> Finding | None:
    """A finding if this is no journal of this version."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        return Finding("file", "not a Novikoff journal", BACKUP)
    if version == SCHEMA_VERSION:
        return None
    age = "newer" if version > SCHEMA_VERSION else "older"
    message = f"it has the {age} schema version {version}, and this program supports {SCHEMA_VERSION}"
    remedy = (
        "Use the newer Novikoff."
        if version > SCHEMA_VERSION
        else "Start the service once: it migrates the file."
    )
    return Finding("file", message, remedy)


def examine_what_was_given_up(path: Path) -> list[Finding]:
    """A note for each earlier repair that has given up something: an exit status is easily overlooked."""
    return [
        Finding("file", f"an earlier repair discarded what {file.name} lists", severity=Severity.note)
        for file in sorted(path.parent.glob(f"{path.name}.damaged*.txt"))
    ]


def examine_tables(connection: sqlite3.Connection, lost: Sequence[int]) -> Iterator[Finding]:
    """`lost`: models without a line, of which nothing tells what they were."""
    (newest,) = connection.execute(f"SELECT max(numbered, ({LARGEST_NUMBER})) FROM journal").fetchone()
    given = "SELECT max(numbered, coalesce((SELECT max(seq) FROM event), 0)) FROM journal"
    raises = "--repair raises the numbering and reseals it."
    if (why := why_numbering_damaged(connection)) is not None:
        yield Finding("file", why, raises, by_copying)
    elif connection.execute(given).fetchone()[0] < newest:
        yield Finding("file", "event numbers would be used twice", raises, by_copying)
    summarised = connection.execute("SELECT through FROM summarised").fetchall()
    if len(summarised) != 1 or summarised[0][0] > newest:
        message = "the counts of models refer to an event that does not exist"
        yield Finding("file", message, "--repair lets the service recount.", by_copying)
    yield from _orphans(connection, lost)
    yield from _pending(connection)


def _orphans(connection: sqlite3.Connection, lost: Sequence[int]) -> Iterator[Finding]:
    """Rows of models that are not there."""
    rows = connection.execute(f"SELECT DISTINCT model FROM pending WHERE {UNLISTED}").fetchall()
    rows += connection.execute(f"SELECT DISTINCT model FROM outcome WHERE {UNLISTED}").fetchall()
    rebuilt = f"SELECT model FROM event WHERE {UNLISTED} UNION SELECT model FROM snapshot WHERE {UNLISTED}"
    having_lines_soon = {life for (life,) in connection.execute(rebuilt)} - set(lost)
    lives = sorted({*lost, *(life for (life,) in rows)} - having_lines_soon)
    marks = ",".join("?" * len(lives))
    names = {"pending": "pending predictions", "snapshot": "snapshots", "outcome": "pages of outcomes"}
    for table, name in {**names, "event": "events"}.items():
        where = f"{table} WHERE model IN ({marks})"
        (count,) = connection.execute(f"SELECT count(*) FROM {where}", lives).fetchone()
        message = f"{count} {name} belong to models that do not exist"
        if count and table == "event":
            yield Finding("file", message)
        elif count:
            sealed = _sealed_predictions(connection, where, lives) if table == "pending" else []
            loses = f"pending predictions of models that do not exist: {named(sealed)}" if sealed else ""
            drop = statement(f"DELETE FROM {where}", *lives)
            yield Finding("file", message, "--repair drops them.", drop, loses)


def _sealed_predictions(connection: sqlite3.Connection, where: str, lives: list[int]) -> list[str]:
    """Those that are as they were written: somebody was told of them."""
    rows = connection.execute(f"SELECT body, prediction_id, model, at FROM {where}", lives)
    return [row[1] for row in rows if _why_unreadable(*row) is None]


def _why_unreadable(body: bytes, prediction_id: str, life: int, at: int, model: str = "") -> str | None:
    try:
        prediction = decode_prediction(unseal_pending(body, prediction_id, life, at))
    except (Damaged, msgspec.MsgspecError) as error:
        return f"cannot be read: {error}"
    own = (prediction.prediction_id, model and prediction.model, prediction.at)
    return None if own == (prediction_id, model, at) else "has the number of another event"


def _pending(connection: sqlite3.Connection) -> Iterator[Finding]:
    rows = connection.execute(
        "SELECT p.body, p.prediction_id, p.model, p.at, m.name, e.seq FROM pending p JOIN model m ON m.id = p.model"
        " LEFT JOIN event e ON e.prediction_id = p.prediction_id"
    )
    for body, prediction_id, life, at, model, revealed in rows:
        if revealed is not None:
            why, loses = f"is pending, but event {revealed} has its label", ""
        elif (unreadable := _why_unreadable(body, prediction_id, life, at, model)) is not None:
            why, loses = unreadable, f"the pending prediction {prediction_id!r}: its label will be refused"
        else:
            continue
        drop = statement("DELETE FROM pending WHERE prediction_id = ?", prediction_id)
        yield Finding(model, f"prediction {prediction_id!r} {why}", DROP, drop, loses)
