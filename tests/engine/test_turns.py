"""Long work with models leaves the event loop its turns, and gives the same bits as if it had not."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from service.engine.clock import Clock
from service.engine.engine_settings import EngineSettings
from service.engine.fleet import large_models
from service.engine.fleet.fleet import Fleet
from service.engine.fleet.live import Live
from service.engine.fleet.loading import restore_live
from service.engine.models.model import Model
from service.events import (
    AnyEvent,
    ModelCreated,
    ModelDeleted,
    ModelImported,
    RoundLearned,
    RoundsLearned,
    Table,
)
from service.journal.protocol import Appended, Recorded, StoredModel
from service.web.routes.model_settings import ModelLimits, ModelSettings
from tests.journal.journals import sqlite_at
from tests.support.waiting import eventually_async

LIMITS = ModelLimits(100, 100, 512, 10**8)
SMALL = ModelSettings(features={"dimension": 20}).complete(LIMITS)
LARGE = ModelSettings(
    features={"dimension": 400}, learner={"algorithm": "arow", "covariance": "full"}
).complete(LIMITS)
"""160,400 numbers: each event takes a good part of a millisecond."""


def rounds(settings: dict[str, Any], count: int, *, name: str = "m", ids: bool = False) -> list[AnyEvent]:
    """The event that makes a model, and rounds for it."""
    created = ModelCreated(name, 1, settings)
    model = Model(created)
    draw = random.Random(count)
    dimension = settings["features"]["dimension"]
    return [
        created,
        *(
            RoundLearned(
                name,
                2 + at,
                f"{name}-{at}" if ids else None,
                draw.choice([-1, 1]),
                model.features.encode(model.features.read([draw.gauss(0, 1) for _ in range(dimension)])),
            )
            for at in range(count)
        ),
    ]


def folded(events: list[AnyEvent]) -> Model:
    assert isinstance(events[0], ModelCreated)
    model = Model(events[0])
    for event in events[1:]:
        model.apply(event)
    return model


class Turns:
    """Counts the turns that somebody else gets."""

    count = 0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.count += 1


@contextmanager
def counted_turns() -> Iterator[Turns]:
    turns = Turns()
    task = asyncio.create_task(turns.run())
    try:
        yield turns
    finally:
        task.cancel()


@contextmanager
def threads_busy() -> Iterator[None]:
    """What is to be done beside the loop has to wait for the end of this."""
    taken, released = threading.Barrier(large_models.THREADS + 1), threading.Event()

    def wait() -> None:
        taken.wait()
        released.wait()

    for _ in range(large_models.THREADS):
        large_models._threads.submit(wait)
    taken.wait()  # from now on what is in the queue is of somebody else
    try:
        yield
    finally:
        released.set()


@asynccontextmanager
async def fleet_at(path: Path, *, snapshot_every_events: int = 10**6) -> AsyncIterator[Fleet]:
    journal = sqlite_at(path, events_kept_max=1_000)
    fleet = Fleet(
        journal,
        Clock(),
        EngineSettings(models_loaded_max=10, snapshot_every_events=snapshot_every_events),
    )
    await journal.open(fleet.apply)
    try:
        yield fleet
    finally:
        await fleet.save_all()
        await journal.close()


async def append_all(fleet: Fleet, events: list[AnyEvent]) -> list[Appended]:
    first, *rest = events
    assert isinstance(first, ModelCreated | ModelImported)
    await fleet.create(first)
    live = await fleet.get(first.model)
    return await asyncio.gather(*(fleet.append(live, event) for event in rest))


async def test_a_long_replay_of_a_small_model_is_done_in_slices() -> None:
    events = rounds(SMALL, 4_000)
    tail = [Recorded(seq, event) for seq, event in enumerate(events, 1)]
    with counted_turns() as turns:
        live = await restore_live("m", StoredModel(None, 0, tail, [], 0, 1))
    assert turns.count >= 2
    assert live.model.to_bytes() == folded(events).to_bytes() and live.seq == len(events)


async def test_a_block_whose_rounds_are_learned_one_by_one_is_replayed_in_slices() -> None:
    created = ModelCreated("m", 1, ModelSettings(features={"kind": "named"}).complete(LIMITS))
    tables = [Table([f"n{at}"], 1, memoryview(np.ones(1).tobytes())) for at in range(1_500)]
    block = RoundsLearned("m", 2, [1, -1] * 750, tables)
    with counted_turns() as turns:
        live = await restore_live(
            "m", StoredModel(None, 0, [Recorded(1, created), Recorded(2, block)], [], 0, 1)
        )
    assert turns.count >= 2
    assert live.model.to_bytes() == folded([created, block]).to_bytes()
    assert (live.seq, live.since_snapshot) == (2, 1_500)


async def test_a_large_model_is_replayed_in_thread() -> None:
    events = rounds(LARGE, 100)
    tail = [Recorded(seq, event) for seq, event in enumerate(events, 1)]
    with threads_busy():
        restoring = asyncio.create_task(restore_live("m", StoredModel(None, 0, tail, [], 0, 1)))
        await eventually_async(lambda: large_models._threads._work_queue.qsize() > 0)
        for _ in range(2 * len(events)):  # in slices there would be one for each event at the most
            await asyncio.sleep(0)
        assert not restoring.done(), "it waits for a thread"
    live = await restoring
    assert live.model.to_bytes() == folded(events).to_bytes()


async def test_what_comes_for_a_model_that_is_being_loaded_is_applied_after_it_and_once(
    tmp_path: Path,
) -> None:
    """Some of what comes meanwhile is in what was read already, and some is not."""
    events = rounds(LARGE, 60)
    async with fleet_at(tmp_path) as fleet:
        await append_all(fleet, events[:41])
        live = fleet.loaded["m"]
        await fleet._journal.settle()
        fleet._unload(live)
        with threads_busy():
            loading = asyncio.create_task(fleet.get("m"))
            await asyncio.sleep(0)
            for event in events[41:]:
                await fleet._journal.append(event, live.life)  # as another replica would
        again = await loading
        assert again is not live and again.model.to_bytes() == folded(events).to_bytes()


async def test_a_model_that_is_deleted_and_made_anew_while_it_is_loaded_is_the_new_one(
    tmp_path: Path,
) -> None:
    events = rounds(LARGE, 40)
    async with fleet_at(tmp_path) as fleet:
        await append_all(fleet, events)
        await fleet._journal.settle()
        fleet._unload(fleet.loaded["m"])
        again = rounds(LARGE, 1)
        with threads_busy():
            loading = asyncio.create_task(fleet.get("m"))
            await eventually_async(lambda: large_models._threads._work_queue.qsize() > 0)
            await fleet.delete(ModelDeleted("m", 100))
            await fleet.create(again[0])  # type: ignore[arg-type]
        assert (await loading).model.to_bytes() == folded(again[:1]).to_bytes()


async def test_a_group_of_many_events_is_applied_in_slices(tmp_path: Path) -> None:
    events = rounds(LARGE, 150)
    async with fleet_at(tmp_path) as fleet:
        first, *rest = events
        await fleet.create(first)  # type: ignore[arg-type]
        live = await fleet.get("m")
        appended = [fleet.submit(live, event) for event in rest]
        seen: set[int] = set()

        async def look() -> None:
            while not appended[-1].done():
                seen.add(live.model.version)
                await asyncio.sleep(0)

        await look()
        assert len(seen) > 3  # others have seen the model on the way
        numbers = [one.result().seq for one in appended]
        assert numbers == sorted(numbers)
        assert live.model.to_bytes() == folded(events).to_bytes()


async def test_closing_waits_for_events_that_are_still_to_be_applied(tmp_path: Path) -> None:
    events = rounds(LARGE, 100)
    async with fleet_at(tmp_path) as fleet:
        await append_all(fleet, events[:1])
        live = await fleet.get("m")
        appended = [fleet.submit(live, event) for event in events[1:]]
    assert all(one.done() and one.exception() is None for one in appended)


def test_a_snapshot_is_due_by_events_or_by_the_time_that_they_took() -> None:
    live = Live(folded(rounds(SMALL, 1)), 1, 1)
    assert not live.is_snapshot_due(1_000)
    live.since_snapshot = 1_000
    assert live.is_snapshot_due(1_000)
    live.since_snapshot, live.unsaved_seconds = 5, 1.0
    assert live.is_snapshot_due(1_000)
    live.snapshot_seconds = 0.2  # then it is not worth it before four seconds
    assert not live.is_snapshot_due(1_000)
    live.unsaved_seconds = 4.0
    assert live.is_snapshot_due(1_000)
    live.saved()
    assert not live.is_snapshot_due(1_000) and live.unsaved_seconds == 0.0


async def test_applying_and_replaying_count_as_work(tmp_path: Path) -> None:
    events = rounds(LARGE, 20)
    async with fleet_at(tmp_path) as fleet:
        await append_all(fleet, events)
        live = fleet.loaded["m"]
        assert live.unsaved_seconds > 0
        await fleet._journal.settle()
        fleet._unload(live)
        again = await fleet.get("m")
        assert again is not live and again.unsaved_seconds > 0


async def test_a_snapshot_of_a_large_model_is_the_state_of_its_event_while_others_come(
    tmp_path: Path,
) -> None:
    events = rounds(LARGE, 60, ids=True)
    async with fleet_at(tmp_path, snapshot_every_events=25) as fleet:
        appended = await append_all(fleet, events[:26])
        live = fleet.loaded["m"]
        assert live.is_being_saved and live.pins  # it is not unloaded before the snapshot is saved
        appended += await asyncio.gather(*(fleet.append(live, event) for event in events[26:40]))
        await fleet._saving._settle()
        assert not live.is_being_saved and not live.pins
        appended += [await fleet.append(live, event) for event in events[40:50]]
        stored = await fleet._journal.load("m")
        assert stored is not None
        numbers = [1, *(one.seq for one in appended)]
        known = numbers.index(stored.seq) + 1
        assert known >= 26
        assert stored.state == folded(events[:known]).to_bytes()
        assert [recorded.seq for recorded in stored.tail] == numbers[known:]
        assert live.outcome_of(numbers[-1]) == appended[-1].applied


async def test_a_large_import_is_decoded_in_a_thread(tmp_path: Path) -> None:
    model = folded(rounds(LARGE, 5))
    imported = ModelImported("copy", 9, model.settings, model.to_bytes())
    assert large_models.is_large_import(imported)
    async with fleet_at(tmp_path) as fleet:
        await fleet.create(imported)
        assert "copy" not in fleet.loaded and fleet.model_count.total == 1
        live = await fleet.get("copy")
        assert [w.tolist() for _, w in live.model.weights()] == [w.tolist() for _, w in model.weights()]
