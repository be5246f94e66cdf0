"""The SQLite file: its tables, its settings, how older versions become this one, and who may open it."""

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from service.errors import DirectoryUnusable, JournalDamaged, NewerSchema
from service.events import ModelDeleted
from service.journal.seals import SEAL_BYTES
from service.journal.sqlite.sealing import SEAL_JOURNAL, add_functions

APPLICATION_ID = 0x4E6F766B  # "Novk": tells our files from others'
SCHEMA_VERSION = 7
PAGE_BYTES = 8192

ENDED_TABLE = "CREATE TABLE ended (life INTEGER PRIMARY KEY);"

PARTS_TABLE = """CREATE TABLE snapshot_part (
    model INTEGER NOT NULL, seq INTEGER NOT NULL, part INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (model, seq, part)
);"""
"""`state` in the row of such a snapshot is empty."""

# `journal` has one row: which journal this is, empty until a directory takes it; and up to which sequence number none
# is given again, even if no event has it. `numbered` is raised with every snapshot and every deleted model: until then
# no event with a higher number can go.
# The counts of a model are a summary of its state, for lists that are sorted by them. They are written now
# and then and never read as the truth; `summarised` tells up to which event they are right.
# An event belongs to a model by its life, the number of the event that made it, so that the index stays small
# and a model made again under an old name shares nothing with its predecessor.
# `body` and `state` end with a digest of the whole row, and `digest` is one: see `sealing`. `newest` is the number of
# the newest event of a model when it was last written: a load that does not come that far has found events missing.
TABLES = f"""
{ENDED_TABLE}
{PARTS_TABLE}
CREATE TABLE journal (identity TEXT NOT NULL, numbered INTEGER NOT NULL, digest BLOB NOT NULL DEFAULT x'');
INSERT INTO journal VALUES ('', 0, journal_digest('', 0));
CREATE TABLE model (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL, settings BLOB NOT NULL, voided_through INTEGER NOT NULL DEFAULT 0,
    updated_at INTEGER NOT NULL, revealed INTEGER NOT NULL DEFAULT 0, mistakes INTEGER NOT NULL DEFAULT 0,
    updates INTEGER NOT NULL DEFAULT 0, pending INTEGER NOT NULL DEFAULT 0, expired INTEGER NOT NULL DEFAULT 0,
    newest INTEGER NOT NULL DEFAULT 0, digest BLOB NOT NULL DEFAULT x'', ewma_error_rate REAL
);
CREATE TABLE summarised (through INTEGER NOT NULL);
INSERT INTO summarised VALUES (0);
CREATE TABLE event (
    seq INTEGER PRIMARY KEY, model INTEGER NOT NULL, prediction_id TEXT UNIQUE, body BLOB NOT NULL,
    previous INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX event_of_model ON event (model, seq);
CREATE TABLE pending (
    prediction_id TEXT PRIMARY KEY, model INTEGER NOT NULL, at INTEGER NOT NULL, body BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX pending_of_model ON pending (model, at);
CREATE INDEX pending_by_time ON pending (at);
CREATE TABLE snapshot (
    model INTEGER NOT NULL, seq INTEGER NOT NULL, state BLOB NOT NULL, PRIMARY KEY (model, seq)
);
CREATE TABLE outcome (
    model INTEGER NOT NULL, through INTEGER NOT NULL, version INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (model, through)
) WITHOUT ROWID;
"""

CHECKPOINT_PAGES = 500
"""How many pages of the log are copied into the file at a time. The commit that does it takes the longer, the more
there are: 2 ms with so many, 4 with twice as many, and no less work in all."""

LOG_BYTES_USUAL = 8_388_608
"""To this SQLite shortens the log once it has been folded into the file: twice what it has then as a rule, since a
group of commits may be large."""

SYNCHRONOUS = {"power": "FULL", "process": "NORMAL"}
"""What a commit survives: a power cut, or the end of the process."""


@contextmanager
def legible_errors() -> Iterator[None]:
    """Tell an error of SQLite's as one also if its message is no text: it names what a damaged schema has."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise sqlite3.DatabaseError(error.object.decode("utf-8", "replace")) from error


def open_writer(path: Path, durability: str) -> sqlite3.Connection:
    """The one connection that writes, its file made or checked."""
    try:
        return _open_writer(path, durability)
    except sqlite3.Error as error:
        if type(error) is sqlite3.DatabaseError:  # neither the disk nor the permissions: the content
            raise damaged(path, str(error)) from error
        raise DirectoryUnusable(f"{path} cannot be opened: {error}") from error


def _open_writer(path: Path, durability: str) -> sqlite3.Connection:
    with legible_errors():
        connection = _connect(path.as_uri())
        connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
        connection.execute("PRAGMA journal_mode=WAL")
        # A journal has to be on disk before its identity is written beside it.
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit={LOG_BYTES_USUAL}")
        add_functions(connection)
        connection.execute("PRAGMA temp_store=MEMORY")  # what a statement may have to undo: no file for each
        _make_or_check(connection, path)
        connection.execute(f"PRAGMA synchronous={SYNCHRONOUS[durability]}")
    return connection


def damaged(path: Path, why: str) -> JournalDamaged:
    return JournalDamaged(
        f"{path} is damaged: {why}. `novikoff doctor --data {path.parent}` shows details, and with --repair"
        "fixes what can be rebuilt; if that fails, restore a backup"
    )


def open_reader(path: Path) -> sqlite3.Connection:
    return _connect(path.as_uri() + "?mode=ro")


def _connect(uri: str) -> sqlite3.Connection:
    # Transactions are begun and ended by name, and each thread has a connection to itself.
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)


def _make_or_check(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application == 0 and version == 0 and not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        connection.executescript(
            f"BEGIN; {TABLES} PRAGMA application_id={APPLICATION_ID};"
            f"PRAGMA user_version={SCHEMA_VERSION}; COMMIT;"
        )
    elif application != APPLICATION_ID:
        raise DirectoryUnusable(f"{path} is not a Novikoff journal")
    elif version < 0:
        raise damaged(path, f"it has schema version {version}")
    elif version > SCHEMA_VERSION:
        raise NewerSchema(
            f"{path} has schema version {version}, and this program supports {SCHEMA_VERSION}:"
            " run the newer Novikoff that wrote it"
        )
    else:
        migrate(connection, version, SCHEMA_VERSION)


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
