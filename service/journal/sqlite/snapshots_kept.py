"""The snapshots of a model that stay in the file: the newest for its loads, older ones for its older versions."""

import sqlite3

from service.journal import thinning
from service.journal.sqlite.leavings import Leavings
from service.journal.sqlite.records import SnapshotRecord

_SNAPSHOTS = (
    "SELECT s.seq, coalesce(o.version, 0) FROM snapshot s"
    " LEFT JOIN outcome o ON o.model = s.model AND o.through = s.seq WHERE s.model = ? ORDER BY s.seq"
)
"""The version of a snapshot stands on its page of outcomes. Only a snapshot right before the first event that is kept
has no page any more; then it is the oldest."""


class SnapshotsKept:
    """Drops snapshots whenever one is saved."""

    def __init__(self, connection: sqlite3.Connection, leavings: Leavings, *, bytes_max: int) -> None:
        self._execute = connection.execute
        self._leavings = leavings
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
                    self._leavings.drop_parts(model, seq)
        self._leavings.add_parts(model, min(stay))

    def _parts_bytes(self, model: int, seq: int) -> int:
        question = "SELECT sum(length(body)) FROM snapshot_part WHERE model = ? AND seq = ?"
        (size,) = self._execute(question, (model, seq)).fetchone()
        return size or 0
