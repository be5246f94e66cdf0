"""What one group commit does to the SQLite file. Runs in the writer thread, one transaction a group."""

import sqlite3
from asyncio import Future
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from service.errors import UnknownModel
from service.events import (
    AnyEvent,
    ModelCreated,
    ModelDeleted,
    ModelImported,
    ModelReset,
    Prediction,
    PredictionsExpired,
    RoundRevealed,
)
from service.journal.codec import encode
from service.journal.protocol import Appended, Snapshot, Summary

MODEL_IDS_MAX = 100_000
SNAPSHOTS_KEPT = 2


@dataclass(slots=True)
class Append:
    event: AnyEvent
    body: bytes
    future: Future[Appended]


@dataclass(slots=True)
class Keep:
    """A prediction to keep; `retried` after a commit that failed, when it may have been revealed since."""

    prediction: Prediction
    body: bytes
    future: Future[Appended] | None
    retried: bool = False


@dataclass(slots=True)
class Save:
    snapshot: Snapshot


@dataclass(slots=True)
class Barrier:
    """Done when everything queued before it is."""

    future: Future[Appended]


@dataclass(slots=True)
class Summarise:
    summaries: list[Summary]
    through: int | None
    future: Future[Appended]


Item = Append | Keep | Save | Barrier | Summarise
Result = Appended | UnknownModel | None


