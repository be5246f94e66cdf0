"""Checks of the SQLite file itself."""

import sqlite3
from pathlib import Path

from service.commands.doctor.findings import Finding, Severity
from service.journal.sqlite.identity import identity_beside, identity_in, why_not_its_own
from service.journal.sqlite.log_file import why_log_damaged
from service.journal.sqlite.permissions import unwritable, unwritable_for_owner, why_unwritable
from service.journal.sqlite.replacing import is_replacing
from service.journal.sqlite.schema import APPLICATION_ID, SCHEMA_VERSION
from service.journal.sqlite.shape import why_misshapen
from service.journal.sqlite.soundness import (
    why_newest_missing,
    why_read_only,
    why_wrong_size,
)

COMPLAINTS_MAX = 20
BACKUP = "Restore a backup."
END = "--repair puts the copy into its place, and so does a start of the service; the old file is beside it."
COPY = "--repair copies all that can be read into a new file, and tells what cannot."


def examine_file(connection: sqlite3.Connection, path: Path) -> list[Finding]:
    """Findings if this is no journal of this version, or if a page cannot be read. Then nothing else is checked."""
    if is_replacing(path):
        return [Finding("file", "a repair was cut off when its copy was whole", END)]
    if (why := why_log_damaged(path, "power")) is not None:
        return [Finding("file", why, COPY)]
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID:
            return [Finding("file", "this is not a Novikoff journal", BACKUP)]
        if version != SCHEMA_VERSION:
            return [_other_version(version)]
        if (why := why_misshapen(connection)) is not None:
            return [Finding("file", why, BACKUP)]
        identity = identity_in(connection)
        if identity is None:
            return [Finding("file", "it does not say which journal it is", COPY)]
        if identity and identity_beside(path) not in (None, identity):
            return [Finding("file", why_not_its_own(path))]
        if (why := why_wrong_size(connection, path) or why_read_only(path)) is not None:
            return [Finding("file", why, COPY)]
        if (why := why_newest_missing(connection, path)) is not None:
            return [Finding("file", why, COPY)]
        complaints = [row[0] for row in connection.execute(f"PRAGMA integrity_check({COMPLAINTS_MAX})")]
    except sqlite3.DatabaseError as error:
        complaints = [f"it cannot be read: {error}"]
    if complaints == ["ok"]:
        return []
    return [Finding("file", complaint.replace("\n", " "), COPY) for complaint in complaints]


def _other_version(version: int) -> Finding:
    message = f"it has schema version {version}, and this program knows {SCHEMA_VERSION}"
    if version < SCHEMA_VERSION:
        return Finding("file", message, "Start the service once: it brings the file up to date.")
    return Finding("file", message)


def examine_permissions(path: Path) -> list[Finding]:
    """Findings for files that the service could not write: as whoever runs this, or as the directory's owner."""
    refused = unwritable(path)
    owner = path.parent.stat().st_uid
    return [
        *(Finding(file.name, why_unwritable(file)) for file in refused),
        *(
            Finding(file.name, why_unwritable(file, owner), severity=Severity.note)
            for file in unwritable_for_owner(path)
            if file not in refused
        ),
    ]


def examine_what_was_given_up(path: Path) -> list[Finding]:
    """A note for each earlier repair that has given up something: an exit status is easily overlooked."""
    return [
        Finding("file", f"an earlier repair has given up what {file.name} names", severity=Severity.note)
        for file in sorted(path.parent.glob(f"{path.name}.damaged*.txt"))
    ]
