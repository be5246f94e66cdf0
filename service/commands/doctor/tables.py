"""Checks of the tables besides the events: rows without a model, and predictions that wait in vain."""

import sqlite3
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from service.commands.doctor.findings import Finding, statement
from service.commands.doctor.missing_lines import NOBODYS, examine_missing_lines, missing_lines
from service.commands.doctor.salvaging import named
from service.journal.codec import decode_prediction
from service.journal.seals import Damaged
from service.journal.sqlite.migrations import LARGEST_NUMBER
from service.journal.sqlite.sealing import MODEL_COLUMNS, SEAL_JOURNAL, check_model, unseal_pending
from service.journal.sqlite.soundness import why_numbering_damaged

NAMES = {"pending": "predictions that wait", "snapshot": "snapshots", "outcome": "pages of outcomes"}


def examine_tables(connection: sqlite3.Connection) -> Iterator[Finding]:
    yield from _numbering(connection)
    lines = missing_lines(connection)
    yield from examine_missing_lines(lines)
    yield from _orphans(connection, set(lines))
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


def _orphans(connection: sqlite3.Connection, having_lines_soon: set[int]) -> Iterator[Finding]:
    """Rows of models that are not there, and of which nothing tells what they were."""
    for table, name in NAMES.items():
        rows = connection.execute(f"SELECT DISTINCT model FROM {table} WHERE {NOBODYS}").fetchall()
        lives = [life for (life,) in rows if life not in having_lines_soon]
        marks = ",".join("?" * len(lives))
        (count,) = connection.execute(
            f"SELECT count(*) FROM {table} WHERE model IN ({marks})", lives
        ).fetchone()
        if count:
            sealed = _sealed_predictions(connection, lives) if table == "pending" else []
            yield Finding(
                "file",
                f"{count} {name} belong to models that are not there",
                "--repair drops them.",
                statement(f"DELETE FROM {table} WHERE model IN ({marks})", *lives),
                f"predictions that wait, of models that are not there: {named(sealed)}" if sealed else "",
            )
    rows = connection.execute(f"SELECT model, count(*) FROM event WHERE {NOBODYS} GROUP BY model").fetchall()
    lost = sum(count for life, count in rows if life not in having_lines_soon)
    if lost:
        yield Finding("file", f"{lost} events belong to models that are not there")


def _sealed_predictions(connection: sqlite3.Connection, lives: list[int]) -> list[str]:
    """Those that are as they were written: somebody was told of them."""
    marks = ",".join("?" * len(lives))
    select = f"SELECT body, prediction_id, model, at FROM pending WHERE model IN ({marks})"
    sealed = []
    for row in connection.execute(select, lives):
        with suppress(Damaged):
            unseal_pending(*row)
            sealed.append(row[1])
    return sealed


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
    unsure = _models_with_damaged_lines(connection)
    for prediction_id, life, at, body, model, revealed in rows:
        if life in unsure:
            continue  # the name is not to be relied on until the line has been made anew
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
                loses = f"the waiting prediction {prediction_id!r}: its label will not be taken"
                wrong = f"prediction {prediction_id!r} says that it is another"
        yield Finding(
            model,
            wrong,
            "--repair drops it.",
            statement("DELETE FROM pending WHERE prediction_id = ?", prediction_id),
            loses,
        )


def _models_with_damaged_lines(connection: sqlite3.Connection) -> set[int]:
    damaged = set()
    for row in connection.execute(f"SELECT {MODEL_COLUMNS}, digest FROM model"):
        try:
            check_model(row)
        except Damaged:
            damaged.add(row[0])
    return damaged
