"""Checks of the tables besides the events: rows without a model, and predictions that wait in vain."""

import sqlite3
from collections.abc import Iterator

import msgspec

from service.commands.doctor.findings import Finding, statement
from service.events import ModelDeleted
from service.journal.codec import decode_event, decode_prediction

NAMES = {"pending": "predictions that wait", "snapshot": "snapshots", "outcome": "pages of outcomes"}


def examine_tables(connection: sqlite3.Connection) -> Iterator[Finding]:
    yield from _orphans(connection)
    yield from _summarised(connection)
    yield from _pending(connection)


def _orphans(connection: sqlite3.Connection) -> Iterator[Finding]:
    nobodys = "model NOT IN (SELECT id FROM model)"
    for table, name in NAMES.items():
        (count,) = connection.execute(f"SELECT count(*) FROM {table} WHERE {nobodys}").fetchone()
        if count:
            yield Finding(
                "file",
                f"{count} {name} belong to models that are not there",
                "--repair drops them.",
                statement(f"DELETE FROM {table} WHERE {nobodys}"),
            )
    lost = 0
    for (body,) in connection.execute(f"SELECT body FROM event WHERE {nobodys}"):
        try:
            lost += not isinstance(decode_event(body), ModelDeleted)
        except msgspec.MsgspecError:
            lost += 1
    if lost:
        yield Finding("file", f"{lost} events belong to models that are not there")


def _summarised(connection: sqlite3.Connection) -> Iterator[Finding]:
    (newest,) = connection.execute("SELECT coalesce(max(seq), 0) FROM event").fetchone()
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
        "SELECT p.prediction_id, p.at, p.body, m.name, e.seq FROM pending p JOIN model m ON m.id = p.model"
        " LEFT JOIN event e ON e.prediction_id = p.prediction_id"
    )
    for prediction_id, at, body, model, revealed in rows:
        if revealed is not None:
            wrong = f"prediction {prediction_id!r} waits for a label that event {revealed} has"
        else:
            try:
                prediction = decode_prediction(body)
            except msgspec.MsgspecError as error:
                wrong = f"prediction {prediction_id!r} cannot be read: {error}"
            else:
                if (prediction.prediction_id, prediction.model, prediction.at) == (prediction_id, model, at):
                    continue
                wrong = f"prediction {prediction_id!r} says that it is another"
        yield Finding(
            model,
            wrong,
            "--repair drops it.",
            statement("DELETE FROM pending WHERE prediction_id = ?", prediction_id),
        )
