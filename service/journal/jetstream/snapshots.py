"""Snapshots in the cluster: saved by whichever replica is first, found by a pointer that only moves forward.

A snapshot is never overwritten with other content: its subject has the sequence number of its last event, and all
replicas have the same state after the same event, to the bit. The pointer is moved by compare-and-set.
"""

import asyncio
import logging
import time
from asyncio import Task
from collections.abc import Iterator
from functools import partial

from msgspec.structs import replace

from service.errors import JournalUnavailable, NovikoffError
from service.journal import thinning
from service.journal.jetstream.messages import KeptPage, KeptSnapshot, Pointer, decode_pointer, encode
from service.journal.jetstream.streams import Streams
from service.journal.jetstream.subjects import Subjects
from service.journal.protocol import Snapshot
from service.runtime.cooperative import run_once

log = logging.getLogger(__name__)

PAGES_MAX = 1_000
SAVED_AT_ONCE = 8
BLOB_MARGIN_US = 600_000_000
"""A blob is stored before its event, by less than this: younger ones may belong to events that are yet to come."""


class Snapshots:
    """Saves and finds snapshots, and trims the log below them."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._api, self._publisher, self._subjects = streams.api, streams.publisher, streams.subjects
        self._events_kept_max = streams.options.events_kept_max
        self._history_bytes_max = streams.options.history_bytes_max
        self._events_kept_us = round(streams.options.events_kept_seconds * 1e6)
        self._tasks_by_life: dict[int, Task[None]] = {}
        self._turn = asyncio.Semaphore(SAVED_AT_ONCE)
        self._unsaved_outcomes: dict[int, bytes] = {}
        self._incomplete: set[int] = set()
        """Lives whose first events are not in the log, until the pointer says so."""
        self._with_tags: set[int] = set()
        """Lives that have rounds with tags, until the pointer says so."""

    def save(
        self,
        life: int,
        snapshot: Snapshot,
        voided_through: int,
        digest: bytes | None,
        *,
        is_whole: bool = True,
        has_tags: bool = False,
    ) -> None:
        """Save a snapshot in the background; those of one model are saved in their order.

        `digest`: that of the model's chain up to there. Without one, only the outcomes are kept, for the next snapshot:
        events may be missing. `has_tags`: it may know of something that can be forgotten.
        """
        if not is_whole:
            self._incomplete.add(life)
        if has_tags:
            self._with_tags.add(life)
        before = self._tasks_by_life.get(life)
        work = self._save_after(before, life, snapshot, voided_through, digest)
        task = self._tasks_by_life[life] = run_once("saving a snapshot", work)
        task.add_done_callback(partial(self._saved, life))

    def _saved(self, life: int, task: Task[None]) -> None:
        if self._tasks_by_life.get(life) is task:
            del self._tasks_by_life[life]

    async def settle(self) -> None:
        while self._tasks_by_life:
            await asyncio.wait(list(self._tasks_by_life.values()))

    async def settle_of(self, life: int) -> None:
        """Wait until the snapshots of one model are saved."""
        while (task := self._tasks_by_life.get(life)) is not None:
            await asyncio.wait([task])

    def forget(self, life: int) -> None:
        """Let go of outcomes that could not be saved."""
        self._unsaved_outcomes.pop(life, None)

    async def _save_after(
        self,
        before: Task[None] | None,
        life: int,
        snapshot: Snapshot,
        voided_through: int,
        digest: bytes | None,
    ) -> None:
        if before is not None:
            await asyncio.wait([before])
        async with self._turn:
            await self._save_or_log(life, snapshot, voided_through, digest)

    async def _save_or_log(
        self, life: int, snapshot: Snapshot, voided_through: int, digest: bytes | None
    ) -> None:
        outcomes = self._unsaved_outcomes.pop(life, b"") + snapshot.outcomes
        try:
            if digest is None:
                raise JournalUnavailable("it may lack events")
            await self._save(life, snapshot, voided_through, digest, outcomes)
        except Exception as error:
            # A page has to begin where the one before it ended, so the next one contains these outcomes too.
            self._unsaved_outcomes[life] = outcomes
            if not isinstance(error, NovikoffError):
                raise
            log.warning("no snapshot of %s: %s", snapshot.model, error)

    async def _save(
        self, life: int, snapshot: Snapshot, voided_through: int, digest: bytes, outcomes: bytes
    ) -> None:
        s = self._subjects
        has_stored = False
        while True:
            pointer, revision = await self.pointer(life, in_any_copy=True)
            if pointer.snapshots and pointer.snapshots[-1].seq >= snapshot.seq:
                if has_stored and pointer.has_tags:
                    await self.clean(life, pointer, revision)
                return  # another replica was first
            has_stored = True
            parts, _ = await self._streams.store(partial(s.snapshot, life, snapshot.seq), snapshot.state)
            pages, state_seq = await self._streams.store(
                partial(s.page, life, snapshot.seq, ""), outcomes, keep_first=True
            )
            now = time.time_ns() // 1000
            page = KeptPage(snapshot.seq, snapshot.version, pages, now, state_seq)
            kept = KeptSnapshot(snapshot.seq, snapshot.version, parts, voided_through, digest)
            needed = thinning.needed_for(
                snapshot.version, self._events_kept_max, snapshot.needed, snapshot.replaced
            )
            whole = replace(pointer, snapshots=[*pointer.snapshots, kept], pages=[*pointer.pages, page])
            moved = replace(
                whole,
                snapshots=self._thinned(whole.snapshots, len(snapshot.state), needed),
                pages=whole.pages[-PAGES_MAX:],
                trimmed_through=max(pointer.trimmed_through, life if life in self._incomplete else 0),
                has_tags=pointer.has_tags or life in self._with_tags,
            )
            trimmed = self._trimmed(moved, now, needed)
            ack = await self._publisher.publish(s.pointer(life), encode(trimmed), expected=revision)
            if ack.stored:
                self._incomplete.discard(life)
                self._with_tags.discard(life)
                await self._remove_unnamed(life, snapshot.model, whole, trimmed, ack.seq)
                return

    def _trimmed(self, pointer: Pointer, now: int, needed: int | None) -> Pointer:
        """The pointer without the pages of events that are to be trimmed: too many and too old."""
        newest = pointer.snapshots[-thinning.NEWEST_KEPT :]
        version = thinning.goes_through(newest[-1].version, self._events_kept_max, needed)
        due = [
            page
            for page in pointer.pages
            if page.version <= version
            and page.at <= now - self._events_kept_us
            and page.through <= newest[0].seq  # a replica that is loading the model needs later ones
        ]
        if not due:
            return pointer
        last = due[-1]
        below, at = pointer.blobs_below, pointer.blobs_at
        if last.at - at >= BLOB_MARGIN_US:
            below, at = last.state_seq, last.at
        snapshots = [kept for kept in pointer.snapshots if kept.seq >= last.through]
        return replace(
            pointer,
            snapshots=snapshots,
            pages=pointer.pages[len(due) :],
            trimmed_through=last.through,
            blobs_below=below,
            blobs_at=at,
        )

    def _thinned(
        self, snapshots: list[KeptSnapshot], state_bytes: int, needed: int | None
    ) -> list[KeptSnapshot]:
        room = thinning.room_for(state_bytes, self._history_bytes_max)
        versions = [kept.version for kept in snapshots]
        return [snapshots[place] for place in thinning.kept(versions, room, needed)]

    async def _remove_unnamed(self, life: int, model: str, old: Pointer, new: Pointer, revision: int) -> None:
        """Remove what the pointer no longer names.

        If this is interrupted, the next snapshot of a model with tags goes on with it; of others it stays until the
        model is deleted.
        """
        s = self._subjects
        if new.has_tags:
            await self.clean(life, new, revision)
        else:
            for kept in old.snapshots:
                if kept not in new.snapshots:
                    await self._api.purge(s.state, s.parts_of_snapshot(life, kept.seq))
            for page in old.pages:
                if page not in new.pages:
                    await self._api.purge(s.state, s.parts_of_page(life, page.through))
        if new.trimmed_through > old.trimmed_through:
            await self._api.purge(s.log, s.events_of(life, model), below=new.trimmed_through + 1)
        if new.blobs_below > old.blobs_below > 0:
            await self._api.purge(s.state, s.blobs_of(life), below=old.blobs_below)

    async def clean(self, life: int, pointer: Pointer, revision: int) -> None:
        """Overwrite what this revision of a model's pointer does not name and no later one will.

        What is purged stays in the servers' files for long, and cannot be overwritten any more. To delete a message
        by its number takes a server some milliseconds, hence for models with tags only.
        """
        if not pointer.snapshots:
            return
        s, newest, unnamed = self._subjects, pointer.snapshots[-1].seq, list[str]()
        named = set(_named(s, life, pointer))
        for kind in [*s.snapshots_and_pages_of(life), s.erased_of(life)]:
            for subject in await self._api.subjects(s.state, kind):
                written_for = s.revision_in(subject)
                is_over = s.number_in(subject) <= newest if written_for is None else written_for < revision
                if is_over and subject not in named:
                    unnamed.append(subject)
        await self._api.overwrite_last(s.state, unnamed)

    async def pointer(self, life: int, *, in_any_copy: bool = False) -> tuple[Pointer, int]:
        """The pointer of a model, and its own sequence number for a compare-and-set; an empty one and 0 if none."""
        read = self._api.last_of_any_copy if in_any_copy else self._api.last_from_leader
        found = await read(self._subjects.state, self._subjects.pointer(life))
        return (decode_pointer(found.data), found.seq) if found is not None else (Pointer(), 0)

    async def state(self, life: int, kept: KeptSnapshot) -> bytes | None:
        return await self._streams.load(partial(self._subjects.snapshot, life, kept.seq), kept.parts)

    async def page(self, life: int, seq: int) -> bytes | None:
        """The outcomes that were saved with the first snapshot at or after `seq`."""
        tried: KeptPage | None = None
        while True:
            pointer, _ = await self.pointer(life)
            page = next((page for page in pointer.pages if page.through >= seq), None)
            if page is None or page == tried:
                return None
            found = await self.outcomes(life, page)
            if found is not None:
                return found
            tried = page  # it may have been written anew a moment ago

    async def outcomes(self, life: int, page: KeptPage) -> bytes | None:
        subject = partial(self._subjects.page, life, page.through, page.edition)
        return await self._streams.load(subject, page.parts)


def _named(s: Subjects, life: int, pointer: Pointer) -> Iterator[str]:
    for kept in pointer.snapshots:
        yield from (s.snapshot(life, kept.seq, part) for part in range(kept.parts))
    for page in pointer.pages:
        yield from (s.page(life, page.through, page.edition, part) for part in range(page.parts))
    if (erased := pointer.erased) is not None:
        first, last, edition = erased.first, erased.last, erased.edition
        yield from (s.erased(life, first, last, edition, part) for part in range(erased.parts))
