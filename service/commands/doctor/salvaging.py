"""Copies what can be read out of a damaged file into a new one, and accounts for what cannot."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from service.commands.doctor.copying import fold, remove
from service.commands.doctor.mending import mend_events
from service.commands.doctor.rows import PROVEN, TABLES, Copied, copy_rows, count_sound, insert
from service.journal.sqlite.acknowledged import has_log, read_note
from service.journal.sqlite.identity import identity_beside
from service.journal.sqlite.migrations import LARGEST_NUMBER
from service.journal.sqlite.replacing import remove_beside
from service.journal.sqlite.roots import read_roots
from service.journal.sqlite.schema import open_reader, open_writer
from service.journal.sqlite.sealing import SEAL_JOURNAL, journal_digest
from service.journal.sqlite.shape import Roots, count_pages, replace_first_page, roots_of_new, why_misshapen

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
    """Copy each row that is as it was written, and of the others those that the rest of the repair decides on.

    The frames of the log behind a damaged one are used, too: each row tells by its digest whether it was written so.
    """
    unfolded = new.with_name(f"{new.name}-old")
    new.touch(0o600)
    fold(path, unfolded)
    count_pages(unfolded)
    with closing(_open(unfolded)) as old:
        is_misshapen = why_misshapen(old) is not None
    if is_misshapen:
        _find_tables(unfolded, path)
    with closing(_open(unfolded)) as old, closing(open_writer(new, "power")) as copy:
        copy.execute("BEGIN")
        copied = {table.name: copy_rows(old, copy, table) for table in TABLES}
        mend_events(copy, copied["event"])
        _copy_identity(old, copy, path)
        salvaged = _account(copied, is_all_unknown=is_misshapen)
        _number(copy, path, salvaged)
        if not is_misshapen:  # else what does not fit may be of another table
            _copy_damaged(copy, copied, salvaged)
        copy.execute("COMMIT")
    remove(unfolded)
    return salvaged


def _find_tables(unfolded: Path, path: Path) -> None:
    """Give the file a first page that leads to its tables: they begin where a new journal has them, or as was noted.

    The note may be that of a file before this one. By the right page more rows fit their digests than by the other.
    """

    def rows_by(roots: Roots) -> int:
        remove_beside(unfolded)
        replace_first_page(unfolded, roots)
        with closing(_open(unfolded)) as old:
            return count_sound(old)

    noted = read_roots(path)
    layouts = [roots_of_new()] if noted is None else [roots_of_new(), noted]
    best = max(layouts, key=rows_by)
    remove_beside(unfolded)
    replace_first_page(unfolded, best)


def _open(file: Path) -> sqlite3.Connection:
    """A text that is none can be read, too: its row does not fit its digest then."""
    connection = open_reader(file)
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    return connection


def _account(copied: dict[str, Copied], *, is_all_unknown: bool) -> Salvaged:
    salvaged = Salvaged(models=copied["model"].missing)
    for table, words in WORDS.items():
        if copied[table].missing:
            salvaged.lost.append(f"{words} that cannot be read: {named(copied[table].missing)}")
        if not copied[table].is_accounted_for:
            salvaged.lost.append(f"{words} that cannot be read, nobody knows how many")
        if is_all_unknown and copied[table].damaged:
            salvaged.lost.append(f"{len(copied[table].damaged)} {words} that are damaged")
    if not copied["model"].is_accounted_for:
        salvaged.lost.append("models of which neither events nor snapshots are left, if there were any")
    if not copied["ended"].is_accounted_for:
        salvaged.lost.append("which models were deleted last: one of them may be back")
    is_certain = not is_all_unknown and all(one.is_accounted_for for one in copied.values())
    if not is_certain and not copied["event"].sound and not copied["snapshot"].sound:
        salvaged.refusal = "neither an event nor a snapshot can be read"
    if is_all_unknown and (astray := [name for name in PROVEN if _is_another(copied[name])]):
        salvaged.refusal = (
            f"its first page is damaged, and {', '.join(astray)} cannot be found without it:"
            " an older version has made this journal, and no note tells where its tables begin"
        )
    return salvaged


def _is_another(table: Copied) -> bool:
    """Whether what was read is not this table: there are rows, and none fits its digest."""
    return not table.sound and bool(table.damaged or table.missing)


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


def _copy_damaged(copy: sqlite3.Connection, copied: dict[str, Copied], salvaged: Salvaged) -> None:
    """Rows that do not fit their digests are left to the checks that follow, which know what they stand for.

    But an event counts only if its model and its number can be: else it would be nobody's, or use up all numbers.
    """
    lives = "SELECT id FROM model UNION SELECT model FROM event UNION SELECT model FROM snapshot"
    known = {life for (life,) in copy.execute(lives)}
    (numbered,) = copy.execute("SELECT numbered FROM journal").fetchone()
    lost = []
    for table, one in copied.items():
        for row in one.damaged:
            is_possible = table != "event" or (row[1] in known and row[0] <= numbered + 1)
            if not (is_possible and insert(copy, table, row)) and table in WORDS:
                lost.append(f"{WORDS[table][:-1]} {row[0]!r}, which is damaged")
    salvaged.lost += lost[:NAMED_MAX]
    if len(lost) > NAMED_MAX:
        salvaged.lost.append(f"{len(lost) - NAMED_MAX} more of these")
