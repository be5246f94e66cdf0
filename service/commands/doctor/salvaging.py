"""Copies what can be read out of a damaged file into a new one, and lists what cannot."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from service.commands.doctor.rows import TABLES, Copied, copy_rows
from service.journal.sqlite.acknowledged import has_log, read_note
from service.journal.sqlite.identity import identity_beside
from service.journal.sqlite.log_file import why_log_damaged
from service.journal.sqlite.migrations import LARGEST_NUMBER
from service.journal.sqlite.schema import open_reader, open_writer
from service.journal.sqlite.sealing import SEAL_JOURNAL, journal_digest

NAMED_MAX = 20
WORDS = {"event": "events", "pending": "waiting predictions"}
"""Whether models, snapshots and outcomes can be made anew is told by looking at the copy."""


@dataclass(slots=True)
class Salvaged:
    """What a copy does not have."""

    lost: list[str] = field(default_factory=list)
    """In words."""
    models: set[int] = field(default_factory=set)
    """Models whose lines are missing: they may be made anew."""
    refusal: str | None = None
    """Why the copy must not take the place of the journal, unless somebody wants just that."""


def salvage(path: Path, new: Path) -> Salvaged:
    """Copy each row that is as it was written, with what SQLite reads of the log."""
    salvaged = Salvaged()
    if (why := why_log_damaged(path, "power")) is not None:
        salvaged.lost.append(f"what the log has from there on: {why}")
        salvaged.refusal = why
    new.touch(0o600)
    with closing(open_reader(path)) as old, closing(open_writer(new, "power")) as copy:
        old.text_factory = lambda text: text.decode("utf-8", "replace")  # it does not fit its digest then
        old.execute(
            "PRAGMA writable_schema=ON"
        )  # lets SQLite read a file that is shorter than it ought to be
        copy.execute("BEGIN")
        copied = {table.name: copy_rows(old, copy, table) for table in TABLES}
        _copy_identity(old, copy, path)
        _account(copied, salvaged)
        _number(copy, path, salvaged)
        copy.execute("COMMIT")
    return salvaged


def _account(copied: dict[str, Copied], salvaged: Salvaged) -> None:
    salvaged.models = copied["model"].missing | copied["model"].damaged
    for table, words in WORDS.items():
        if lost := copied[table].missing | copied[table].damaged:
            salvaged.lost.append(f"{words} that cannot be read: {named(lost)}")
        if not copied[table].is_accounted_for:
            salvaged.lost.append(f"{words} that cannot be read, nobody knows how many")
    if not copied["model"].is_accounted_for:
        salvaged.lost.append("models of which neither events nor snapshots are left, if there were any")
    if not copied["ended"].is_accounted_for:
        salvaged.lost.append("which models were deleted last: one of them may be back")
    is_certain = all(one.is_accounted_for for one in copied.values())
    if not is_certain and not copied["event"].sound and not copied["snapshot"].sound:
        salvaged.refusal = "neither an event nor a snapshot can be read"


def named(keys: Iterable[object]) -> str:
    """
    >>> named({12, 7}), named(["w11"])
    ('7, 12', "'w11'")
    """
    ordered = sorted(keys, key=lambda key: (str(type(key)), key))
    names = ", ".join(map(repr, ordered[:NAMED_MAX]))
    return names + (f" and {len(ordered) - NAMED_MAX} more" if len(ordered) > NAMED_MAX else "")


def _copy_identity(old: sqlite3.Connection, copy: sqlite3.Connection, path: Path) -> None:
    """If the row does not fit its digest, the directory tells which journal this is."""
    try:
        row = old.execute("SELECT identity, numbered, digest FROM journal").fetchone()
    except sqlite3.Error:
        row = None
    if row is None or row[2] != journal_digest(*row[:2]):
        row = (identity_beside(path) or "", 0, b"")
    copy.execute("UPDATE journal SET identity = ?, numbered = ?, digest = ?", row)


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
