"""Checks of the tables besides the events: rows without a model, and predictions that wait in vain."""

import sqlite3
from collections.abc import Iterator

import msgspec

from service.commands.doctor.findings import Finding, statement
from service.journal.codec import decode_prediction
from service.journal.seals import Damaged
from service.journal.sqlite.migrations import LARGEST_NUMBER
from service.journal.sqlite.sealing import SEAL_JOURNAL, unseal_pending
from service.journal.sqlite.soundness import why_numbering_damaged

NAMES = {"pending": "predictions that wait", "snapshot": "snapshots", "outcome": "pages of outcomes"}


def examine_tables(connection: sqlite3.Connection) -> Iterator[Finding]:
    yield from _numbering(connection)
    yield from _orphans(connection)
    yield from _summarised(connection)
    yield from _pending(connection)


def _numbering(connection: sqlite3.Connection) -> Iterator[Finding]:
    """Whether the next event would get a number that was given before."""
    if (why := why_numbering_damaged(connection)) is not None:
        yield Finding("file", why, "--repair raises the numbering and seals it anew.", _raise_numbering)
        return
    newest = f"max(numbered, coalesce((SELECT max(seq) FROM event), 0)) < ({LARGEST_NUMBER})"
    if connection.execute(f"SELECT 1 FROM journal WHERE {newest}").fetchone():
        raised = _raise_numbering
        yield Finding(
            "file", "numbers of events would be given again", "--repair raises the next one.", raised
        )


def _raise_numbering(connection: sqlite3.Connection) -> None:
    connection.execute(f"UPDATE journal SET numbered = max(numbered, ({LARGEST_NUMBER}))")
    connection.execute(SEAL_JOURNAL)


def _orphans(connection: sqlite3.Connection) -> Iterator[Finding]:
    # What deleted models have left is removed by the service, when it has nothing else to do.
    nobodys = "model NOT IN (SELECT id FROM model UNION ALL SELECT life FROM ended)"
    for table, name in NAMES.items():
        (count,) = connection.execute(f"SELECT count(*) FROM {table} WHERE {nobodys}").fetchone()
        if count:
            yield Finding(
                "file",
                f"{count} {name} belong to models that are not there",
                "--repair drops them.",
                statement(f"DELETE FROM {table} WHERE {nobodys}"),
            )
    (lost,) = connection.execute(f"SELECT count(*) FROM event WHERE {nobodys}").fetchone()
    if lost:
        yield Finding("file", f"{lost} events belong to models that are not there")


def _summarised(connection: sqlite3.Connection) -> Iterator[Finding]:
    (newest,) = connection.execute(f"SELECT max(numbered, ({LARGEST_NUMBER})) FROM journal").fetchone()
    rows = connection.execute("SELECT through FROM summarised").fetchall()
    if len(rows) != 1 or rows[0][0] > newest:
        yield Finding(
            "file",
            "the counts of models are said to be right up to an event that is not there",
            "--repair lets the service count anew.",
            _count_anew,
        )


def _count_anew(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM summarised")
    connection.execute("INSERT INTO summarised VALUES (0)")


def _pending(connection: sqlite3.Connection) -> Iterator[Finding]:
    rows = connection.execute(
        "SELECT p.prediction_id, p.model, p.at, p.body, m.name, e.seq FROM pending p JOIN model m ON m.id = p.model"
        " LEFT JOIN event e ON e.prediction_id = p.prediction_id"
    )
    for prediction_id, life, at, body, model, revealed in rows:
        loses = ""
        if revealed is not None:
            wrong = f"prediction {prediction_id!r} waits for a label that event {revealed} has"
        else:
            try:
                prediction = decode_prediction(unseal_pending(body, prediction_id, life, at))
            except (Damaged, msgspec.MsgspecError) as error:
                wrong = f"prediction {prediction_id!r} cannot be read: {error}"
                loses = f"the waiting prediction {prediction_id!r}: its label will not be taken"
            else:
                if (prediction.prediction_id, prediction.model, prediction.at) == (prediction_id, model, at):
                    continue
                wrong = f"prediction {prediction_id!r} says that it is another"
        yield Finding(
            model,
            wrong,
            "--repair drops it.",
            statement("DELETE FROM pending WHERE prediction_id = ?", prediction_id),
            loses,
        )
