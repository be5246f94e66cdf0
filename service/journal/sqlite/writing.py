"""Writes groups of records into the SQLite file, one transaction for each group."""

import sqlite3
from typing import Any

from service.journal.sqlite.deferred_deletes import (
    REMOVED_MIN,
    DeferredDeletes,
    SnapshotsKept,
    trimmed_through,
)
from service.journal.sqlite.erasing import erase
from service.journal.sqlite.records import (
    MODEL_UNKNOWN,
    NEW,
    REPEATED,
    BirthRecord,
    DeathRecord,
    EraseRecord,
    EventRecord,
    ForgetRecord,
    PartRecord,
    PendingRecord,
    ProbeRecord,
    Record,
    SnapshotRecord,
    SummariesRecord,
    Voids,
)
from service.journal.sqlite.sealing import SEAL_MODEL, seal_event, seal_pending
from service.journal.thinning import goes_through, needed_for

NOT_WRITTEN = ("SQLITE_FULL", "SQLITE_BUSY", "SQLITE_IOERR_WRITE")
"""Failures of a COMMIT that leave nothing behind: its last page, which makes it count, was not written whole."""


class InDoubt(sqlite3.OperationalError):
    """All of a commit may be in the log, and not be seen before a crash."""


def end_transaction(connection: sqlite3.Connection) -> None:
    """End a transaction; InDoubt if it is unknown whether it was kept."""
    try:
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        if error.sqlite_errorname in NOT_WRITTEN:
            raise
        raise InDoubt(str(error)) from error


LIVES_KNOWN_MAX = 100_000
FORGOTTEN_MAX = 1_000  # expired predictions that are removed at a time
REMOVED_AT_ONCE = 512
"""Rows that are removed at a time while there is nothing else to write."""

Result = tuple[int, int]
"""NEW, REPEATED or MODEL_UNKNOWN, and the sequence number of an event."""


NewEvent = tuple[int, int, str | None, bytes]
"""An event to be written: its number, its model's life, its prediction id and its body."""


IN_RUNS = (EventRecord, PendingRecord)
"""Records that are written together if they follow one another."""


