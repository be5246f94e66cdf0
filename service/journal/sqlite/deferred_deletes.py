"""Rows that go from the file in slices, since commits wait for one another.

Each commit removes some of what deleted models, old snapshots and trimmed events have left, so that none has much more
to do than another; the rest goes while there is nothing to write. The table `ended` has the lives of deleted models,
from the commit that deletes them until nothing of them is left. So a kill in between leaves nothing behind for good,
and nothing of them counts meanwhile: readers look for the model first. What is left of old snapshots and events is
found again with the model's next snapshot.
"""

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from service.journal import thinning
from service.journal.sqlite.records import EventRecord, PendingRecord, SnapshotRecord

REMOVED_MIN = 64
"""Rows that go with a commit, if there are any to remove; or twice as many as come with it, if that is more, so that
removing keeps pace. All that a snapshot sets free at once held everybody up for 5 to 25 ms."""

PART_WEIGHT = 32
"""How many small rows weigh as much as a part of a large snapshot: about its pages."""


class Step(NamedTuple):
    """Rows to remove: a statement, its values but the last, which is how many rows at most, and how much each of them
    weighs beside an event."""

    statement: str
    values: tuple[int, ...]
    weight: int = 1


def _rows_of(table: str, key: str, where: str, values: tuple[int, ...], weight: int = 1) -> Step:
    chosen = f"SELECT {key} FROM {table} WHERE {where} LIMIT ?"
    return Step(f"DELETE FROM {table} WHERE ({key}) IN ({chosen})", values, weight)


def _all_of(life: int) -> list[Step]:
    return [
        _rows_of("pending", "prediction_id", "model = ?", (life,)),
        _rows_of("event", "seq", "model = ?", (life,)),
        _rows_of("outcome", "model, through", "model = ?", (life,), 8),
        _rows_of("snapshot", "rowid", "model = ?", (life,), PART_WEIGHT),
        _rows_of("snapshot_part", "rowid", "model = ?", (life,), PART_WEIGHT),
        Step("DELETE FROM ended WHERE life = ? AND ?", (life,)),
    ]


