"""From one version of the schema to the next: each step is one transaction, so a kill leaves it undone or done."""

import sqlite3

from service.journal.seals import seal


def _seal_what_is_derived(connection: sqlite3.Connection) -> None:
    connection.create_function("seal", 1, seal, deterministic=True)
    connection.execute("UPDATE snapshot SET state = seal(state)")
    connection.execute("UPDATE outcome SET body = seal(body)")


def _find_the_oldest_predictions(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE INDEX pending_by_time ON pending (at)")


STEPS = {1: _seal_what_is_derived, 2: _find_the_oldest_predictions}
"""What leads away from each version but the newest."""


def migrate(connection: sqlite3.Connection, version: int, to: int) -> None:
    for step in range(version, to):
        connection.execute("BEGIN IMMEDIATE")
        STEPS[step](connection)
        connection.execute(f"PRAGMA user_version={step + 1}")
        connection.execute("COMMIT")
