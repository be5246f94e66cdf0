"""From one version of the schema to the next: each step is one transaction, so a kill leaves it undone or done."""

import sqlite3
from contextlib import suppress

import msgspec

from service.events import ModelDeleted
from service.journal.codec import decode_event
from service.journal.seals import seal

JOURNAL_TABLE = """
CREATE TABLE journal (identity TEXT NOT NULL, numbered INTEGER NOT NULL);
INSERT INTO journal VALUES ('', 0);
"""
"""One row: which journal this is, empty until a directory takes it; and up to which sequence number none is given
again, even if no event has it. `numbered` is raised with every snapshot and every deleted model: until then no event
with a higher number can go."""

LARGEST_NUMBER = """
SELECT max(
    (SELECT coalesce(max(seq), 0) FROM event), (SELECT coalesce(max(seq), 0) FROM snapshot),
    (SELECT coalesce(max(through), 0) FROM outcome), (SELECT coalesce(max(id), 0) FROM model),
    (SELECT coalesce(max(seq), 0) FROM sqlite_sequence)
)
"""
"""The largest sequence number that the other tables know of."""


def _seal_what_is_derived(connection: sqlite3.Connection) -> None:
    connection.create_function("seal", 1, seal, deterministic=True)
    connection.execute("UPDATE snapshot SET state = seal(state)")
    connection.execute("UPDATE outcome SET body = seal(body)")


def _find_the_oldest_predictions(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE INDEX pending_by_time ON pending (at)")


def _keep_the_numbering(connection: sqlite3.Connection) -> None:
    for statement in JOURNAL_TABLE.split(";"):
        connection.execute(statement)
    connection.execute(f"UPDATE journal SET numbered = ({LARGEST_NUMBER})")
    # Deleted models used to leave an event, since the numbering went by the largest number of an event.
    connection.create_function("is_death", 1, _is_death)
    connection.execute("DELETE FROM event WHERE model NOT IN (SELECT id FROM model) AND is_death(body)")


def _is_death(body: bytes) -> bool:
    with suppress(msgspec.MsgspecError):
        return isinstance(decode_event(body), ModelDeleted)
    return False


STEPS = {1: _seal_what_is_derived, 2: _find_the_oldest_predictions, 3: _keep_the_numbering}
"""What leads away from each version but the newest."""


def migrate(connection: sqlite3.Connection, version: int, to: int) -> None:
    for step in range(version, to):
        connection.execute("BEGIN IMMEDIATE")
        STEPS[step](connection)
        connection.execute(f"PRAGMA user_version={step + 1}")
        connection.execute("COMMIT")
