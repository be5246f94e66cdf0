"""--repair: a copy of all that can be read takes the place of the journal, and derived data is rebuilt in it.

The file may have torn pages. Rows that are not as they were written are left out and listed by their keys. The old file
stays beside the journal as `.damaged`. Killed at any moment, the next to open the directory has the old journal or the
new one: see `replacing`. Beyond that, a backup is restored.
"""

import os
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any

from service.commands.doctor.checks import named
from service.journal.seals import Damaged
from service.journal.sqlite.acknowledged import has_log, read_note
from service.journal.sqlite.directory import identity_beside, remove_beside, replace_with, sync_directory
from service.journal.sqlite.schema import LARGEST_NUMBER, open_reader, open_writer
from service.journal.sqlite.sealing import SEAL_JOURNAL, journal_digest
from service.journal.sqlite.soundness import why_log_damaged
from service.journal.sqlite.tables import TABLES, Row, Table

WORDS = {"event": "events", "pending": "pending predictions"}
"""Whether models, snapshots and outcomes can be rebuilt shows only in the copy."""


@dataclass(slots=True)
class Copied:
    """What became of the rows of a table, by their keys."""

    sound: set[Any] = field(default_factory=set)
    """Copied, as they were written."""
    lost: set[Any] = field(default_factory=set)
    """They do not fit their digest, or an index has their keys and they are gone."""
    is_accounted_for: bool = False
    """Whether all keys are known: the table, or an index of it, could be read from end to end."""


@dataclass(slots=True)
class Salvaged:
    """What a copy does not have."""

    lost: list[str] = field(default_factory=list)
    """In words."""
    models: set[int] = field(default_factory=set)
    """Models whose lines are missing: they may be rebuilt."""
    refusal: str | None = None
    """Why the copy must not take the place of the journal, unless somebody wants just that."""


def salvage(path: Path, new: Path) -> Salvaged:
    """Copy each row that is as it was written, with what SQLite reads of the log."""
    salvaged = Salvaged()
    if (why := why_log_damaged(path, "power")) is not None:
        salvaged.lost.append(f"the rest of the log: {why}")
        salvaged.refusal = why
    new.touch(0o600)
    with closing(open_reader(path)) as old, closing(open_writer(new, "power")) as copy:
        old.text_factory = lambda text: text.decode("utf-8", "replace")  # it does not fit its digest then
        # This lets SQLite read a file that is shorter than it ought to be.
        old.execute("PRAGMA writable_schema=ON")
        copy.execute("BEGIN")
        copied = {table.name: _copy_rows(old, copy, table) for table in TABLES}
        _copy_journal(old, copy, path)
        revealed = "SELECT 1 FROM event WHERE prediction_id = ?"
        waiting = copied["pending"]
        waiting.lost = {key for key in waiting.lost if not copy.execute(revealed, (key,)).fetchone()}
        _account(copied, salvaged)
        salvaged.lost += _gone_back(old, copy, copied)
        _number(copy, path, salvaged)
        copy.execute("COMMIT")
    return salvaged


def _copy_rows(old: sqlite3.Connection, copy: sqlite3.Connection, table: Table) -> Copied:
    """Copy the rows that are as they were written.

    Rows are read as they stand, not looked up by their keys: beside a key that has changed a search goes astray. Where
    that meets a torn page it goes on from the other end, and then the indexes tell which rows are between.
    """
    copied, damaged = Copied(), set()
    size = len(table.key)

    def take(row: Row) -> None:
        key = row[0] if size == 1 else row[:size]
        try:
            table.check(old, row[size:])
        except (Damaged, sqlite3.Error):
            damaged.add(key)
        else:
            if _insert(copy, table.name, row[size:]):
                copied.sound.add(key)

    for order in _both_ways(table.key):
        try:
            for row in table.rows(old, f"ORDER BY {order}"):
                take(row)
            copied.is_accounted_for = True
            break
        except sqlite3.Error:
            continue
    for index, columns in table.indexes.items():
        keys, is_all = _keys(old, table, index, columns)
        copied.is_accounted_for |= is_all
        absent = set()
        for key in keys - copied.sound - damaged:
            try:
                row = table.rows(old, f"WHERE {table.key[0]} = ?", key).fetchone()
            except sqlite3.Error:
                row = None
            if row is None:
                absent.add(key)
            else:
                take(row)
        # An entry of an index that has changed leads to no row, and another row has no entry then: nothing is lost.
        if len(absent) > (len(copied.sound - keys) if is_all else 0):
            copied.lost |= absent
    copied.lost |= damaged
    return copied


def _gone_back(old: sqlite3.Connection, copy: sqlite3.Connection, copied: dict[str, Copied]) -> list[str]:
    """Models whose newest snapshot is lost, and with it their newest rounds, and whose line is lost, which says so."""
    snapshots = "SELECT rowid, model, seq FROM snapshot INDEXED BY sqlite_autoindex_snapshot_1"
    newest = (
        "SELECT max(coalesce((SELECT max(seq) FROM event WHERE model = ?1), 0),"
        " coalesce((SELECT max(seq) FROM snapshot WHERE model = ?1), 0))"
    )
    known = copied["model"].sound | copied["ended"].sound
    gone = []
    with suppress(sqlite3.Error):
        for rowid, life, seq in old.execute(snapshots):
            if rowid in copied["snapshot"].lost and life not in known:
                (left,) = copy.execute(newest, (life,)).fetchone()
                if 0 < left < seq:
                    gone.append(f"what model {life} learned after event {left}, up to event {seq}")
    return gone


