"""The SQLite file itself."""

import sqlite3

from service.commands.doctor.findings import Finding
from service.journal.schema import APPLICATION_ID, SCHEMA_VERSION

COMPLAINTS_MAX = 20
BACKUP = "Restore a backup."


def examine_file(connection: sqlite3.Connection) -> list[Finding]:
    """Whether this is a journal of ours whose every page can be read. If not, nothing else can be said."""
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID:
            return [Finding("file", "this is not a Novikoff journal")]
        if version != SCHEMA_VERSION:
            return [
                Finding("file", f"it has schema version {version}, and this program knows {SCHEMA_VERSION}")
            ]
        complaints = [row[0] for row in connection.execute(f"PRAGMA integrity_check({COMPLAINTS_MAX})")]
    except sqlite3.DatabaseError as error:
        return [Finding("file", f"it cannot be read: {error}", BACKUP)]
    if complaints == ["ok"]:
        return []
    return [Finding("file", complaint.replace("\n", " "), BACKUP) for complaint in complaints]