class DeferredDeletes:
    """What is to be removed, the oldest first."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute
        self._due: dict[tuple[str | int, ...], list[Step]] = {}
        self._ended: set[int] = set()
        """Lives of deleted models of which something may be left."""
        for (life,) in self._execute("SELECT life FROM ended ORDER BY life").fetchall():
            self._end(life)

    def __bool__(self) -> bool:
        """Whether there is anything left to remove."""
        return bool(self._due)

    def add(self, life: int) -> None:
        """The life has ended; whatever it has is to go."""
        self._execute("INSERT INTO ended VALUES (?)", (life,))
        self._end(life)

    def _end(self, life: int) -> None:
        self._ended.add(life)
        self._due["life", life] = _all_of(life)

    def add_parts(self, life: int, below: int) -> None:
        """Parts of the model's snapshots before `below` are to go; after a kill the next snapshot tells again."""
        question = "SELECT 1 FROM snapshot_part WHERE model = ? AND seq < ? LIMIT 1"
        if self._execute(question, (life, below)).fetchone():
            where = "model = ? AND seq < ?"
            self._due["parts", life] = [_rows_of("snapshot_part", "rowid", where, (life, below), PART_WEIGHT)]

    def drop_parts(self, life: int, seq: int) -> None:
        """Parts of one snapshot between others are to go; after a kill they stay until those before it go."""
        where = "model = ? AND seq = ?"
        self._due["parts", life, seq] = [_rows_of("snapshot_part", "rowid", where, (life, seq), PART_WEIGHT)]

    def trim(self, life: int, through: int) -> None:
        """Events up to this one are to go, the oldest first, and then the pages of their outcomes."""
        steps = [
            _rows_of("event", "seq", "model = ? AND seq <= ? ORDER BY seq", (life, through)),
            Step("DELETE FROM outcome WHERE model = ? AND through <= ? AND ?", (life, through)),
        ]
        (oldest,) = self._execute("SELECT min(seq) FROM snapshot WHERE model = ?", (life,)).fetchone()
        if through <= oldest:
            self._due["events", life] = steps
            return
        for (
            statement,
            values,
            _,
        ) in steps:  # at once: a gap after it would look like damage while its page is there
            self._execute(statement, (*values, ALL))
        self._due.pop(("events", life), None)

    def free(self, records: Iterable[EventRecord | PendingRecord]) -> None:
        """Remove what stands under the ids of these now, since others use them."""
        for record in records if self._ended else ():
            for table in ("event", "pending") if record.prediction_id is not None else ():
                self._execute(
                    f"DELETE FROM {table} WHERE prediction_id = ? AND model IN (SELECT life FROM ended)",
                    (record.prediction_id,),
                )

    def remove(self, most: int) -> None:
        """Remove about so many rows, or fewer large ones; at least one."""
        while self._due and most > 0:
            key, steps = next(iter(self._due.items()))
            statement, values, weight = steps[0]
            rows = max(1, most // weight)
            removed = self._execute(statement, (*values, rows)).rowcount
            most -= removed * weight
            if removed < rows:
                del steps[0]
            if not steps:
                del self._due[key]
                if key[0] == "life":
                    self._ended.discard(int(key[1]))


ALL = -1
"""No limit, for SQLite's LIMIT."""


def trimmed_through(connection: sqlite3.Connection, life: int, version: int) -> int:
    """The last event whose outcome is on a page that ends with this version or before it; 0 if there is none."""
    through = 0
    # Only the pages that go and one more are looked at: to pass over a hundred took a millisecond.
    pages = "SELECT through, version FROM outcome WHERE model = ? ORDER BY through"
    for end, last_version in connection.execute(pages, (life,)):
        if last_version > version:
            break
        through = end
    return through


_SNAPSHOTS = (
    "SELECT s.seq, coalesce(o.version, 0) FROM snapshot s"
    " LEFT JOIN outcome o ON o.model = s.model AND o.through = s.seq WHERE s.model = ? ORDER BY s.seq"
)
"""The version of a snapshot stands on its page of outcomes. Only a snapshot right before the first event that is kept
has no page any more; then it is the oldest."""


class SnapshotsKept:
    """Drops snapshots whenever one is saved."""

    def __init__(self, connection: sqlite3.Connection, deferred: DeferredDeletes, *, bytes_max: int) -> None:
        self._execute = connection.execute
        self._deferred = deferred
        self._bytes_max = bytes_max

    def thin(self, newest: SnapshotRecord, trimmed_through: int, needed: int | None) -> None:
        """Keep what `thinning` says, and none to which events are missing up to the next: those go up to
        `trimmed_through`."""
        model = newest.life
        rows = self._execute(_SNAPSHOTS, (model,)).fetchall()
        size = len(newest.state) or self._parts_bytes(model, newest.seq)
        usable = [row for row in rows[: -thinning.NEWEST_KEPT] if row[0] >= trimmed_through]
        usable += rows[-thinning.NEWEST_KEPT :]
        room = thinning.room_for(size, self._bytes_max)
        places = thinning.kept([version for _, version in usable], room, needed)
        stay = {usable[place][0] for place in places}
        for seq, _ in rows:
            if seq not in stay:
                self._execute("DELETE FROM snapshot WHERE model = ? AND seq = ?", (model, seq))
                if seq > min(stay):
                    self._deferred.drop_parts(model, seq)
        self._deferred.add_parts(model, min(stay))

    def _parts_bytes(self, model: int, seq: int) -> int:
        question = "SELECT sum(length(body)) FROM snapshot_part WHERE model = ? AND seq = ?"
        (size,) = self._execute(question, (model, seq)).fetchone()
        return size or 0