def _keys(
    old: sqlite3.Connection, table: Table, index: str, columns: tuple[str, ...]
) -> tuple[set[Any], bool]:
    """The keys that an index has, and whether that is all of them."""
    keys: set[Any] = set()
    for order in _both_ways(columns):
        try:
            for (key,) in old.execute(
                f"SELECT {table.key[0]} FROM {table.name} INDEXED BY {index} ORDER BY {order}"
            ):
                keys.add(key)
            return keys, True
        except sqlite3.Error:
            continue
    return keys, False


def _both_ways(columns: tuple[str, ...]) -> list[str]:
    return [", ".join(f"{column} {way}" for column in columns) for way in ("ASC", "DESC")]


def _insert(copy: sqlite3.Connection, table: str, row: Row) -> bool:
    """Whether the row has found its place; not if a column has no value, or another row has its key."""
    marks = ",".join("?" * len(row))
    try:
        return copy.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", row).rowcount > 0
    except (sqlite3.Error, OverflowError):
        return False


def _account(copied: dict[str, Copied], salvaged: Salvaged) -> None:
    salvaged.models = copied["model"].lost
    for table, words in WORDS.items():
        if lost := copied[table].lost:
            salvaged.lost.append(f"{words} that cannot be read: {named(lost)}")
        if not copied[table].is_accounted_for:
            salvaged.lost.append(f"{words} that cannot be read, number unknown")
    if not copied["model"].is_accounted_for:
        salvaged.lost.append("models without readable events or snapshots, if there were any")
    if not copied["ended"].is_accounted_for:
        salvaged.lost.append("the latest deletions of models: a deleted model may be back")
    is_certain = all(one.is_accounted_for for one in copied.values())
    if not is_certain and not copied["event"].sound and not copied["snapshot"].sound:
        salvaged.refusal = "no event and no snapshot is readable"


def _copy_journal(old: sqlite3.Connection, copy: sqlite3.Connection, path: Path) -> None:
    """Its identity, and up to where the counts of models are right. If the row with the identity does not fit its
    digest, the directory tells which journal this is; its numbering is not lowered, since deleted models may have had
    the newest numbers."""
    row = summarised = None
    try:
        row = old.execute("SELECT identity, numbered, digest FROM journal").fetchone()
        (summarised,) = old.execute("SELECT through FROM summarised").fetchall()
    except (sqlite3.Error, ValueError):
        pass
    if row is None or row[2] != journal_digest(*row[:2]):
        numbered = row[1] if row is not None and isinstance(row[1], int) else 0
        row = (identity_beside(path) or "", numbered, b"")
    copy.execute("UPDATE journal SET identity = ?, numbered = ?, digest = ?", row)
    if summarised is not None:
        known = "coalesce((SELECT max(seq) FROM event), 0)"
        copy.execute(f"UPDATE summarised SET through = ?1 WHERE ?1 <= {known}", summarised)


def _number(copy: sqlite3.Connection, path: Path, salvaged: Salvaged) -> None:
    """Let no number be given again, and see whether all that were acknowledged are there."""
    copy.execute(f"UPDATE journal SET numbered = max(numbered, ({LARGEST_NUMBER}))")
    (newest,) = copy.execute("SELECT numbered FROM journal").fetchone()
    note = read_note(path)
    if note is not None and note.seq > newest:
        copy.execute("UPDATE journal SET numbered = ?", (note.seq,))
        if note.is_reliable:
            gone = f"all events after number {newest}, though {note.seq} was acknowledged"
            salvaged.lost.append(gone)
            if not has_log(path) and salvaged.refusal is None:
                salvaged.refusal = (
                    f"{path.name}-wal is missing, and with it {gone}: put it back if you have it"
                )
    copy.execute(SEAL_JOURNAL)


def swap(new: Path, path: Path, given_up: Sequence[str] = ()) -> Path:
    """Put a new journal in the place of one, whose file and log stay beside it with the suffix `.damaged`; its path.

    What was given up is written beside that, for a later reader. A file of an earlier repair is never touched: it
    may be the only one that has what that repair could not read.
    """
    with closing(sqlite3.connect(new)) as connection:  # only the file itself is renamed
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    remove_beside(new)
    names = (f"{path.name}.damaged{suffix}" for suffix in chain([""], (f"-{n}" for n in count(2))))
    aside = next(file for file in map(path.with_name, names) if not file.exists())
    log = path.with_name(f"{path.name}-wal")
    _keep(path, aside)
    if given_up:
        aside.with_name(f"{aside.name}.txt").write_text("".join(f"{one}\n" for one in given_up))
    if log.exists():
        _keep(log, aside.with_name(f"{aside.name}-wal"))
    status = (
        path.stat()
    )  # also if root has made the new file, the user of the service may use it as the old one
    shutil.copymode(path, new)
    if (status.st_uid, status.st_gid) != (new.stat().st_uid, new.stat().st_gid):
        os.chown(new, status.st_uid, status.st_gid)
    with new.open("rb+") as file:
        os.fsync(file.fileno())
    sync_directory(path.parent)
    replace_with(new, path)
    return aside


def _keep(file: Path, aside: Path) -> None:
    """Copy a file durably: it may soon be the only one that has what was damaged."""
    shutil.copy2(file, aside)
    with aside.open("rb+") as copied:
        os.fsync(copied.fileno())


def remove(file: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)
