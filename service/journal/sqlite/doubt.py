"""Which failures of a COMMIT leave it open whether it was done."""

import sqlite3

NOT_WRITTEN = ("SQLITE_FULL", "SQLITE_BUSY", "SQLITE_IOERR_WRITE")
"""Failures of a COMMIT that leave nothing behind: its last page, which makes it count, was not written whole."""


class InDoubt(sqlite3.OperationalError):
    """All of a commit may be in the log, and not be seen before a crash."""


def end_transaction(connection: sqlite3.Connection) -> None:
    """End a transaction; InDoubt if nobody can tell whether it was kept."""
    try:
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        if error.sqlite_errorname in NOT_WRITTEN:
            raise
        raise InDoubt(str(error)) from error