class Writing:
    """Writes groups of records; keeps the next sequence number, and the newest event of models in use."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        events_kept_max: int,
        expired_remembered_max: int,
        history_bytes_max: int = 0,
    ) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._execute_many = connection.executemany
        self._events_kept_max = events_kept_max
        self._expired_remembered_max = expired_remembered_max
        (self._seq,) = self._execute(
            "SELECT max(numbered, coalesce((SELECT max(seq) FROM event), 0)) FROM journal"
        ).fetchone()
        self._newest: dict[int, int] = {}  # models known to live, and the number of the newest event of each
        self.deferred = DeferredDeletes(connection)
        self._snapshots_kept = SnapshotsKept(connection, self.deferred, bytes_max=history_bytes_max)

    def commit(self, group: list[Record]) -> list[Result]:
        """All of the group, durable, or none of it; InDoubt if that is unknown.

        After an error the connection has to be closed, and this object is of no more use.
        """
        self._execute("BEGIN IMMEDIATE")
        results = self._write(group)
        self.deferred.remove(max(REMOVED_MIN, 2 * len(group)))
        end_transaction(self._connection)
        if len(self._newest) > LIVES_KNOWN_MAX:
            self._newest.clear()
        return results

    def delete_deferred(self) -> None:
        """Remove some of what is to go, while there is nothing else to write. Fails like `commit`."""
        self._execute("BEGIN IMMEDIATE")
        self.deferred.remove(REMOVED_AT_ONCE)
        end_transaction(self._connection)

    def _write(self, group: list[Record]) -> list[Result]:
        results: list[Result] = [(NEW, 0)] * len(group)
        run: list[EventRecord | PendingRecord] = []  # what can be written together
        for i, record in enumerate(group):
            if isinstance(record, IN_RUNS):
                run.append(record)
                continue
            self._write_run(run, results, i - len(run))
            match record:
                case BirthRecord():
                    results[i] = self._create(record)
                case DeathRecord():
                    results[i] = self._delete(record)
                case SnapshotRecord():
                    self._save(record)
                case PartRecord():
                    results[i] = self._save_part(record)
                case SummariesRecord():
                    self._summarise(record)
                case ForgetRecord():
                    self._forget_void(record.through)
                case EraseRecord():
                    erase(self._connection, record)
                case ProbeRecord():
                    self._seq += 1
                    self._keep_numbering()
        self._write_run(run, results, len(group) - len(run))
        return results

    def _write_run(self, run: list[EventRecord | PendingRecord], results: list[Result], first: int) -> None:
        """Write a run of events and predictions, then empty it. `first` is its place in the group."""
        events: list[NewEvent] = []
        where: list[int] = []  # the place in the group of each of the events
        kept: list[tuple[str, int, int, bytes]] = []
        revealed: list[tuple[str | None]] = []
        voided: list[tuple[int, Voids]] = []
        self.deferred.free(run)
        newest = self._newest
        for i, record in enumerate(run, first):
            life = record.life
            if life not in newest and not self._lives_on(life):
                results[i] = (MODEL_UNKNOWN, 0)
            elif isinstance(record, PendingRecord):
                prediction_id, at = record.prediction_id, record.at
                if not (record.retried and self._stands_at(prediction_id)):
                    kept.append((prediction_id, life, at, seal_pending(record.body, prediction_id, life, at)))
            else:
                self._seq += 1
                events.append((self._seq, life, record.prediction_id, record.body))
                where.append(i)
                if record.reveals:
                    revealed.append((record.prediction_id,))
                if record.voids is not None:
                    voided.append((life, record.voids))
        if kept:
            self._execute_many("INSERT INTO pending VALUES (?,?,?,?) ON CONFLICT DO NOTHING", kept)
        if events:
            for i, result in zip(where, self._insert(events), strict=True):
                results[i] = result
        if revealed:
            self._execute_many("DELETE FROM pending WHERE prediction_id = ?", revealed)
        for life, voids in voided:
            self._void(life, voids)
        run.clear()

    def _insert(self, events: list[NewEvent]) -> list[Result]:
        """Insert events, but for those whose ids were revealed before."""
        if self._insert_linked(events) == len(events):
            return [(NEW, event[0]) for event in events]
        stand_at = [(event, (event[2] and self._stands_at(event[2])) or event[0]) for event in events]
        new = [event for event, stands in stand_at if stands == event[0]]
        # Some name one as their predecessor that is not there, so that they have to be linked anew.
        self._execute("DELETE FROM event WHERE seq >= ?", (events[0][0],))
        for _, life, _, _ in events:
            self._newest.pop(life, None)
        for _, life, _, _ in new:
            self._lives_on(life)
        self._insert_linked(new)
        return [(NEW if stands == event[0] else REPEATED, stands) for event, stands in stand_at]

    def _insert_linked(self, events: list[NewEvent]) -> int:
        """Insert events, each with the one of its model before it as its `previous`; how many had new ids."""
        rows: list[tuple[Any, ...]] = []
        newest = self._newest
        for seq, life, prediction_id, body in events:
            previous = newest[life]
            newest[life] = seq
            sealed = seal_event(body, seq, life, prediction_id, previous)
            rows.append((seq, life, prediction_id, sealed, previous))
        insert = "INSERT INTO event VALUES (?,?,?,?,?) ON CONFLICT (prediction_id) DO NOTHING"
        return self._execute_many(insert, rows).rowcount

    def _create(self, birth: BirthRecord) -> Result:
        if self._execute("SELECT 1 FROM model WHERE name = ?", (birth.model,)).fetchone():
            return REPEATED, 0
        life = self._seq + 1
        self._execute(
            "INSERT INTO model (id, name, created_at, updated_at, settings, newest) VALUES (?,?,?,?,?,?)",
            (life, birth.model, birth.at, birth.at, birth.settings, life),
        )
        self._execute(f"{SEAL_MODEL} WHERE id = ?", (life,))
        self._seq = life
        self._newest[life] = 0
        self._insert_linked([(life, life, None, birth.body)])
        return NEW, life

    def _delete(self, death: DeathRecord) -> Result:
        life = death.life
        if not self._lives_on(life):
            return MODEL_UNKNOWN, 0
        self._execute("DELETE FROM model WHERE id = ?", (life,))
        self.deferred.add(life)
        self._newest.pop(life, None)
        self._seq += 1
        self._keep_numbering()
        return NEW, self._seq

    def _keep_numbering(self) -> None:
        """No number that was given is given again, also if its event goes."""
        self._execute("UPDATE journal SET numbered = ?1, digest = journal_digest(identity, ?1)", (self._seq,))

    def _save_part(self, part: PartRecord) -> Result:
        if not self._lives_on(part.life):
            return MODEL_UNKNOWN, 0
        row = (part.life, part.seq, part.part, part.body)
        self._execute("INSERT OR REPLACE INTO snapshot_part VALUES (?,?,?,?)", row)
        return NEW, 0

    def _save(self, snapshot: SnapshotRecord) -> None:
        model = snapshot.life
        if not self._lives_on(model):
            return
        self._execute("INSERT OR REPLACE INTO snapshot VALUES (?,?,?)", (model, snapshot.seq, snapshot.state))
        self._execute(
            "INSERT OR REPLACE INTO outcome VALUES (?,?,?,?)",
            (model, snapshot.seq, snapshot.version, snapshot.outcomes),
        )
        kept_max = self._events_kept_max
        needed = needed_for(snapshot.version, kept_max, snapshot.needed, snapshot.replaced)
        goes = goes_through(snapshot.version, kept_max, needed)
        through = trimmed_through(self._connection, model, goes)
        self._snapshots_kept.thin(snapshot, through, needed)
        self._execute("UPDATE model SET newest = max(newest, ?) WHERE id = ?", (snapshot.seq, model))
        self._execute(f"{SEAL_MODEL} WHERE id = ?", (model,))
        self._keep_numbering()
        if through:
            self.deferred.trim(model, through)

    def _summarise(self, summaries: SummariesRecord) -> None:
        """Write what lists show of models, and how far each has come, which a load relies on."""
        rows = [(*row, self._newest[row[0]]) for row in summaries.rows if self._lives_on(row[0])]
        self._execute_many(
            "UPDATE model SET updated_at = ?2, revealed = ?3, mistakes = ?4, updates = ?5, pending = ?6, expired = ?7,"
            " ewma_error_rate = ?8, newest = ?9, digest = model_digest("
            "  id, name, created_at, settings, voided_through, ?2, ?3, ?4, ?5, ?6, ?7, ?9, ?8) WHERE id = ?1",
            rows,
        )
        if summaries.through is not None:
            self._execute("UPDATE summarised SET through = max(through, ?)", (summaries.through,))

    def _void(self, life: int, voids: Voids) -> None:
        """Predictions become void; the newest are remembered, to tell them from unknown ones.

        The summary is kept right, since the model need not be loaded and then no other code does it.
        """
        self._execute(
            "UPDATE model SET voided_through = max(voided_through, ?), updated_at = max(updated_at, ?),"
            " pending = max(0, pending - ?3), expired = expired + ?3 WHERE id = ?4",
            (voids.through, voids.at, voids.expired, life),
        )
        self._execute(f"{SEAL_MODEL} WHERE id = ?", (life,))
        self._execute(
            "DELETE FROM pending WHERE model = ?1 AND at <="
            " (SELECT at FROM pending WHERE model = ?1 AND at <= ?2 ORDER BY at DESC LIMIT 1 OFFSET ?3)",
            (life, voids.through, self._expired_remembered_max),
        )

    def _forget_void(self, through: int) -> None:
        self._execute(
            "DELETE FROM pending WHERE prediction_id IN (SELECT prediction_id FROM pending p JOIN model m"
            " ON m.id = p.model AND p.at <= m.voided_through WHERE p.at <= ? ORDER BY p.at LIMIT ?)",
            (through, FORGOTTEN_MAX),
        )

    def _lives_on(self, life: int) -> bool:
        """Whether the model of this life is there still."""
        if life not in self._newest:
            row = self._execute(
                "SELECT max(newest, coalesce((SELECT max(seq) FROM event WHERE model = ?1), 0))"
                " FROM model WHERE id = ?1",
                (life,),
            ).fetchone()
            if row is None:
                return False
            (self._newest[life],) = row
        return True

    def _stands_at(self, prediction_id: str) -> int:
        """Where the event with this id stands; 0 if there is none."""
        row = self._execute("SELECT seq FROM event WHERE prediction_id = ?", (prediction_id,)).fetchone()
        return row[0] if row else 0
