"""Writes groups of records into the SQLite file, one transaction for each group."""

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from service.journal.sqlite.records import (
    MODEL_UNKNOWN,
    NEW,
    REPEATED,
    BirthRecord,
    DeathRecord,
    EventRecord,
    PendingRecord,
    Record,
    SnapshotRecord,
    SummariesRecord,
    Voids,
)

ALL = -1
"""No limit, for SQLite's LIMIT."""

LIVES_KNOWN_MAX = 100_000
SNAPSHOTS_KEPT = 2
TRIMMED_MIN = 64
"""Events that are forgotten with a commit, if there are any to forget; or twice as many as come with it, if that is
more, so that forgetting keeps pace. All that a snapshot sets free at once held everybody up for 5 to 25 ms."""

Result = tuple[int, int]
"""NEW, REPEATED or MODEL_UNKNOWN, and the sequence number of an event."""


class Writing:
    """Writes groups of records; keeps the next sequence number, and which models are known to live."""

    def __init__(
        self, connection: sqlite3.Connection, *, events_kept_max: int, expired_remembered_max: int
    ) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._events_kept_max = events_kept_max
        self._expired_remembered_max = expired_remembered_max
        (self._seq,) = self._execute(
            "SELECT max(numbered, coalesce((SELECT max(seq) FROM event), 0)) FROM journal"
        ).fetchone()
        self._lives: set[int] = set()
        self._to_trim: dict[int, int] = {}  # models, and up to where their events are to be forgotten

    def commit(self, group: list[Record]) -> list[Result]:
        """All of the group, durable, or none of it."""
        seq = self._seq
        try:
            self._execute("BEGIN IMMEDIATE")
            results = self._write(group)
            self._trim(max(TRIMMED_MIN, 2 * len(group)))
            self._execute("COMMIT")
        except BaseException:
            self._seq = seq
            self._lives.clear()
            self._to_trim.clear()  # the next snapshots tell again
            if self._connection.in_transaction:
                self._execute("ROLLBACK")
            raise
        return results

    def _write(self, group: list[Record]) -> list[Result]:
        results: list[Result] = [(NEW, 0)] * len(group)
        run: list[tuple[int, EventRecord | PendingRecord]] = []  # what can be written together
        for i, record in enumerate(group):
            if isinstance(record, EventRecord | PendingRecord):
                run.append((i, record))
                continue
            self._write_run(run, results)
            match record:
                case BirthRecord():
                    results[i] = self._create(record)
                case DeathRecord():
                    results[i] = self._delete(record)
                case SnapshotRecord():
                    self._save(record)
                case SummariesRecord():
                    self._summarise(record)
        self._write_run(run, results)
        return results

    def _write_run(self, run: list[tuple[int, EventRecord | PendingRecord]], results: list[Result]) -> None:
        """Write a run of events and predictions in few statements, then empty it."""
        events: list[tuple[int, int, str | None, bytes]] = []
        where: list[int] = []  # the place in the group of each of the events
        kept: list[tuple[str, int, int, bytes]] = []
        revealed: list[tuple[str | None]] = []
        voided: list[tuple[int, Voids]] = []
        for i, record in run:
            if not self._lives_on(record.life):
                results[i] = (MODEL_UNKNOWN, 0)
            elif isinstance(record, PendingRecord):
                if not (record.retried and self._stands_at(record.prediction_id)):
                    kept.append((record.prediction_id, record.life, record.at, record.body))
            else:
                self._seq += 1
                events.append((self._seq, record.life, record.prediction_id, record.body))
                where.append(i)
                if record.reveals:
                    revealed.append((record.prediction_id,))
                if record.voids is not None:
                    voided.append((record.life, record.voids))
        self._many("INSERT INTO pending VALUES", "(?,?,?,?)", kept, " ON CONFLICT DO NOTHING")
        new = self._many(
            "INSERT INTO event VALUES", "(?,?,?,?)", events, " ON CONFLICT (prediction_id) DO NOTHING"
        )
        for i, (seq, _, prediction_id, _) in zip(where, events, strict=True):
            stands = seq if new == len(events) or prediction_id is None else self._stands_at(prediction_id)
            results[i] = (NEW if stands == seq else REPEATED, stands)
        self._many("DELETE FROM pending WHERE prediction_id IN (", "?", revealed, ")")
        for life, voids in voided:
            self._void(life, voids)
        run.clear()

    def _many(self, head: str, row: str, rows: Sequence[Sequence[Any]], tail: str) -> int:
        """Run a statement over many rows, in chunks of a few fixed sizes so that it stays prepared."""
        changed = 0
        start = 0
        for size in (256, 64, 16, 4, 1):
            while len(rows) - start >= size:
                values: Iterable[Any] = chain.from_iterable(rows[start : start + size])
                changed += self._execute(head + ",".join([row] * size) + tail, tuple(values)).rowcount
                start += size
        return changed

    def _create(self, birth: BirthRecord) -> Result:
        if self._execute("SELECT 1 FROM model WHERE name = ?", (birth.model,)).fetchone():
            return REPEATED, 0
        life = self._seq + 1
        self._execute(
            "INSERT INTO model (id, name, created_at, updated_at, settings) VALUES (?,?,?,?,?)",
            (life, birth.model, birth.at, birth.at, birth.settings),
        )
        self._seq = life
        self._execute("INSERT INTO event VALUES (?,?,NULL,?)", (life, life, birth.body))
        return NEW, life

    def _delete(self, death: DeathRecord) -> Result:
        life = death.life
        if not self._lives_on(life):
            return MODEL_UNKNOWN, 0
        for table in ("event", "pending", "snapshot", "outcome"):
            self._execute(f"DELETE FROM {table} WHERE model = ?", (life,))
        self._execute("DELETE FROM model WHERE id = ?", (life,))
        self._lives.discard(life)
        self._seq += 1
        self._keep_numbering()
        return NEW, self._seq

    def _keep_numbering(self) -> None:
        """No number that was given is given again, also if its event goes."""
        self._execute("UPDATE journal SET numbered = ?", (self._seq,))

    def _save(self, snapshot: SnapshotRecord) -> None:
        model = snapshot.life
        if not self._lives_on(model):
            return
        self._execute("INSERT OR REPLACE INTO snapshot VALUES (?,?,?)", (model, snapshot.seq, snapshot.state))
        self._execute(
            "DELETE FROM snapshot WHERE model = ?1 AND seq NOT IN"
            " (SELECT seq FROM snapshot WHERE model = ?1 ORDER BY seq DESC LIMIT ?2)",
            (model, SNAPSHOTS_KEPT),
        )
        self._execute(
            "INSERT OR REPLACE INTO outcome VALUES (?,?,?,?)",
            (model, snapshot.seq, snapshot.version, snapshot.outcomes),
        )
        self._keep_numbering()
        self._plan_to_trim(model, snapshot.version - self._events_kept_max)

    def _plan_to_trim(self, model: int, version: int) -> None:
        """Let events go whose outcomes are on pages that end with this version or before it."""
        through = None
        # Only the pages that go and one more are looked at: to pass over a hundred took a millisecond.
        pages = "SELECT through, version FROM outcome WHERE model = ? ORDER BY through"
        for end, last_version in self._execute(pages, (model,)):
            if last_version > version:
                break
            through = end
        if through is None:
            return
        self._to_trim[model] = through
        (oldest,) = self._execute("SELECT min(seq) FROM snapshot WHERE model = ?", (model,)).fetchone()
        if through > oldest:  # a gap after it would look like damage while its page is there
            self._forget(model, through, ALL)

    def _summarise(self, summaries: SummariesRecord) -> None:
        self._connection.executemany(
            "UPDATE model SET updated_at = ?, revealed = ?, mistakes = ?, updates = ?, pending = ?, expired = ?"
            " WHERE id = ?",
            summaries.rows,
        )
        if summaries.through is not None:
            self._execute("UPDATE summarised SET through = max(through, ?)", (summaries.through,))

    def _trim(self, most: int) -> None:
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

    def _void(self, life: int, voids: Voids) -> None:
        """Predictions become void; the newest are remembered, to tell them from unknown ones.

        The summary is kept right, since the model need not be loaded and then nobody else would do it.
        """
        self._execute(
            "UPDATE model SET voided_through = max(voided_through, ?), updated_at = max(updated_at, ?),"
            " pending = max(0, pending - ?3), expired = expired + ?3 WHERE id = ?4",
            (voids.through, voids.at, voids.expired, life),
        )
        self._execute(
            "DELETE FROM pending WHERE model = ?1 AND at <="
            " (SELECT at FROM pending WHERE model = ?1 AND at <= ?2 ORDER BY at DESC LIMIT 1 OFFSET ?3)",
            (life, voids.through, self._expired_remembered_max),
        )

    def _lives_on(self, life: int) -> bool:
        """Whether the model of this life is there still."""
        if life not in self._lives:
            if not self._execute("SELECT 1 FROM model WHERE id = ?", (life,)).fetchone():
                return False
            if len(self._lives) >= LIVES_KNOWN_MAX:
                self._lives.clear()
            self._lives.add(life)
        return True

    def _stands_at(self, prediction_id: str) -> int:
        """Where the event with this id stands; 0 if there is none."""
        row = self._execute("SELECT seq FROM event WHERE prediction_id = ?", (prediction_id,)).fetchone()
        return row[0] if row else 0
