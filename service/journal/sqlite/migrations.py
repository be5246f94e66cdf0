"""From older versions of the schema to the present one: one transaction, so that a kill leaves all undone or done."""

import hashlib
import sqlite3

import msgspec

from service.events import ModelDeleted
from service.journal.seals import SEAL_BYTES
from service.journal.sqlite.leavings import ENDED_TABLE, PARTS_TABLE
from service.journal.sqlite.sealing import SEAL_JOURNAL

LARGEST_NUMBER = """
SELECT max(
    (SELECT coalesce(max(seq), 0) FROM event), (SELECT coalesce(max(seq), 0) FROM snapshot),
    (SELECT coalesce(max(through), 0) FROM outcome), (SELECT coalesce(max(id), 0) FROM model),
    (SELECT coalesce(max(seq), 0) FROM sqlite_sequence)
)
"""
"""The largest sequence number that the other tables know of."""


def _seal_what_is_derived(connection: sqlite3.Connection) -> None:
    connection.create_function("seal", 1, seal_derived, deterministic=True)
    connection.execute("UPDATE snapshot SET state = seal(state)")
    connection.execute("UPDATE outcome SET body = seal(body)")


def _find_the_oldest_predictions(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE INDEX pending_by_time ON pending (at)")


def _keep_the_numbering(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE journal (identity TEXT NOT NULL, numbered INTEGER NOT NULL)")
    connection.execute(f"INSERT INTO journal VALUES ('', ({LARGEST_NUMBER}))")
    # Deleted models used to leave an event, since the numbering went by the largest number of an event.
    connection.create_function("is_death", 1, _is_death)
    connection.execute("DELETE FROM event WHERE model NOT IN (SELECT id FROM model) AND is_death(body)")


def _is_death(body: bytes) -> bool:
    try:
        msgspec.msgpack.decode(body, type=ModelDeleted)
    except msgspec.MsgspecError:
        return False
    return True


def _seal_every_row(connection: sqlite3.Connection) -> None:
    """Rows are sealed as they are; what was sealed before and does not fit stays as it is, so that it is found."""
    connection.create_function("content", 1, _content)
    connection.execute("ALTER TABLE event ADD COLUMN previous INTEGER NOT NULL DEFAULT 0")
    connection.execute("ALTER TABLE model ADD COLUMN newest INTEGER NOT NULL DEFAULT 0")
    for table in ("journal", "model"):
        connection.execute(f"ALTER TABLE {table} ADD COLUMN digest BLOB NOT NULL DEFAULT x''")
    # Of a model without older events the one before is that of its snapshot, if it was trimmed.
    connection.execute(
        "UPDATE event SET (previous, body) ="
        " (SELECT before, seal_event(event.body, event.seq, event.model, event.prediction_id, before) FROM"
        "  (SELECT coalesce((SELECT max(e.seq) FROM event e WHERE e.model = event.model AND e.seq < event.seq),"
        "   (SELECT max(s.seq) FROM snapshot s WHERE s.model = event.model AND s.seq < event.seq), 0) AS before))"
    )
    connection.execute("UPDATE pending SET body = seal_pending(body, prediction_id, model, at)")
    connection.execute(
        "UPDATE snapshot SET state = seal_snapshot(content(state), model, seq) WHERE content(state) IS NOT NULL"
    )
    connection.execute(
        "UPDATE outcome SET body = seal_outcomes(content(body), model, through, version)"
        " WHERE content(body) IS NOT NULL"
    )
    connection.execute(
        "UPDATE model SET newest = max(id, coalesce((SELECT max(e.seq) FROM event e WHERE e.model = id), 0),"
        " coalesce((SELECT max(s.seq) FROM snapshot s WHERE s.model = id), 0))"
    )
    connection.execute(
        "UPDATE model SET digest = model_digest(id, name, created_at, settings, voided_through,"
        " updated_at, revealed, mistakes, updates, pending, expired, newest)"
    )
    connection.execute(SEAL_JOURNAL)


def _make_room_for_slices(connection: sqlite3.Connection) -> None:
    connection.execute(ENDED_TABLE)
    connection.execute(PARTS_TABLE)


def _list_by_recent_error(connection: sqlite3.Connection) -> None:
    """The column is empty until a model is summarised again, so this takes no longer with many models."""
    connection.execute("ALTER TABLE model ADD COLUMN ewma_error_rate REAL")


def seal_derived(content: bytes) -> bytes:
    """As snapshots and outcomes were sealed before every row was."""
    return content + hashlib.blake2b(content, digest_size=SEAL_BYTES).digest()


def _content(sealed: object) -> bytes | None:
    """What was sealed so; None if that has changed."""
    if not isinstance(sealed, bytes) or sealed != seal_derived(sealed[:-SEAL_BYTES]):
        return None
    return sealed[:-SEAL_BYTES]


STEPS = {
    1: _seal_what_is_derived, 2: _find_the_oldest_predictions, 3: _keep_the_numbering, 4: _seal_every_row,
    5: _make_room_for_slices, 6: _list_by_recent_error,
}  # fmt: skip
"""What leads away from each version but the newest."""


def migrate(connection: sqlite3.Connection, version: int, to: int) -> None:
    if version == to:
        return
    connection.execute("BEGIN IMMEDIATE")
    for step in range(version, to):
        STEPS[step](connection)
    connection.execute(f"PRAGMA user_version={to}")
    connection.execute("COMMIT")
