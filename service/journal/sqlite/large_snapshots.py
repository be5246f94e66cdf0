"""Snapshots that are too large for one commit go to the file in parts, a part with a commit, and nobody waits for more.

The row in the table `snapshot` comes last. Until then there is none, and loads begin with the one before.
"""

import asyncio
import logging
import sqlite3
from asyncio import Future, Task
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from service.errors import NovikoffError, UnknownModel
from service.journal.codec import StateBytes, cut
from service.journal.protocol import Appended, Snapshot
from service.journal.seals import Damaged
from service.journal.sqlite.records import PartRecord, Record, SnapshotRecord
from service.journal.sqlite.sealing import (
    seal_of_snapshot,
    seal_outcomes,
    seal_snapshot,
    unseal_large_snapshot,
    unseal_snapshot,
)
from service.runtime.cooperative import run_once

PART_BYTES = 262_144

log = logging.getLogger(__name__)


def sealed(snapshot: Snapshot, *, is_in_parts: bool = False) -> SnapshotRecord:
    s = snapshot
    state = b"" if is_in_parts else seal_snapshot(bytes(s.state), s.life, s.seq)
    outcomes = seal_outcomes(s.outcomes, s.life, s.seq, s.version)
    return SnapshotRecord(s.life, s.seq, s.version, state, outcomes, s.needed, s.replaced)


def state_of(connection: sqlite3.Connection, life: int, seq: int, sealed: bytes) -> StateBytes:
    """The state of a snapshot, whose row says `sealed`; Damaged if it is not what was saved.

    What is in parts is put together part by part: in one go, it would keep the interpreter for too long.
    """
    if sealed:
        return unseal_snapshot(sealed, life, seq)
    of_snapshot = "FROM snapshot_part WHERE model = ? AND seq = ?"
    (size,) = connection.execute(f"SELECT total(length(body)) {of_snapshot}", (life, seq)).fetchone()
    whole, end = np.empty(int(size), np.uint8).data, 0
    for (body,) in connection.execute(f"SELECT CAST(body AS BLOB) {of_snapshot} ORDER BY part", (life, seq)):
        if not isinstance(body, bytes) or end + len(body) > len(whole):
            raise Damaged(f"the snapshot after event {seq} is damaged: a part of it is not what was saved")
        whole[end : end + len(body)] = body
        end += len(body)
    return unseal_large_snapshot(whole, life, seq)


class LargeSnapshots:
    """Saves snapshots in parts, those of one model one after the other."""

    def __init__(self, submit: Callable[[Record], Future[Appended]]) -> None:
        self._submit = submit
        self._tasks: dict[str, Task[None]] = {}

    def save(self, snapshot: Snapshot) -> None:
        """Begin to save it. Never raises: if it cannot be saved, that is logged."""
        work = self._save(snapshot, self._tasks.get(snapshot.model))
        task = self._tasks[snapshot.model] = run_once("saving a large snapshot", work)
        task.add_done_callback(partial(self._saved, snapshot.model))

    async def settle(self) -> None:
        """Wait until all are saved or have failed."""
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    async def settle_of(self, model: str) -> None:
        """The same for those of one model."""
        while (task := self._tasks.get(model)) is not None:
            await asyncio.wait([task])

    async def _save(self, snapshot: Snapshot, before: Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        state, life, seq = snapshot.state, snapshot.life, snapshot.seq
        try:
            seal = await asyncio.to_thread(seal_of_snapshot, [state], life, seq)
            for number, body in enumerate(cut(state, PART_BYTES, seal)):
                await self._submit(PartRecord(life, seq, number, body))
            await self._submit(sealed(replace(snapshot, state=b""), is_in_parts=True))
        except UnknownModel:
            pass  # deleted meanwhile, and with it what was saved
        except NovikoffError as error:
            log.warning("no snapshot of %s: %s", snapshot.model, error)

    def _saved(self, model: str, task: Task[None]) -> None:
        if self._tasks.get(model) is task:
            del self._tasks[model]
