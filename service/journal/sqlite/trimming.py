"""Events that are no longer kept are forgotten some at a time, so that no commit has much more to do than another."""

import sqlite3

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
