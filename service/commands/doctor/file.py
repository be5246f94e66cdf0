"""Checks of the SQLite file itself."""

import sqlite3
from pathlib import Path

from service.commands.doctor.findings import Finding
from service.commands.doctor.rebuilding import can_be_rebuilt
from service.journal.sqlite.identity import NAMELESS, identity_beside, identity_in, why_not_its_own
from service.journal.sqlite.schema import APPLICATION_ID, SCHEMA_VERSION

COMPLAINTS_MAX = 20
BACKUP = "Restore a backup."
COPY = "--repair copies all that is whole into a new file: no event is lost."


def examine_file(connection: sqlite3.Connection, path: Path) -> list[Finding]:
    """Findings if this is no journal of this version, or if a page cannot be read. Then nothing else is checked."""
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID:
            return [Finding("file", "this is not a Novikoff journal")]
        if version != SCHEMA_VERSION:
            message = f"it has schema version {version}, and this program knows {SCHEMA_VERSION}"
            older = (
                "Start the service once: it brings the file up to date." if version < SCHEMA_VERSION else ""
            )
            return [Finding("file", message, older)]
        identity = identity_in(connection)
        if identity is None:
            return [Finding("file", NAMELESS, COPY)]
        if identity and identity_beside(path) not in (None, identity):
            return [Finding("file", why_not_its_own(path))]
        complaints = [row[0] for row in connection.execute(f"PRAGMA integrity_check({COMPLAINTS_MAX})")]
    except sqlite3.DatabaseError as error:
        complaints = [f"it cannot be read: {error}"]
    if complaints == ["ok"]:
        return []
    remedy = COPY if can_be_rebuilt(path) else BACKUP
    return [Finding("file", complaint.replace("\n", " "), remedy) for complaint in complaints]
