"""Rows that go from the file in slices, since commits wait for one another.

`DeferredDeletes` has what deleted models and old snapshots have left. The table `ended` has the lives of these models,
from the commit that deletes them until nothing of them is left. So a kill in between leaves nothing behind for good,
and nothing of them counts meanwhile: whoever reads looks for the model. `SnapshotsKept` drops snapshots whenever one is
saved, and `Trimming` deletes events that are no longer kept, so that no commit has much more to do than another.
"""

import sqlite3
from collections.abc import Iterable

from service.journal import thinning
from service.journal.sqlite.records import EventRecord, PendingRecord, SnapshotRecord

PART_WEIGHT = 32
"""How many small rows weigh as much as a part of a large snapshot: about its pages."""

_SLICES = (
    ("DELETE FROM pending WHERE prediction_id IN (SELECT prediction_id FROM pending WHERE model = ? LIMIT ?)", 1),
    ("DELETE FROM event WHERE seq IN (SELECT seq FROM event WHERE model = ? LIMIT ?)", 1),
    ("DELETE FROM outcome WHERE model = ?1 AND through IN"
     " (SELECT through FROM outcome WHERE model = ?1 LIMIT ?2)", 8),
    ("DELETE FROM snapshot WHERE rowid IN (SELECT rowid FROM snapshot WHERE model = ? LIMIT ?)", PART_WEIGHT),
    ("DELETE FROM snapshot_part WHERE rowid IN"
     " (SELECT rowid FROM snapshot_part WHERE model = ? LIMIT ?)", PART_WEIGHT),
)  # fmt: skip
"""For each table, the statement that removes some rows of a life, and how much each of them weighs beside an event."""

_PARTS_BELOW = (
    "DELETE FROM snapshot_part WHERE rowid IN"
    " (SELECT rowid FROM snapshot_part WHERE model = ? AND seq < ? LIMIT ?)"
)

_PARTS_OF_ONE = (
    "DELETE FROM snapshot_part WHERE rowid IN"
    " (SELECT rowid FROM snapshot_part WHERE model = ? AND seq = ? LIMIT ?)"
)


class DeferredDeletes:
    """The lives that have ended, and their rows."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute
        self._lives = [life for (life,) in self._execute("SELECT life FROM ended ORDER BY life")]
        self._parts: dict[int, int] = {}  # models, and up to where the parts of their snapshots are to go
        self._dropped: list[
            tuple[int, int]
        ] = []  # models, and single snapshots of theirs whose parts are to go

    def __bool__(self) -> bool:
        """Whether there is anything left to remove."""
        return bool(self._lives or self._parts or self._dropped)

    def add(self, life: int) -> None:
        """The life has ended; whatever it has is to go."""
        self._execute("INSERT INTO ended VALUES (?)", (life,))
        self._lives.append(life)

    def add_parts(self, life: int, below: int) -> None:
        """Parts of the model's snapshots before `below` are to go; after a kill the next snapshot tells again."""
        question = "SELECT 1 FROM snapshot_part WHERE model = ? AND seq < ? LIMIT 1"
        if self._execute(question, (life, below)).fetchone():
            self._parts[life] = below

    def drop_parts(self, life: int, seq: int) -> None:
        """Parts of one snapshot between others are to go; after a kill they stay until those before it go."""
        self._dropped.append((life, seq))

    def free(self, records: Iterable[EventRecord | PendingRecord]) -> None:
        """Remove what stands under the ids of these now, since others use them."""
        for record in records if self._lives else ():
            for table in ("event", "pending") if record.prediction_id is not None else ():
                self._execute(
                    f"DELETE FROM {table} WHERE prediction_id = ? AND model IN (SELECT life FROM ended)",
                    (record.prediction_id,),
                )

    def remove(self, most: int) -> None:
        """Remove about so many rows, or fewer large ones; at least one."""
        while self._dropped and most > 0:
            rows = max(1, most // PART_WEIGHT)
            removed = self._execute(_PARTS_OF_ONE, (*self._dropped[0], rows)).rowcount
            most -= removed * PART_WEIGHT
            if removed < rows:
                del self._dropped[0]
        while self._parts and most > 0:
            life, below = next(iter(self._parts.items()))
            rows = max(1, most // PART_WEIGHT)
            removed = self._execute(_PARTS_BELOW, (life, below, rows)).rowcount
            most -= removed * PART_WEIGHT
            if removed < rows:
                del self._parts[life]
        while self._lives and most > 0:
            life = self._lives[0]
            for statement, weight in _SLICES:
                rows = removed = 0
                while removed == rows:  # then there may be more of them
                    if most <= 0:
                        return
                    rows = max(1, most // weight)
                    removed = self._execute(statement, (life, rows)).rowcount
                    most -= removed * weight
            self._execute("DELETE FROM ended WHERE life = ?", (life,))
            del self._lives[0]


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


ALL = -1
"""No limit, for SQLite's LIMIT."""

TRIMMED_MIN = 64
"""Events that are forgotten with a commit, if there are any to forget; or twice as many as come with it, if that is
more, so that forgetting keeps pace. All that a snapshot sets free at once held everybody up for 5 to 25 ms."""


class Trimming:
    """Which events are to be forgotten."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute
        self._to_trim: dict[int, int] = {}  # models, and up to where their events are to be forgotten

    def drop(self, model: int) -> None:
        """The model was deleted, and all its events go another way."""
        self._to_trim.pop(model, None)

    def through(self, model: int, version: int) -> int:
        """The last event whose outcome is on a page that ends with this version or before it; 0 if there is none."""
        through = 0
        # Only the pages that go and one more are looked at: to pass over a hundred took a millisecond.
        pages = "SELECT through, version FROM outcome WHERE model = ? ORDER BY through"
        for end, last_version in self._execute(pages, (model,)):
            if last_version > version:
                break
            through = end
        return through

    def plan(self, model: int, through: int) -> None:
        """Let events go up to this one."""
        self._to_trim[model] = through
        (oldest,) = self._execute("SELECT min(seq) FROM snapshot WHERE model = ?", (model,)).fetchone()
        if through > oldest:  # a gap after it would look like damage while its page is there
            self._forget(model, through, ALL)

    def trim(self, most: int) -> None:
        """Forget some of the events that came too long ago."""
        while self._to_trim and most > 0:
            model, through = next(iter(self._to_trim.items()))
            most -= max(1, self._forget(model, through, most))

    def _forget(self, model: int, through: int, most: int) -> int:
        """Forget the oldest events, and when they have all gone the pages of their outcomes; how many went."""
        forgotten = self._execute(
            "DELETE FROM event WHERE seq IN"
            " (SELECT seq FROM event WHERE model = ? AND seq <= ? ORDER BY seq LIMIT ?)",
            (model, through, most),
        ).rowcount
        if forgotten != most:
            self._execute("DELETE FROM outcome WHERE model = ? AND through <= ?", (model, through))
            del self._to_trim[model]
        return forgotten
