"""What deleted models and old snapshots have left in the file. It is removed in slices: commits wait for one another.

The table `ended` has the lives of these models, from the commit that deletes them until nothing of them is left. So a
kill in between leaves nothing behind for good, and nothing of them counts meanwhile: whoever reads looks for the model.
"""

import sqlite3
from collections.abc import Iterable

from service.journal.sqlite.records import EventRecord, PendingRecord

ENDED_TABLE = "CREATE TABLE ended (life INTEGER PRIMARY KEY);"

PARTS_TABLE = """CREATE TABLE snapshot_part (
    model INTEGER NOT NULL, seq INTEGER NOT NULL, part INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (model, seq, part)
);"""
"""`state` in the row of such a snapshot is empty."""

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


class Leavings:
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