class Writing:
    """Writes groups of items; keeps the next sequence number and the models' numbers."""

    def __init__(
        self, connection: sqlite3.Connection, *, events_kept_max: int, expired_remembered_max: int
    ) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._events_kept_max = events_kept_max
        self._expired_remembered_max = expired_remembered_max
        (self.seq,) = self._execute("SELECT coalesce(max(seq), 0) FROM event").fetchone()
        self._ids: dict[str, int] = {}

    def commit(self, group: list[Item]) -> list[Result]:
        """All of the group, durable, or none of it."""
        seq = self.seq
        try:
            self._execute("BEGIN IMMEDIATE")
            results = self._write(group)
            self._execute("COMMIT")
        except BaseException:
            self.seq = seq
            self._ids.clear()
            if self._connection.in_transaction:
                self._execute("ROLLBACK")
            raise
        return results

    def _write(self, group: list[Item]) -> list[Result]:
        results: list[Result] = [None] * len(group)
        run: list[tuple[int, Append | Keep]] = []  # what can be written together
        for i, item in enumerate(group):
            if isinstance(item, Save):
                self._write_run(run, results)
                self._save(item.snapshot)
            elif isinstance(item, Summarise):
                self._summarise(item.summaries, item.through)
            elif isinstance(item, Append) and isinstance(
                item.event, ModelCreated | ModelImported | ModelDeleted
            ):
                self._write_run(run, results)
                results[i] = self._create_or_delete(item.event, item.body)
            elif not isinstance(item, Barrier):
                run.append((i, item))
        self._write_run(run, results)
        return results

    def _write_run(self, run: list[tuple[int, Append | Keep]], results: list[Result]) -> None:
        """Write a run of events and predictions in few statements, then empty it.

        Few, because each statement lets go of the interpreter lock and has to win it back from a busy loop.
        """
        events: list[tuple[int, int, str | None, bytes]] = []
        where: list[int] = []  # the place in the group of each of the events
        kept: list[tuple[str, int, int, bytes]] = []
        for i, item in run:
            model = self._id((item.event if isinstance(item, Append) else item.prediction).model)
            if model is None:
                results[i] = UnknownModel("the model was deleted")
            elif isinstance(item, Append):
                self.seq += 1
                events.append((self.seq, model, getattr(item.event, "prediction_id", None), item.body))
                where.append(i)
            elif not (item.retried and self._revealed(item.prediction.prediction_id)):
                kept.append((item.prediction.prediction_id, model, item.prediction.at, item.body))
        self._many("INSERT INTO pending VALUES", "(?,?,?,?)", kept, " ON CONFLICT DO NOTHING")
        new = self._many("INSERT INTO event VALUES", "(?,?,?,?)", events, " ON CONFLICT DO NOTHING")
        if new == len(events):
            for i, (seq, *_) in zip(where, events, strict=True):
                results[i] = Appended(seq, is_new=True)
        else:
            for i, (seq, _, prediction_id, _) in zip(where, events, strict=True):
                stands = seq if prediction_id is None else self._stands_at(prediction_id)
                results[i] = Appended(stands, is_new=stands == seq)
        revealed = [(item.event.prediction_id,) for _, item in run
                    if isinstance(item, Append) and isinstance(item.event, RoundRevealed)]  # fmt: skip
        self._many("DELETE FROM pending WHERE prediction_id IN (", "?", revealed, ")")
        for _, item in run:
            if isinstance(item, Append) and isinstance(item.event, PredictionsExpired):
                self._void(item.event.model, item.event.through)
            elif isinstance(item, Append) and isinstance(item.event, ModelReset):
                self._void(item.event.model, item.event.at)
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

    def _create_or_delete(self, event: ModelCreated | ModelImported | ModelDeleted, body: bytes) -> Result:
        model = self._id(event.model)
        if not isinstance(event, ModelDeleted):
            if model is not None:
                return Appended(0, is_new=False)
            cursor = self._execute(
                "INSERT INTO model (name, created_at, updated_at, settings) VALUES (?,?,?,?)",
                (event.model, event.at, event.at, encode(event.settings)),
            )
            model = cursor.lastrowid
        elif model is None:
            return UnknownModel("the model was deleted")
        else:
            for table in ("event", "pending", "snapshot", "outcome"):
                self._execute(f"DELETE FROM {table} WHERE model = ?", (model,))
            self._execute("DELETE FROM model WHERE id = ?", (model,))
            self._ids.clear()
        self.seq += 1
        self._execute("INSERT INTO event VALUES (?,?,NULL,?)", (self.seq, model, body))
        return Appended(self.seq, is_new=True)

    def _save(self, snapshot: Snapshot) -> None:
        model = self._id(snapshot.model)
        if model is None:
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
        self._trim(model, snapshot.version)

    def _summarise(self, summaries: list[Summary], through: int | None) -> None:
        self._connection.executemany(
            "UPDATE model SET updated_at = ?, revealed = ?, mistakes = ?, updates = ?, pending = ?, expired = ?"
            " WHERE name = ?",
            [
                (s.updated_at, s.revealed, s.mistakes, s.updates, s.pending, s.expired, s.model)
                for s in summaries
            ],
        )
        if through is not None:
            self._execute("UPDATE summarised SET through = ?", (through,))

    def _trim(self, model: int, version: int) -> None:
        """Forget the events that came too long ago, in the steps in which snapshots covered them."""
        (through,) = self._execute(
            "SELECT max(through) FROM outcome WHERE model = ? AND version <= ?",
            (model, version - self._events_kept_max),
        ).fetchone()
        if through is not None:
            self._execute("DELETE FROM event WHERE model = ? AND seq <= ?", (model, through))
            self._execute("DELETE FROM outcome WHERE model = ? AND through <= ?", (model, through))

    def _void(self, name: str, through: int) -> None:
        """Predictions up to `through` are void; the newest are remembered, to tell them from unknown ones."""
        model = self._id(name)
        self._execute(
            "UPDATE model SET voided_through = max(voided_through, ?) WHERE id = ?", (through, model)
        )
        self._execute(
            "DELETE FROM pending WHERE model = ?1 AND at <="
            " (SELECT at FROM pending WHERE model = ?1 AND at <= ?2 ORDER BY at DESC LIMIT 1 OFFSET ?3)",
            (model, through, self._expired_remembered_max),
        )

    def _id(self, name: str) -> int | None:
        found = self._ids.get(name)
        if found is None:
            row = self._execute("SELECT id FROM model WHERE name = ?", (name,)).fetchone()
            if row is None:
                return None
            if len(self._ids) >= MODEL_IDS_MAX:
                self._ids.clear()
            found = self._ids[name] = row[0]
        return found

    def _revealed(self, prediction_id: str) -> bool:
        return self._stands_at(prediction_id) != 0

    def _stands_at(self, prediction_id: str) -> int:
        row = self._execute("SELECT seq FROM event WHERE prediction_id = ?", (prediction_id,)).fetchone()
        return row[0] if row else 0
