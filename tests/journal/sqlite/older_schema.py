"""A file of this schema made into one of schema 4, in which only snapshots and outcomes were sealed."""

import sqlite3

from service.journal.seals import SEAL_BYTES
from service.journal.sqlite.schema import seal_derived


def make_schema_4(connection: sqlite3.Connection) -> None:
    connection.create_function("bare", 1, lambda sealed: sealed[:-SEAL_BYTES])
    connection.create_function("seal", 1, seal_derived)
    for statement in (
        "UPDATE event SET body = bare(body)",
        "UPDATE pending SET body = bare(body)",
        "UPDATE snapshot SET state = seal(bare(state))",
        "UPDATE outcome SET body = seal(bare(body))",
        "ALTER TABLE event DROP COLUMN previous",
        "ALTER TABLE model DROP COLUMN newest",
        "ALTER TABLE model DROP COLUMN ewma_error_rate",
        "ALTER TABLE model DROP COLUMN digest",
        "ALTER TABLE journal DROP COLUMN digest",
        "DROP TABLE ended",
        "DROP TABLE snapshot_part",
        "PRAGMA user_version = 4",
    ):
        connection.execute(statement)
