"""Events of which one column has changed: the rest of the file tells what it may have been, and a digest proves it."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from itertools import chain
from typing import Any

import msgspec

from service.commands.doctor.rows import DAMAGED_TRIED_MAX, Copied, Row, insert
from service.events import AnyEvent
from service.journal.codec import decode_event
from service.journal.seals import SEAL_BYTES, Damaged
from service.journal.sqlite.sealing import unseal_event

NUMBERS_TRIED_MAX = 1_000
"""Of numbers that an index has and no event. If more are missing, a part of the file is gone, and not a column."""


def mended(
    row: Row, seqs: Iterable[int] = (), lives: Iterable[int] = (), previous: Iterable[int] = ()
) -> Row | None:
    """The row of an event as it was written; None if nothing that was tried fits its digest.

    Each column is tried with the values that the other rows make likely; the id is in the body, too.
    """
    seq, life, prediction_id, body, before = row
    event = _event(body)
    if event is None:
        return None
    tried = chain(
        [(seq, life, getattr(event, "prediction_id", None) or None, body, before)],
        ((one, life, prediction_id, body, before) for one in seqs),
        ((seq, one, prediction_id, body, before) for one in lives),
        ((seq, life, prediction_id, body, one) for one in previous),
    )
    return next(filter(_fits, tried), None)


def mend_events(copy: sqlite3.Connection, events: Copied) -> None:
    """Copy the damaged events that can be mended; what is left of them stays damaged."""
    lives, awaited = _lives(copy), _awaited(copy, events)
    unfound = events.unfound if len(events.unfound) <= NUMBERS_TRIED_MAX else set()
    for row in list(events.damaged)[:DAMAGED_TRIED_MAX]:
        seq, life, _, body, _ = row
        event = _event(body)
        named = lives[event.model] if event is not None else ()
        before = _before(copy, seq, life)
        found = mended(row, {*unfound, *awaited[life]}, named, before)
        if found is not None and (insert(copy, "event", found) or found[0] in events.sound):
            del events.damaged[row]
            events.sound.add(found[0])
            events.missing.discard(found[0])


def _event(body: object) -> AnyEvent | None:
    try:
        return decode_event(body[:-SEAL_BYTES]) if isinstance(body, bytes) else None
    except (msgspec.MsgspecError, ValueError):
        return None


def _fits(row: Row) -> bool:
    seq, life, prediction_id, body, previous = row
    try:
        unseal_event(body, seq, life, prediction_id, previous)
    except Damaged:
        return False
    return True


def _lives(copy: sqlite3.Connection) -> dict[str, list[int]]:
    """The models by their names."""
    lives: dict[str, list[int]] = defaultdict(list)
    for life, name in copy.execute("SELECT id, name FROM model"):
        lives[name].append(life)
    return lives


def _awaited(copy: sqlite3.Connection, events: Copied) -> dict[Any, set[int]]:
    """By model, the numbers of events that others of it follow, and that are not there."""
    awaited: dict[Any, set[int]] = defaultdict(set)
    for life, previous in copy.execute(
        "SELECT model, previous FROM event WHERE previous NOT IN (SELECT seq FROM event)"
    ):
        awaited[life].add(previous)
    for _, life, _, _, previous in events.damaged:
        awaited[life].add(previous)
    return awaited


def _before(copy: sqlite3.Connection, seq: object, life: object) -> list[int]:
    """The number of the event of a model before this one."""
    select = "SELECT max(seq) FROM event WHERE model = ? AND seq < ?"
    return [before or 0 for (before,) in copy.execute(select, (life, seq))]
