"""The digests of the rows of the SQLite file, each over all columns of its row.

A row whose key has changed is damaged too: it would be taken for another, or not be found. So the keys are part of
each digest, and a reader that finds a row by an index checks that the index has led to the right row.

Each event names the event of its model before it, its `previous`. So one that is missing is noticed with the next.
"""

import sqlite3
from collections.abc import Iterable
from typing import Any

from service.journal.seals import SEAL_BYTES, Damaged, digest, digest_of_parts, seal, unseal


def seal_event(body: bytes, seq: int, life: int, prediction_id: str | None, previous: int) -> bytes:
    return seal(body, f"event {seq} {life} {previous} {prediction_id}")


def unseal_event(sealed: bytes, seq: int, life: int, prediction_id: str | None, previous: int) -> bytes:
    return _unseal(f"event {seq}", sealed, f"event {seq} {life} {previous} {prediction_id}")


def seal_pending(body: bytes, prediction_id: str, life: int, at: int) -> bytes:
    return seal(body, f"pending {life} {at} {prediction_id}")


def unseal_pending(sealed: bytes, prediction_id: str, life: int, at: int) -> bytes:
    return _unseal(
        f"the pending prediction {prediction_id!r}", sealed, f"pending {life} {at} {prediction_id}"
    )


def seal_snapshot(state: bytes, life: int, seq: int) -> bytes:
    return seal(state, f"snapshot {life} {seq}")


def seal_of_snapshot(state: Iterable[bytes | memoryview], life: int, seq: int) -> bytes:
    """What is put behind a state that comes in parts."""
    return digest_of_parts(state, f"snapshot {life} {seq}")


def unseal_snapshot(sealed: bytes, life: int, seq: int) -> bytes:
    return _unseal(f"the snapshot after event {seq}", sealed, f"snapshot {life} {seq}")


def unseal_large_snapshot(sealed: memoryview, life: int, seq: int) -> memoryview:
    """The same without a copy."""
    content, end = sealed[:-SEAL_BYTES], bytes(sealed[-SEAL_BYTES:])
    if end != seal_of_snapshot([content], life, seq):
        raise Damaged(f"the snapshot after event {seq} is damaged: its digest does not match")
    return content


def seal_outcomes(body: bytes, life: int, through: int, version: int) -> bytes:
    return seal(body, f"outcome {life} {through} {version}")


def unseal_outcomes(sealed: bytes, life: int, through: int, version: int) -> bytes:
    what = f"the page of outcomes up to event {through}"
    return _unseal(what, sealed, f"outcome {life} {through} {version}")


def _unseal(what: str, sealed: bytes, place: str) -> bytes:
    try:
        return unseal(sealed, place)
    except Damaged as error:
        raise Damaged(f"{what} is damaged: {error}") from None


MODEL_COLUMNS = (
    "id, name, created_at, settings, voided_through,"
    " updated_at, revealed, mistakes, updates, pending, expired, newest, ewma_error_rate"
)
"""All but the digest itself."""


def model_digest(*columns: Any) -> bytes:
    """A line without a recent error has the digest that it had when no line had one: so old lines need no new one."""
    known = columns[:-1] if columns[-1] is None else columns
    return digest(b"", repr(("model", *known)))


def check_model(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The columns of a row of `model`, if its digest, the last of them, fits."""
    if row[-1] != model_digest(*row[:-1]):
        raise Damaged(f"the row of the model {row[1]!r} is damaged: its digest does not match")
    return row[:-1]


def journal_digest(identity: str, numbered: int) -> bytes:
    return digest(b"", repr(("journal", identity, numbered)))


def add_functions(connection: sqlite3.Connection) -> None:
    """Let statements compute digests of the rows that they change."""
    for function, count in (
        (seal_event, 5), (seal_pending, 4), (seal_snapshot, 3), (seal_outcomes, 4),
        (model_digest, -1), (journal_digest, 2),
    ):  # fmt: skip
        connection.create_function(function.__name__, count, function, deterministic=True)


SEAL_MODEL = f"UPDATE model SET digest = model_digest({MODEL_COLUMNS})"
SEAL_JOURNAL = "UPDATE journal SET digest = journal_digest(identity, numbered)"
